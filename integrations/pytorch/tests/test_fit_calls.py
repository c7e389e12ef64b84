# SPDX-License-Identifier: Apache-2.0
"""fit() on CPU tensors: what runs in Python for an operator that is neither dropped nor offloaded, counted in calls, not in time."""

import os
import sys
import unittest
from collections import Counter
from collections.abc import Callable

sys.path.insert(0, os.path.dirname(__file__))
from fit_steps import Chain, Steps, fit, loss_of, rows, same  # first: without PyTorch it skips the test

import torch
from torch._dynamo.testing import CompileCounter
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

OURS = os.path.join("thermocline", "torch")


class Count(TorchDispatchMode):
    """Operators that are dispatched."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names[function._schema.name] += 1
        return function(*args, **(kwargs or {}))


def calls_of_ours(run: Callable[[], object]) -> Counter[str]:
    """Calls of the library's functions, by name."""
    found: Counter[str] = Counter()

    def watch(frame, event: str, _what: object) -> None:
        if event == "call" and OURS in frame.f_code.co_filename:
            found[frame.f_code.co_name] += 1

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def by_a_plan(body: Callable[[], object]) -> Counter[str]:
    """Calls of the body within a step whose plan drops nothing."""
    found: Counter[str] = Counter()
    weight = torch.ones(4, requires_grad=True)

    def step() -> None:
        found.clear()
        found.update(calls_of_ours(body))
        (weight * 2).sum().backward()
        weight.grad = None

    fitted = fit(step, budget="100%")
    fitted()
    fitted()
    assert fitted.counts.diverged_at is None
    return found


class Calls(unittest.TestCase):
    COUNT = 50

    def test_one_call_an_operator(self) -> None:
        a = torch.randn(8)
        found = by_a_plan(lambda: [a.neg() for _ in range(self.COUNT)])
        self.assertEqual(found, {"__torch_dispatch__": self.COUNT})

    def test_three_calls_an_operator_in_place(self) -> None:
        a = torch.randn(8)
        found = by_a_plan(lambda: [a.add_(a) for _ in range(self.COUNT)])
        self.assertEqual(found["__torch_dispatch__"], self.COUNT)
        self.assertLessEqual(sum(found.values()), 3 * self.COUNT)

    def test_running_means_of_a_norm(self) -> None:
        x, mean, variance = torch.randn(4, 8), torch.zeros(8), torch.ones(8)
        found = by_a_plan(lambda: [torch.batch_norm(x, None, None, mean, variance, True, 0.1, 1e-5, False) for _ in range(self.COUNT)])
        self.assertEqual(found["_unusual"], 0)
        self.assertEqual(found["_run"], 0)

    def test_a_save_that_stays_runs_no_operator(self) -> None:
        x = torch.randn(8, requires_grad=True)

        def chain() -> None:
            y = x
            for _ in range(self.COUNT):
                y = y.sin()  # saves its input, which an operator made
            y.sum().backward()
            x.grad = None

        found, mode = by_a_plan(chain), Count()
        with mode, saved_tensors_hooks(lambda t: t, lambda t: t):  # with hooks PyTorch detaches what it saves
            chain()
        self.assertEqual(found["__torch_dispatch__"], mode.names.total())
        self.assertEqual((found["_pack"], found["_unpack"]), (self.COUNT, self.COUNT))

    def test_a_change_in_place_of_something_else_than_was_recorded(self) -> None:
        """The operators are those of the plan, and one writes what a dropped value is made of."""
        is_late, alive = [False], []

        def middle(x: torch.Tensor, i: int) -> torch.Tensor:
            y = x.exp().clamp_max(2)
            scratch = y.clone()
            z = y.tanh()
            changed = y if is_late[0] else scratch
            changed.mul_(0.5)
            alive.append(y)
            return z.sigmoid() * changed.sin()

        def run(fitted=None) -> Steps:
            steps = Steps(lambda: Chain(middle), rows)
            for is_late[0] in (False, True, True):
                steps.run(fitted, 1)
                alive.clear()
            return steps

        plain = run()
        for budget in ("80%", "60%"):
            with self.subTest(budget=budget):
                fitted = fit(lambda: None, budget=budget)
                self.assertTrue(same(plain.left, run(fitted).left))
                self.assertGreater(fitted.counts.dropped, 0)
                self.assertIsNone(fitted.counts.diverged_at)

    def test_compilers_leave_the_mode_alone(self) -> None:
        """Dynamo compiles neither what runs inside of a step nor what runs for each of its operators."""
        counter = CompileCounter()
        model = torch.compile(Chain(lambda x, i: x), backend=counter)
        fitted = fit(model, budget="70%")
        x = rows()
        for _ in range(3):
            with fitted:
                loss_of(model(x)).backward()
        self.assertGreater(fitted.counts.dropped, 0)
        self.assertEqual(counter.frame_count, 0)


if __name__ == "__main__":
    unittest.main()
