# SPDX-License-Identifier: Apache-2.0
"""fit() on CPU tensors: the bits of plain PyTorch, and the memory that was promised. Skipped (status 77) where PyTorch or the command is
not."""

import contextlib
import gc
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
try:
    import torch
except ImportError:
    print("PyTorch is not installed for this Python")
    sys.exit(77)
COMMAND = os.environ.get("THERMOCLINE_TEST_COMMAND", "")
if COMMAND:
    os.environ["PATH"] = os.path.dirname(COMMAND) + os.pathsep + os.environ["PATH"]
if shutil.which("thermocline") is None:
    print("there is no command to plan with")
    sys.exit(77)
sys.path.insert(0, os.path.dirname(__file__))
from fit_models import MODELS, Made
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import thermocline.torch as tt

PREDICTION = 0.03
torch.set_num_threads(1)  # the machine has others to serve


def loss_of(out: torch.Tensor) -> torch.Tensor:
    return out.float().square().mean()


class Steps:
    """Training steps of a model from one beginning, with everything that they leave: losses, gradients, buffers."""

    def __init__(self, make, inputs, dtype=torch.float32, loss=loss_of) -> None:
        torch.manual_seed(1)
        self.model = make().to(dtype)
        x = inputs()
        self.x = x.to(dtype) if x.is_floating_point() else x
        self.loss = loss
        self.left: list[torch.Tensor] = []
        self.peaks: list[int] = []
        torch.manual_seed(2)

    def run(self, fitted=None, steps: int = 3) -> "Steps":
        for _ in range(steps):
            with tt.PeakBytes(*self.model.parameters(), *self.model.buffers(), self.x) as peak, fitted or contextlib.nullcontext():
                loss = self.loss(self.model(self.x))
                loss.backward()
            self.peaks.append(peak.most)
            self.left += [loss.detach(), *[p.grad.clone() for p in self.model.parameters()], *[b.clone() for b in self.model.buffers()]]
            with torch.no_grad():
                for p in self.model.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
        return self


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def fit(*args, **options):
    return tt.fit(*args, verbose=False, min_bytes=256, **options)


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
            for dtype in (torch.float32, torch.bfloat16):
                for budget in ("80%", "60%"):
                    with self.subTest(name=name, dtype=dtype, budget=budget):
                        self.check(make, inputs, budget, dtype)


if __name__ == "__main__":
    unittest.main()
