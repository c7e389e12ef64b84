# SPDX-License-Identifier: Apache-2.0
"""fit() on CPU tensors: the bits of plain PyTorch, and the memory that was promised."""

import contextlib
import gc
import os
import re
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(__file__))
from fit_steps import PREDICTION, Chain, Steps, fit, loss_of, near_the_least, rows, same  # first: without PyTorch it skips the test

import torch
from fit_models import MODELS, Made
from fit_stores import HostStore
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import thermocline.torch as tt
from thermocline.torch import _step_plan


class Bits(unittest.TestCase):
    """Loss, gradients and buffers, and the peak of bytes."""

    def check(self, make, inputs, budget: str, dtype=torch.float32, loss=loss_of) -> tt.Fit:
        plain = Steps(make, inputs, dtype, loss).run()
        steps = Steps(make, inputs, dtype, loss)
        fitted = fit(steps.model, budget=budget)
        steps.run(fitted)
        self.assertTrue(same(plain.left, steps.left))
        self.assertIsNone(fitted.counts.diverged_at)
        self.assertEqual(fitted.counts.not_droppable, 0)
        answer = fitted.plan.answer
        self.assertLessEqual(steps.peaks[-1], answer["budget_bytes"])
        self.assertLess(abs(steps.peaks[-1] / answer["peak_bytes"] - 1), PREDICTION)
        self.assertGreater(fitted.counts.dropped, 0)
        return fitted

    def test_models(self) -> None:
        for name, (make, inputs) in MODELS.items():
            # On a processor without bfloat16 nothing of the LSTM's loss can leave below 71 % (see below).
            half = "72%" if name == "LSTM" else "70%"
            for dtype, budget in ((torch.float32, "60%"), (torch.bfloat16, half)):
                with self.subTest(name=name, dtype=dtype, budget=budget):
                    self.check(make, inputs, budget, dtype)

    def test_a_recurrent_net_of_single_operators(self) -> None:
        """oneDNN's recurrent layers are used by the processor's abilities and the type; without them each gate is an operator."""
        make, inputs = MODELS["LSTM"]
        with torch.backends.mkldnn.flags(enabled=False):
            for dtype, budget in ((torch.float32, "60%"), (torch.bfloat16, "72%")):
                with self.subTest(dtype=dtype, budget=budget):
                    self.check(make, inputs, budget, dtype)

    def test_random_programs(self) -> None:
        for seed in range(30):
            with self.subTest(seed=seed):
                plain = Steps(lambda: Made(seed), lambda: torch.randn(512, 32)).run()  # noqa: B023
                steps = Steps(lambda: Made(seed), lambda: torch.randn(512, 32))  # noqa: B023
                fitted = near_the_least(steps.model, plain.x)
                steps.run(fitted)
                self.assertTrue(same(plain.left, steps.left))
                self.assertIsNone(fitted.counts.diverged_at)
                self.assertLessEqual(steps.peaks[-1], fitted.plan.answer["budget_bytes"])

    def test_of_a_plan_for_time_and_one_for_flops_the_faster_is_taken(self) -> None:
        """Both are found by search, so that the second may be faster, too."""
        asked, ask = [], _step_plan._ask

        def noted(record, budget, **options) -> dict:
            answer = ask(record, budget, **options)
            asked.append(answer)
            return dict(answer)

        steps = Steps(*MODELS["ViT"])
        with mock.patch.object(_step_plan, "_ask", noted):
            fitted = fit(steps.model, steps.x, budget="42%", loss=lambda out, _x: loss_of(out))
        self.assertEqual(len(asked), 2)
        operators, answer = fitted.record.operators, fitted.plan.answer
        times = [sum(operators[place].microseconds for place in one["reruns"]) / 1000 for one in asked]
        self.assertAlmostEqual(answer["recomputed_ms"], min(times), 3)
        self.assertAlmostEqual(answer["step_ms"], answer["compute_ms"] + min(times), 3)
        for better in (0, 1):  # whichever it is
            def made_worse(record, budget, better=better, **options) -> dict:
                one = asked[len(given)]
                given.append({**one, "reruns": one["reruns"] * (1 if len(given) == better else 50)})
                return given[-1]

            given = []
            with mock.patch.object(_step_plan, "_ask", made_worse):
                taken = _step_plan.ask(fitted.record, fitted._budget, device="reference", plans="recompute", min_bytes=256)
            self.assertEqual(taken["reruns"], asked[better]["reruns"])

    def test_half_precision_by_autocast(self) -> None:
        class Cast(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.body = MODELS["GPT-2"][0]()

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                with torch.autocast("cpu", torch.bfloat16):
                    return self.body(x)

        self.check(Cast, MODELS["GPT-2"][1], "65%")

    def test_peak_is_monotone_in_the_budget(self) -> None:
        make, inputs = MODELS["ViT"]
        steps = Steps(make, inputs)
        peaks = []
        for percent in (95, 85, 75, 65, 55):
            fitted = fit(steps.model, budget=f"{percent}%")
            steps.run(fitted, 2)
            peaks.append(steps.peaks[-1])
            self.assertLessEqual(peaks[-1], fitted.plan.answer["budget_bytes"])
        self.assertEqual(peaks, sorted(peaks, reverse=True))
        self.assertLess(peaks[-1], 0.65 * peaks[0])


class Twice(torch.autograd.Function):
    """Saves an input, an output and something of its own."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp().clamp_max(3)
        ctx.save_for_backward(x, y, y * 2)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y, z = ctx.saved_tensors
        return grad * y * z * (x < 1)


class Programs(unittest.TestCase):
    """Autograd programs that do more than call layers."""

    def check(self, middle, *, dropped: bool = True, loss=loss_of, budget="60%") -> tt.Fit:
        plain = Steps(lambda: Chain(middle), rows, loss=loss).run()
        steps = Steps(lambda: Chain(middle), rows, loss=loss)
        fitted = fit(steps.model, budget=budget)
        steps.run(fitted)
        self.assertTrue(same(plain.left, steps.left))
        self.assertEqual(fitted.counts.dropped > 0, dropped)
        self.assertIsNone(fitted.counts.diverged_at)
        return fitted

    def test_custom_functions(self) -> None:
        self.check(lambda x, i: Twice.apply(x))

    def test_generators(self) -> None:
        generator = torch.Generator().manual_seed(3)

        def middle(x: torch.Tensor, i: int) -> torch.Tensor:
            if i == 0:
                generator.manual_seed(4)
            return x * torch.bernoulli(torch.full_like(x, 0.8), generator=generator)

        self.check(middle)

    def test_nested_checkpoints(self) -> None:
        for reentrant in (False, True):

            def middle(x: torch.Tensor, i: int, reentrant: bool = reentrant) -> torch.Tensor:
                return checkpoint(lambda y: F.dropout(y.tanh(), 0.1), x, use_reentrant=reentrant) if i % 3 == 0 else x

            self.check(middle, budget="80%")

    def test_several_results_views_and_changes_in_place(self) -> None:
        def middle(x: torch.Tensor, i: int) -> torch.Tensor:
            a, b = x.split(16, 1)
            y = torch.cat((b.sigmoid(), a), 1)
            y[:, 4:9].mul_(0.5)
            y.T[3].add_(0.25)
            return y * y.max(1, keepdim=True).values

        self.check(middle)

    def test_second_derivatives(self) -> None:
        def run(fitted=None) -> list[torch.Tensor]:
            torch.manual_seed(5)
            model, x = Chain(lambda x, i: x), rows().requires_grad_()
            left = []
            for _ in range(3):
                with fitted or contextlib.nullcontext():
                    (slope,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
                    (slope.square().mean()).backward()
                left += [p.grad.clone() for p in model.parameters()] + [x.grad.clone()]
                model.zero_grad()
                x.grad = None
            return left

        fitted = fit(lambda: None, budget="70%")
        self.assertTrue(same(run(), run(fitted)))
        self.assertGreater(fitted.counts.dropped, 0)

    def test_a_second_backward_of_the_same_graph(self) -> None:
        def run(fitted=None) -> list[torch.Tensor]:
            torch.manual_seed(5)
            model, x, left = Chain(lambda x, i: x), rows(), []
            for _ in range(3):
                with fitted or contextlib.nullcontext():
                    loss = loss_of(model(x))
                    loss.backward(retain_graph=True)
                    loss.backward()
                left += [p.grad.clone() for p in model.parameters()]
                model.zero_grad()
                del loss
            return left

        fitted = fit(lambda: None, budget="75%")
        self.assertTrue(same(run(), run(fitted)))
        self.assertGreater(fitted.counts.dropped, 0)

    def test_a_graph_that_outlives_its_step(self) -> None:
        def run(fitted=None) -> list[torch.Tensor]:
            torch.manual_seed(5)
            model, x, left = Chain(lambda x, i: x), rows(), []
            for i in range(3):
                with fitted or contextlib.nullcontext():
                    loss = loss_of(model(x))
                    loss.backward(retain_graph=i > 0)
                    if i == 2:
                        again = loss_of(model(x))
                if i > 0:
                    loss.backward()
                if i == 2:
                    again.backward()
                left += [p.grad.clone() for p in model.parameters()]
                model.zero_grad()
                del loss
            return left

        fitted = fit(lambda: None, budget="60%")
        self.assertTrue(same(run(), run(fitted)))
        self.assertGreater(fitted.counts.restored, 0)

    def test_a_change_in_place_of_what_backward_needs_raises(self) -> None:
        model, x = Chain(lambda x, i: x), rows()
        fitted = fit(model, budget="70%")

        def step(late: bool) -> None:
            with fitted:
                out = model(x)
                y = out.exp()
                if late:
                    y.mul_(2)
                y.sum().backward()

        step(False)
        step(False)
        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                step(True)

    def test_graphs_leave_nothing_behind(self) -> None:
        steps = Steps(lambda: Chain(lambda x, i: x), rows)
        fitted = fit(steps.model, budget="60%")
        steps.run(fitted)
        gc.collect()
        before = [id(o) for o in gc.get_objects() if isinstance(o, torch.Tensor)]
        for _ in range(3):
            steps.run(fitted, 1)
            steps.left.clear()
        gc.collect()
        self.assertLessEqual(sum(isinstance(o, torch.Tensor) for o in gc.get_objects()), len(before))

    def test_an_operator_of_others_is_named_once_and_kept(self) -> None:
        @torch.library.custom_op("thermocline_test::doubled", mutates_args=())
        def doubled(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        doubled.register_autograd(lambda ctx, grad: grad * 2)
        said: list[str] = []
        steps = Steps(lambda: Chain(lambda x, i: doubled(x) if i == 3 else x), rows)
        plain = Steps(lambda: Chain(lambda x, i: doubled(x) if i == 3 else x), rows).run()
        fitted = tt.fit(steps.model, budget="70%", verbose=True, min_bytes=256)
        fitted._say = said.append
        steps.run(fitted)
        self.assertTrue(same(plain.left, steps.left))
        self.assertEqual(sum("doubled" in line for line in said), 1)
        self.assertNotIn("thermocline_test::doubled", fitted.counts.reran)


class Divergence(unittest.TestCase):
    """Steps that are not the recorded one."""

    def run_steps(self, fitted, kinds: str) -> list[torch.Tensor]:
        torch.manual_seed(5)
        kind = ["a"]

        def middle(x: torch.Tensor, i: int) -> torch.Tensor:
            if kind[0] == "b" and i == 6:
                return F.dropout(x.sin(), 0.3)
            if kind[0] == "c" and i == 2:
                return x.clone().mul_(x.detach())
            return x

        model, left = Chain(middle), []
        torch.manual_seed(6)
        for kind[0] in kinds:
            x = torch.randn(96 if kind[0] == "d" else 128, 32)
            with fitted or contextlib.nullcontext():
                loss = loss_of(model(x))
                loss.backward()
            left += [loss.detach(), *[p.grad.clone() for p in model.parameters()]]
            model.zero_grad()
        return left

    def test_other_operators_and_other_sizes_lose_nothing(self) -> None:
        plain = self.run_steps(None, "aabacadda")
        fitted = fit(lambda: None, budget="60%")
        self.assertTrue(same(plain, self.run_steps(fitted, "aabacadda")))
        self.assertIsNone(fitted.counts.diverged_at)

    def test_what_stays_different_is_recorded_anew(self) -> None:
        fitted = fit(lambda: None, budget="60%")
        plain = self.run_steps(None, "aabbbb")
        self.assertTrue(same(plain, self.run_steps(fitted, "aabbbb")))
        self.assertIsNone(fitted.counts.diverged_at)
        self.assertGreater(fitted.counts.dropped, 0)

    def test_an_error_in_a_step_leaves_the_next_one_whole(self) -> None:
        model, x = Chain(lambda x, i: x), rows()
        fitted = fit(model, budget="60%")
        for fails in (False, True, False):
            with contextlib.suppress(ZeroDivisionError), fitted:
                out = model(x)
                if fails:
                    raise ZeroDivisionError
                loss_of(out).backward()
            model.zero_grad()
        self.assertIsNone(fitted.counts.diverged_at)


class Offloading(unittest.TestCase):
    def test_the_joint_plan_and_copies_alone(self) -> None:
        for name in ("GPT-2", "LSTM"):
            make, inputs = MODELS[name]
            plain = Steps(make, inputs).run()
            for plans in ("joint", "swap"):
                steps = Steps(make, inputs)
                fitted = fit(steps.model, budget="55%", store=HostStore(), plans=plans)
                steps.run(fitted)
                self.assertTrue(same(plain.left, steps.left), (name, plans))
                self.assertLessEqual(steps.peaks[-1], fitted.plan.answer["budget_bytes"])
                if plans == "swap":
                    self.assertGreater(fitted.counts.offloaded, 0)
                    self.assertEqual(fitted.counts.dropped, 0)

    def test_the_first_step_offloads_what_is_beyond_a_budget_in_bytes(self) -> None:
        """And the plan is that of a step which was recorded whole."""
        for name in ("GPT-2", "LSTM", "U-Net"):
            with self.subTest(name=name):
                plain = Steps(*MODELS[name]).run()
                whole = Steps(*MODELS[name])
                by_part = fit(whole.model, budget="60%", store=HostStore(), plans="joint")
                whole.run(by_part, 1)
                steps, store = Steps(*MODELS[name]), HostStore()
                budget = by_part.plan.answer["budget_bytes"]
                fitted = fit(steps.model, budget=budget, store=store, plans="joint")
                steps.run(fitted, 1)
                self.assertGreater(store.evictions, 0)
                self.assertLess(steps.peaks[0], 1.1 * budget)
                self.assertGreater(whole.peaks[0], 1.6 * budget)
                steps.run(fitted, 2)
                self.assertTrue(same(plain.left, steps.left))
                for promise in ("peak_bytes", "whole_peak_bytes", "drops", "offloads", "reruns"):
                    self.assertEqual(fitted.plan.answer[promise], by_part.plan.answer[promise])

    def test_a_first_step_that_offloads_and_does_more_than_one_backward(self) -> None:
        def second(model: nn.Module, x: torch.Tensor) -> None:
            (slope,) = torch.autograd.grad(loss_of(model(x)), x, create_graph=True)
            slope.square().sum().backward()

        def twice(model: nn.Module, x: torch.Tensor) -> None:
            out = model(x)
            model(x).sin()  # a graph that dies without backward
            loss_of(out).backward(retain_graph=True)
            out.abs().mean().backward()

        for backward, budget in ((second, 800_000), (twice, 500_000)):
            gradients = []
            for store in (None, HostStore()):
                torch.manual_seed(3)
                model, x = Chain(lambda x, i: x.tanh()), rows().requires_grad_()
                with fit(model, budget=budget, store=store, plans="swap") if store else contextlib.nullcontext():
                    backward(model, x)
                gradients.append([p.grad for p in model.parameters()])
            self.assertTrue(same(*gradients))
            self.assertGreater(store.evictions, 8)

    def test_a_graph_that_outlives_a_first_step_that_offloads(self) -> None:
        gradients = []
        for store in (None, HostStore()):
            torch.manual_seed(3)
            model, x = Chain(lambda x, i: x.tanh()), rows()
            with contextlib.suppress(ZeroDivisionError), fit(model, budget=200_000, store=store, plans="swap") if store else contextlib.nullcontext():
                loss = loss_of(model(x))
                raise ZeroDivisionError
            loss.backward()
            gradients.append([p.grad for p in model.parameters()])
        self.assertTrue(same(*gradients))
        self.assertGreater(store.evictions, 8)

    def test_a_step_that_diverges_offloads_what_it_saves(self) -> None:
        store = HostStore()
        fitted = fit(lambda: None, budget="60%", store=store)
        run = Divergence.run_steps
        plain = run(self, None, "aab")
        self.assertTrue(same(plain, run(self, fitted, "aab")))
        self.assertIsNotNone(fitted.counts.diverged_at)
        self.assertGreater(store.evictions, 0)


class Calls(unittest.TestCase):
    """The interface and its errors."""

    def test_a_step_function_with_its_optimizer(self) -> None:
        def run(fit_it: bool) -> tuple[list[torch.Tensor], tt.Fit | None]:
            torch.manual_seed(5)
            model, x = Chain(lambda x, i: x), rows()
            optimizer = torch.optim.Adam(model.parameters())

            def step(x: torch.Tensor) -> torch.Tensor:
                optimizer.zero_grad()
                loss = loss_of(model(x))
                loss.backward()
                optimizer.step()
                return loss.detach()

            fitted = fit(step, budget="75%") if fit_it else None
            losses = [(fitted or step)(x) for _ in range(5)]
            return [*losses, *[p.detach() for p in model.parameters()]], fitted

        plain, _ = run(False)
        left, fitted = run(True)
        self.assertTrue(same(plain, left))
        self.assertIsNone(fitted.counts.diverged_at)
        self.assertGreater(fitted.counts.dropped, 0)

    def test_a_trial_changes_nothing(self) -> None:
        steps = Steps(*MODELS["ResNet"])
        before = [t.clone() for t in (*steps.model.parameters(), *steps.model.buffers(), torch.get_rng_state())]
        fitted = fit(steps.model, steps.x, budget="60%", loss=lambda out, _x: loss_of(out))
        self.assertTrue(same(before, [*steps.model.parameters(), *steps.model.buffers(), torch.get_rng_state()]))
        self.assertTrue(all(p.grad is None for p in steps.model.parameters()))
        steps.run(fitted)
        self.assertTrue(same(Steps(*MODELS["ResNet"]).run().left, steps.left))
        self.assertIsNone(fitted.counts.diverged_at)

    def test_inputs_by_name(self) -> None:
        class Named(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.chain = Chain(lambda x, i: (x.tanh() * 2).sin())

            def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
                return self.chain(x * scale)

        scale = torch.tensor(0.5)
        given: list[object] = []

        def loss(out: torch.Tensor, *inputs: object, **keywords: object) -> torch.Tensor:
            given[:] = [inputs, keywords]
            return loss_of(out)

        model = Named()
        fitted = fit(model, x=rows(), scale=scale, budget="60%", loss=loss)
        self.assertIsNotNone(fitted.plan)
        self.assertEqual((given[0], list(given[1])), ((), ["x", "scale"]))

        def step(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            model.zero_grad()
            out = loss_of(model(x, scale=scale))
            out.backward()
            return out.detach()

        x = rows()
        fitted = fit(step, x, scale=scale, budget="60%")
        self.assertTrue(torch.equal(fitted.result, step(x, scale)))
        self.assertTrue(torch.equal(fitted(x, scale=scale), fitted.result))
        self.assertIsNone(fitted.counts.diverged_at)
        for what, takes in ((model, "Named.forward, which takes scale, x"), (step, "the step, which takes scale, x")):
            with self.assertRaisesRegex(TypeError, f"budgets: neither an option of thermocline.torch.fit nor an input of {takes}"):
                fit(what, x, budget="60%", budgets=3)

    def test_a_trial_that_changes_what_is_not_the_modules_says_so(self) -> None:
        count = torch.zeros(64)

        def middle(x: torch.Tensor, i: int) -> torch.Tensor:
            count.add_(1)
            return x

        with self.assertRaisesRegex(RuntimeError, r"256 bytes that is not the module's \(operator add_\)"):
            fit(Chain(middle), rows(), budget="60%")

    def test_the_line_says_what_is_expected_and_what_no_plan_can_beat(self) -> None:
        steps = Steps(*MODELS["GPT-2"])
        fitted = tt.fit(steps.model, budget="60%", verbose=True, min_bytes=256)
        said: list[str] = []
        fitted._say = said.append
        steps.run(fitted, 2)
        answer = fitted.plan.answer
        bound = answer["bound_ms"] / answer["compute_ms"] - 1
        line = rf"a step needs .* MiB of .* MiB \(kept whole: .*\); \d+ values dropped, .*; expected \+.*% time \(no plan takes less than \+{max(bound, 0):.1%}\)"
        self.assertEqual(len([text for text in said if re.fullmatch(line, text)]), 1, said)
        self.assertLessEqual(answer["bound_ms"], answer["step_ms"])

    def test_too_small_a_budget_names_the_operator(self) -> None:
        steps = Steps(*MODELS["ViT"])
        with self.assertRaisesRegex(tt.DoesNotFitError, r"operator \d+ of \d+ \(\w+\) needs [\d.]+ MiB .*found for budget=\d+ ") as caught:
            fit(steps.model, steps.x, budget="64KiB")
        again = fit(steps.model, steps.x, budget=caught.exception.found_bytes)
        self.assertLessEqual(again.plan.answer["peak_bytes"], caught.exception.found_bytes)

    def test_bad_arguments_are_refused_at_the_call_in_a_line(self) -> None:
        model, step = Chain(lambda x, i: x), lambda x: None
        suggestion = "; write a number of bytes, '12GiB', or '50%'"
        refused = [
            (TypeError, "budget: bytes, or a text", model, {"budget": value}) for value in (True, 1.5, None, [1], b"50%", torch.tensor(5))
        ]
        texts = ("", " ", "half", "abc", "-1", "-5%", "0%", "50%%", "1e9", "0.5")
        refused += [(ValueError, f"budget: .*{suggestion}", model, {"budget": text}) for text in texts]
        refused += [(ValueError, "budget: more than 0 bytes", model, {"budget": value}) for value in (0, -5)]
        refused += [
            (ValueError, "budget: '60' has no unit; write '60%'.* '60GiB'", model, {"budget": "60"}),
            (ValueError, "device: unknown device 'none'", model, {"device": "none"}),
            (TypeError, "device: the name of a profile", model, {"device": 0}),
            (ValueError, "plans: 'best' is none of joint, recompute, swap, sqrt", model, {"plans": "best"}),
            (ValueError, "plans: 'swap' offloads, and there is nowhere", model, {"plans": "swap"}),
            (TypeError, "store: .* str has no accepts", model, {"store": "cpu"}),
            (TypeError, "min_bytes: .* not str", model, {"min_bytes": "1"}),
            (ValueError, "min_bytes: no less than 0", model, {"min_bytes": -1}),
            (TypeError, "step_or_model: .* not NoneType", None, {}),
            (TypeError, "step_or_model: .* not Tensor", rows(), {}),
            (TypeError, "step_or_model: Linear is a class", nn.Linear, {}),
            (ValueError, "loss: .* inputs are not given", model, {"loss": loss_of}),
            (ValueError, "loss: .* a step function has its own", step, {"loss": loss_of}),
            (TypeError, "loss: a function", model, {"loss": 1}),
        ]
        for kind, words, what, options in refused:
            with self.subTest(words=words, options=options):
                with self.assertRaisesRegex(kind, words) as caught:
                    tt.fit(what, **{"budget": "50%", "verbose": False, **options})
                self.assertNotIn("\n", str(caught.exception))

    def test_a_loss_that_is_none_is_refused(self) -> None:
        model = Chain(lambda x, i: x)
        losses = [
            (TypeError, "not float", lambda out, x: 1.0),
            (ValueError, r"shape \(128, 32\)", lambda out, x: out),
            (ValueError, "no parameter", lambda out, x: x.sum()),
        ]
        for kind, words, loss in losses:
            with self.assertRaisesRegex(kind, f"loss: .*{words}"):
                fit(model, rows(), budget="50%", loss=loss)
            self.assertTrue(all(p.grad is None for p in model.parameters()))

    def test_budgets_in_other_words(self) -> None:
        steps = Steps(lambda: Chain(lambda x, i: x), rows)
        for budget in ("70%", " 70 % ", "70%peak"):
            answer = fit(steps.model, steps.x, budget=budget).plan.answer
            self.assertEqual(answer["budget_bytes"], answer["whole_peak_bytes"] * 7 // 10)
        self.assertEqual(fit(steps.model, steps.x, budget="1 gb").plan.answer["budget_bytes"], 1 << 30)
        self.assertEqual(fit(steps.model, steps.x, budget=torch.tensor([1 << 20]).numpy()[0]).plan.answer["budget_bytes"], 1 << 20)

    def test_calls_out_of_order(self) -> None:
        model = Chain(lambda x, i: x)
        fitted = fit(model, budget="50%")
        with self.assertRaisesRegex(RuntimeError, "no step"):
            fitted(rows())
        with fitted:
            loss_of(model(rows())).backward()
            with self.assertRaisesRegex(RuntimeError, "nested"):
                fitted.__enter__()
        with self.assertRaisesRegex(RuntimeError, "no operator"), fit(model, budget="50%"):
            pass
        with self.assertRaisesRegex(RuntimeError, "no step is under way"):
            fitted.__exit__(None, None, None)


if __name__ == "__main__":
    unittest.main()
