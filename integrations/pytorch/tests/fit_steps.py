# SPDX-License-Identifier: Apache-2.0
"""Training steps for the tests of fit(): from one beginning, plain or fitted, with everything that they leave and the peak of their bytes.
Where PyTorch or the command is not there, the import ends the test as skipped (status 77)."""

import contextlib
import os
import shutil
import sys

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
from torch import nn
from torch.nn import functional as F

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


def near_the_least(model: nn.Module, x: torch.Tensor) -> tt.Fit:
    """For little more than the least budget for which a plan was found."""
    try:
        return fit(model, x, budget=1, loss=lambda out, _x: loss_of(out))
    except tt.DoesNotFitError as error:
        return fit(model, budget=int(1.25 * error.found_bytes))


class Chain(nn.Module):
    """Layers whose middle part is the test's."""

    def __init__(self, middle, layers: int = 12) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(layers))
        self.middle = middle

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            x = self.middle(F.gelu(layer(x)), i)
        return x


def rows() -> torch.Tensor:
    return torch.randn(128, 32)
