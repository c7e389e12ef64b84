# SPDX-License-Identifier: Apache-2.0
"""Trainings with an optimizer for tests of fit(states=...): most of the memory of a step is parameters, gradients and optimizer state."""

from fit_steps import loss_of  # first: without PyTorch it skips the test

import torch
from fit_models import Gpt, Llama, Lstm, ResNet, Vit
from fit_stores import HostStore
from torch import nn

import thermocline.torch as tt


def words(n: int = 1, t: int = 16) -> torch.Tensor:
    return torch.randint(0, 61, (n, t))


class Deep(nn.Module):
    def __init__(self, layers: int = 16, d: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(d, d) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x


# Few rows: most of the memory of a step is parameters, gradients and optimizer state.
MODELS = {
    "ResNet": (ResNet, lambda: torch.randn(1, 3, 16, 16)),
    "GPT-2": (lambda: Gpt(d=64), words),
    "LSTM": (Lstm, words),
    "ViT": (lambda: Vit(d=64), lambda: torch.randn(1, 3, 32, 32)),
    "Llama": (lambda: Llama(d=64), words),
    "experts": (lambda: Llama(experts=True, d=64), words),
    "deep": (Deep, lambda: torch.randn(4, 64)),
}
OPTIMIZERS = {
    "Adam": lambda parameters: torch.optim.Adam(parameters, 0.01),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, 0.01),
    "momentum": lambda parameters: torch.optim.SGD(parameters, 0.01, momentum=0.9),
}


class Training:
    """Steps of a model with its optimizer, from one beginning."""

    def __init__(self, name: str, optimizer: str = "Adam", dtype: torch.dtype = torch.float32, *, zero_first: bool = False) -> None:
        torch.manual_seed(1)
        make, inputs = MODELS[name]
        self.model = make().to(dtype)
        x = inputs()
        self.x = x.to(dtype) if x.is_floating_point() else x
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.zero_first = zero_first
        self.losses: list[torch.Tensor] = []
        self.peaks: list[int] = []
        self.fitted: tt.Fit | None = None
        torch.manual_seed(2)

    def step(self) -> torch.Tensor:
        if self.zero_first:
            self.optimizer.zero_grad()
        loss = loss_of(self.model(self.x))
        loss.backward()
        self.optimizer.step()
        if not self.zero_first:
            self.optimizer.zero_grad()
        return loss.detach()

    def tensors(self) -> list[torch.Tensor]:
        state = [t for values in self.optimizer.state.values() for t in values.values() if isinstance(t, torch.Tensor)]
        return [*self.model.parameters(), *self.model.buffers(), *state, *[p.grad for p in self.model.parameters() if p.grad is not None]]

    def fit(self, budget, **options) -> "Training":
        options = {"states": [self.model, self.optimizer], "store": HostStore(), "verbose": False, **options}
        self.fitted = tt.fit(self.step, budget=budget, min_bytes=256, **options)
        return self

    def run(self, steps: int = 5) -> "Training":
        for _ in range(steps):
            here = [t for t in self.tensors() if self.fitted is None or not self.fitted.is_in_host_memory(t)]
            with tt.PeakBytes(*here, self.x) as peak:
                self.losses.append((self.fitted or self.step)())
            self.peaks.append(peak.most)
        return self

    def left(self) -> list[torch.Tensor]:
        return [*self.losses, *self.tensors()]
