# SPDX-License-Identifier: Apache-2.0
"""fit() with parameters, gradients and optimizer state that wait in host memory between uses, on CPU tensors: the bits of plain PyTorch, the
memory that was promised, and state that is whole between steps."""

import contextlib
import copy
import io
import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(__file__))
from fit_steps import PREDICTION, loss_of, same  # first: without PyTorch it skips the test

import torch
from fit_stores import HostStateCopy, HostStore
from fit_training import MODELS, OPTIMIZERS, Deep, Training
from torch import nn

import thermocline.torch as tt
from thermocline.torch._lineage import Operator, Value, make
from thermocline.torch._operators import facts_of


class States(unittest.TestCase):
    def check(self, name: str, budget, optimizer: str = "Adam", dtype=torch.float32, plans="joint", zero_first=False) -> Training:
        plain = Training(name, optimizer, dtype, zero_first=zero_first).run()
        ours = Training(name, optimizer, dtype, zero_first=zero_first).fit(budget, plans=plans).run()
        self.assertTrue(same(plain.left(), ours.left()))
        answer = ours.fitted.plan.answer
        self.assertIsNone(ours.fitted.counts.diverged_at)
        self.assertLessEqual(ours.peaks[-1], answer["budget_bytes"])
        # Gradients that the step before left count as if they were on the device until the step frees them.
        if not zero_first:
            self.assertLess(abs(ours.peaks[-1] / answer["peak_bytes"] - 1), PREDICTION)
        self.assertGreater(len(answer["moves"]), 0)
        return ours

    def test_models(self) -> None:
        for name in MODELS:
            for dtype, plans in ((torch.float32, "joint"), (torch.bfloat16, "swap")):
                with self.subTest(name=name, dtype=dtype):
                    self.check(name, "50%", dtype=dtype, plans=plans)

    def test_optimizers_and_gradients_that_outlive_the_step(self) -> None:
        for optimizer in OPTIMIZERS:
            for zero_first in (False, True):
                with self.subTest(optimizer=optimizer, zero_first=zero_first):
                    self.check("deep", "40%", optimizer, plans="swap", zero_first=zero_first)

    def test_a_budget_below_the_parameters(self) -> None:
        plain = Training("deep").run()
        parameters = sum(p.nbytes for p in plain.model.parameters())
        ours = self.check("deep", parameters // 2)
        self.assertLess(ours.peaks[-1], parameters)
        # So was every step after the first two, in which the optimizer has no state yet, and the second, which is recorded again.
        self.assertLess(max(ours.peaks[2:]), parameters)

    def test_peak_is_monotone_in_the_budget(self) -> None:
        peaks = [Training("deep").fit(f"{percent}%").run().peaks[-1] for percent in (80, 50, 25)]
        self.assertEqual(peaks, sorted(peaks, reverse=True))
        self.assertLess(peaks[-1], 0.4 * peaks[0])


class Programs(unittest.TestCase):
    """Training loops as people write them, with parameters, gradients and state."""

    def run_both(self, step, *, steps: int = 5, budget="40%") -> Training:
        """step: of a Training and the number of the step; runs inside."""
        trainings = []
        for fits in (False, True):
            training = Training("deep")
            now = [0]
            training.step = lambda training=training, now=now: step(training, now[0])
            if fits:
                training.fit(budget, plans="swap")
            for now[0] in range(steps):
                training.run(1)
            trainings.append(training)
        plain, ours = trainings
        self.assertTrue(same(plain.left(), ours.left()))
        return ours

    def test_clipping(self) -> None:
        def step(t: Training, i: int) -> torch.Tensor:
            loss = loss_of(t.model(t.x))
            loss.backward()
            nn.utils.clip_grad_norm_(t.model.parameters(), 0.01, foreach=False)
            t.optimizer.step()
            t.optimizer.zero_grad()
            return loss.detach()

        ours = self.run_both(step)
        self.assertGreater(len(ours.fitted.plan.answer["moves"]), 0)
        self.assertIsNone(ours.fitted.counts.diverged_at)

    def test_accumulation_and_gradients_set_to_zero(self) -> None:
        def step(t: Training, i: int) -> torch.Tensor:
            for _ in range(2):
                loss = loss_of(t.model(t.x))
                loss.backward()
            t.optimizer.step()
            t.optimizer.zero_grad(set_to_none=False)
            return loss.detach()

        ours = self.run_both(step)
        self.assertLessEqual(ours.peaks[-1], ours.fitted.plan.answer["budget_bytes"])
        self.assertIsNone(ours.fitted.counts.diverged_at)

    def test_steps_that_are_not_the_recorded_one(self) -> None:
        def step(t: Training, i: int) -> torch.Tensor:
            loss = loss_of(t.model(t.x))
            loss.backward()
            if i % 4 != 3:
                t.optimizer.step()
                t.optimizer.zero_grad()
            return loss.detach()

        self.run_both(step, steps=9)

    def test_the_bytes_on_the_device_are_known_whatever_moves(self) -> None:
        looked_at = [0]

        def step(t: Training, i: int) -> torch.Tensor:
            loss = loss_of(t.model(t.x))
            loss.backward()
            if t.fitted is not None and t.fitted._states.room is not None:
                here = t.fitted._states._here
                self.assertEqual(here.bytes, sum(state.bytes for _, state in here.by_age()))
                self.assertEqual(here.bytes, sum(s.storage().nbytes() for s in t.fitted._states._by_key.values()))
                looked_at[0] += 1
            if i % 2:
                t.optimizer.step()
            t.optimizer.zero_grad()
            return loss.detach()

        def other(t: Training, i: int) -> torch.Tensor:
            if i == 3:
                t.x.abs()  # not in the recorded step: from here on states leave by age
            return step(t, i)

        self.run_both(other, steps=5)
        self.assertGreater(looked_at[0], 0)

    def test_layers_in_another_order_take_other_parameters(self) -> None:
        """The same operators in the same order: nothing but the arguments tells."""

        def step(t: Training, i: int) -> torch.Tensor:
            x = t.x
            for layer in reversed(t.model.layers) if i == 4 else t.model.layers:
                x = layer(x).tanh()
            loss = loss_of(x)
            loss.backward()
            t.optimizer.step()
            t.optimizer.zero_grad()
            return loss.detach()

        self.run_both(step, steps=6)

    def test_views_and_reads_of_parameters_inside(self) -> None:
        kept: list[torch.Tensor] = []

        def step(t: Training, i: int) -> torch.Tensor:
            first = t.model.layers[0].weight
            loss = loss_of(t.model(t.x)) + first[3, 5:9].sum() + first.data.T.sum().item() + first.detach().unbind(0)[2].mean()
            loss.backward()
            t.optimizer.step()
            t.optimizer.zero_grad()
            kept[:] = [t.model.layers[2].weight.detach().T]
            return loss.detach()

        ours = self.run_both(step)
        # Somebody else has a view of this one, so it is where the view is.
        self.assertFalse(ours.fitted.is_in_host_memory(ours.model.layers[2].weight))
        self.assertTrue(torch.equal(kept[0], ours.model.layers[2].weight.T))

    def test_parameters_that_are_views_of_a_buffer(self) -> None:
        results = []
        for fits in (False, True):
            training, now = Training("deep"), [0]
            weights = [layer.weight for layer in training.model.layers[7:9]]
            training.model.register_buffer("flat", torch.stack([w.detach() for w in weights]))
            for i, weight in enumerate(weights):
                weight.data = training.model.flat[i]
            plain_step = training.step

            def step(training=training, now=now, plain_step=plain_step) -> torch.Tensor:
                now[0] += 1
                if now[0] > 2:
                    training.x + 0  # not in the recorded step: states leave by age
                return plain_step()

            training.step = step
            if fits:
                training.fit("40%", plans="swap")
            waited = 0
            for _ in range(7):
                training.run(1)
                waited += fits and training.fitted.is_in_host_memory(training.model.flat)
            results.append(training.left())
            self.assertEqual(waited > 0, fits)
            self.assertEqual(weights[1].data_ptr(), training.model.flat[1].data_ptr())
        self.assertTrue(same(*results))

    def test_a_graph_that_outlives_the_step(self) -> None:
        losses: list[torch.Tensor] = []

        def step(t: Training, i: int) -> torch.Tensor:
            loss = loss_of(t.model(t.x))
            loss.backward()
            t.optimizer.step()
            t.optimizer.zero_grad()
            losses.append(loss_of(t.model(t.x)))
            return loss.detach()

        gradients = []
        for fits in (False, True):
            training = Training("deep")
            training.step = lambda training=training: step(training, 0)
            if fits:
                training.fit("60%", plans="swap")
            training.run(5)
            losses[-1].backward()
            gradients.append([p.grad for p in training.model.parameters()])
            losses.clear()
        self.assertTrue(same(*gradients))


class Lists(unittest.TestCase):
    """Optimizers that take all parameters in one operator."""

    def training(self, **options) -> Training:
        training = Training("deep")
        training.optimizer = torch.optim.Adam(training.model.parameters(), 0.01, **options)
        return training

    def test_foreach_takes_one_parameter_after_the_other_inside(self) -> None:
        plain = self.training(foreach=True).run()
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            ours = self.training(foreach=True).fit("35%", plans="swap", verbose=True).run()
        self.assertTrue(same(plain.left(), ours.left()))
        self.assertLessEqual(ours.peaks[-1], ours.fitted.plan.answer["budget_bytes"])
        self.assertLess(ours.peaks[-1], 0.4 * max(plain.peaks))
        self.assertEqual(said.getvalue().count("Adam takes one parameter after the other inside (foreach=False)"), 1)
        # The program's own setting is in its checkpoints.
        self.assertIs(ours.optimizer.state_dict()["param_groups"][0]["foreach"], True)

    def test_what_is_saved_within_a_step_has_the_programs_own_setting(self) -> None:
        """In the first step nothing is in host memory yet, and nothing is refused."""
        for foreach in (True, None):
            with self.subTest(foreach=foreach):
                ours, saved = self.training(foreach=foreach), []
                plain_step = ours.step

                def step(ours=ours, saved=saved, plain_step=plain_step) -> torch.Tensor:
                    saved.append(ours.optimizer.state_dict()["param_groups"][0]["foreach"])
                    saved.append(ours.optimizer.param_groups[0]["foreach"])
                    return plain_step()

                ours.step = step
                ours.fit("35%", plans="swap").run(1)
                self.assertEqual(saved, [foreach, False])
                self.assertFalse(ours.optimizer._optimizer_state_dict_post_hooks)

    def test_lists_that_do_not_fit_are_named_with_what_helps(self) -> None:
        ours = self.training(fused=True).fit("35%", plans="swap")
        with self.assertRaisesRegex(tt.DoesNotFitError, r"_fused_adam.* give foreach=False and fused=False to the optimizer"):
            ours.run(3)


class BetweenSteps(unittest.TestCase):
    """Everything is whole, wherever it is."""

    def setUp(self) -> None:
        self.plain = Training("GPT-2").run()
        self.ours = Training("GPT-2").fit("40%", plans="swap").run()
        self.assertTrue(any(self.ours.fitted.is_in_host_memory(t) for t in self.ours.tensors()))

    def go_on(self) -> None:
        state = torch.get_rng_state()
        self.plain.run(2)
        torch.set_rng_state(state)
        self.ours.run(2)
        self.assertTrue(same(self.plain.left(), self.ours.left()))

    def test_tensor_objects_stay_the_programs_own(self) -> None:
        before = [id(t) for t in self.ours.model.parameters()]
        self.go_on()
        self.assertEqual(before, [id(t) for t in self.ours.model.parameters()])
        self.assertIs(self.ours.optimizer.param_groups[0]["params"][0], next(self.ours.model.parameters()))
        self.assertFalse(any(p._post_accumulate_grad_hooks for p in self.ours.model.parameters()))

    def test_a_checkpoint_is_saved_and_loaded(self) -> None:
        files = []
        for training in (self.plain, self.ours):
            file = io.BytesIO()
            torch.save({"model": training.model.state_dict(), "optimizer": training.optimizer.state_dict()}, file)
            file.seek(0)
            files.append(torch.load(file))
        self.assertTrue(same(*[list(file["model"].values()) for file in files]))
        self.go_on()
        for training, file in zip((self.plain, self.ours), files, strict=True):
            training.model.load_state_dict(file["model"])
            training.optimizer.load_state_dict(file["optimizer"])
        self.go_on()

    def test_a_copy_and_a_change(self) -> None:
        for training in (self.plain, self.ours):
            other = copy.deepcopy(training.model)
            for mine, theirs in zip(training.model.parameters(), other.parameters(), strict=True):
                self.assertTrue(torch.equal(mine, theirs))
                mine.data.mul_(0.5)  # autograd does not see it
        self.go_on()

    def test_an_error_in_a_step(self) -> None:
        right = self.ours.step
        for at in ("forward", "backward"):

            def wrong(at: str = at) -> None:
                loss = loss_of(self.ours.model(self.ours.x))
                if at == "backward":
                    loss.backward()
                raise ZeroDivisionError

            before = [t.clone() for t in self.ours.model.parameters()]
            state = torch.get_rng_state()
            self.ours.fitted._step = wrong
            with self.assertRaises(ZeroDivisionError):
                self.ours.fitted()
            self.assertTrue(same(before, list(self.ours.model.parameters())))
            self.ours.optimizer.zero_grad()
            torch.set_rng_state(state)
        self.ours.fitted._step = right
        self.go_on()

    def test_a_step_that_can_not_begin_leaves_everything_whole(self) -> None:
        whole, host_copy = torch.empty, self.ours.fitted._states._store.host_copy
        # The third state finds no memory; then one whose copy the program has (tensor.cpu()) finds no memory for another.
        calls = [0]

        def without_memory(*args, **kwargs) -> torch.Tensor:
            calls[0] += args[0] != 0
            if args[0] != 0 and calls[0] == 3:
                raise torch.OutOfMemoryError("no memory")
            return whole(*args, **kwargs)

        def without_copy(storage: torch.UntypedStorage):
            raise torch.OutOfMemoryError("no memory")

        before = [t.clone() for t in self.ours.tensors()]
        with mock.patch.object(torch, "empty", without_memory), self.assertRaises(torch.OutOfMemoryError):
            self.ours.fitted()
        self.assertTrue(same(before, self.ours.tensors()))
        held = [t.detach() for t in self.ours.tensors()]
        with mock.patch.object(self.ours.fitted._states._store, "host_copy", without_copy), self.assertRaises(torch.OutOfMemoryError):
            self.ours.fitted()
        self.assertIs(self.ours.fitted._states._store.host_copy.__func__, host_copy.__func__)
        self.assertTrue(same(before, held))
        self.assertTrue(same(before, self.ours.tensors()))
        self.go_on()

    def test_a_step_that_finds_no_memory_at_its_end_leaves_everything_whole(self) -> None:
        right, views = self.ours.step, []

        def step() -> torch.Tensor:
            loss = right()
            views.extend(t.detach() for t in self.ours.tensors())  # where these are the states have to be
            return loss

        for name in ("prefetch", "finish_prefetch"):
            function, calls = getattr(HostStateCopy, name), [0]

            def fails_at_times(self_, *args, function=function, calls=calls) -> None:
                calls[0] += bool(views)
                if calls[0] % 3 == 1:
                    raise torch.OutOfMemoryError("no memory")
                function(self_, *args)

            with self.subTest(name):
                state = torch.get_rng_state()
                self.plain.run(1)
                self.plain.losses.pop()
                torch.set_rng_state(state)
                self.ours.fitted._step = step
                with mock.patch.object(HostStateCopy, name, fails_at_times), self.assertRaises(torch.OutOfMemoryError):
                    self.ours.fitted()
                self.assertGreater(calls[0], 3)
                self.assertGreater(min(t.untyped_storage().nbytes() for t in self.ours.tensors()), 0)
                self.assertTrue(same(self.plain.left(), self.ours.left()))
                views.clear()
                self.ours.fitted._step = right
                self.go_on()

    def test_host_memory_of_a_state_is_its_own_for_all_steps(self) -> None:
        def waiting() -> dict[int, int]:
            return {id(t): t.data_ptr() for t in self.ours.tensors() if self.ours.fitted.is_in_host_memory(t)}

        before = waiting()
        self.ours.run(2)
        self.assertEqual(before, waiting())

    def test_a_checkpoint_inside_of_a_step_is_refused(self) -> None:
        right = self.ours.step
        for owner in (self.ours.model, self.ours.optimizer):

            def wrong(owner=owner) -> None:
                right()
                owner.state_dict()

            self.ours.fitted._step = wrong
            with self.assertRaisesRegex(RuntimeError, r"state_dict\(\) inside of the fitted step .* call it between steps"):
                self.ours.fitted()
            owner.state_dict()

    def test_an_optimizers_step_outside_is_refused(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "the optimizer's step has to run inside"):
            self.ours.optimizer.step()


class Lineage(unittest.TestCase):
    def test_an_operator_runs_again_on_a_state_that_is_in_host_memory(self) -> None:
        weight, multiply = torch.arange(1.0, 5.0), torch.ops.aten.mul.Tensor
        state = Value(weight.untyped_storage())
        operator = Operator(multiply, facts_of(multiply), (weight, weight), {}, lambda _: state, None)
        square = Value(torch.empty(4).untyped_storage(), operator)
        self.assertTrue(square.hold())
        weight.untyped_storage().resize_(0)

        def ready(storages: list[torch.UntypedStorage]) -> None:
            for storage in storages:
                storage.resize_(16)
                torch.empty(0).set_(storage).copy_(torch.arange(1.0, 5.0))

        made = make([square], lambda one, storages: one.run(storages), ready)
        self.assertEqual(torch.empty(0).set_(made[square]).tolist(), [1, 4, 9, 16])


class Calls(unittest.TestCase):
    def test_a_trial_of_a_module_moves_its_parameters(self) -> None:
        torch.manual_seed(1)
        model, x = Deep(), torch.randn(4, 64)
        before = [t.clone() for t in model.parameters()]
        budget = sum(p.nbytes for p in model.parameters())  # the gradients need as much again
        fitted = tt.fit(model, x, budget=budget, plans="swap", states=model, store=HostStore(), verbose=False, min_bytes=256)
        self.assertTrue(same(before, list(model.parameters())))
        self.assertTrue(all(p.grad is None for p in model.parameters()))
        self.assertGreater(len(fitted.plan.answer["moves"]), 0)
        with fitted:
            model(x).sum().backward()
        ours = [p.grad for p in model.parameters()]
        model.zero_grad()
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()
        model(x).sum().backward()
        self.assertTrue(same(ours, [p.grad for p in model.parameters()]))

    def test_bad_arguments_are_refused_in_a_line(self) -> None:
        model, store = Deep(), HostStore()

        class NoCopy:
            accepts = evict = release_copied = lambda *_: None

        for kind, words_, options in (
            (TypeError, "states: a module, an optimizer or a tensor, .* not int", {"states": 3, "store": store}),
            (TypeError, "it has a str", {"states": [model, "x"], "store": store}),
            (ValueError, "plans='recompute' moves nothing", {"states": model}),
            (TypeError, "NoCopy has none", {"states": model, "store": NoCopy()}),
            (ValueError, "cpu_step: .* it names nothing; write states=model", {"cpu_step": True, "store": store}),
        ):
            with self.assertRaisesRegex(kind, words_) as caught:
                tt.fit(model, budget="50%", verbose=False, **options)
            self.assertNotIn("\n", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
