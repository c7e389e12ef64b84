# SPDX-License-Identifier: Apache-2.0
"""fit() with parameters, gradients and optimizer state that wait in host memory between uses, on CPU tensors: the bits of plain PyTorch, the
memory that was promised, and state that is whole between steps."""

import contextlib
import copy
import io
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from fit_steps import PREDICTION, loss_of, same  # first: without PyTorch it skips the test

import torch
from fit_places import HostCopies
from fit_training import MODELS, OPTIMIZERS, Deep, Training
from torch import nn

import thermocline.torch as tt


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
    """What training loops do with parameters, gradients and state."""

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


class Calls(unittest.TestCase):
    def test_a_trial_of_a_module_moves_its_parameters(self) -> None:
        torch.manual_seed(1)
        model, x = Deep(), torch.randn(4, 64)
        before = [t.clone() for t in model.parameters()]
        budget = sum(p.nbytes for p in model.parameters())  # the gradients need as much again
        fitted = tt.fit(model, x, budget=budget, plans="swap", states=model, place=HostCopies(), verbose=False, min_bytes=256)
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
        model, place = Deep(), HostCopies()

        class NoHome:
            takes = leave = settle = lambda *_: None

        for kind, words_, options in (
            (TypeError, "states: a module, an optimizer or a tensor, .* not int", {"states": 3, "place": place}),
            (TypeError, "it has a str", {"states": [model, "x"], "place": place}),
            (ValueError, "plans='recompute' moves nothing", {"states": model}),
            (TypeError, "NoHome has none", {"states": model, "place": NoHome()}),
        ):
            with self.assertRaisesRegex(kind, words_) as caught:
                tt.fit(model, budget="50%", verbose=False, **options)
            self.assertNotIn("\n", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
