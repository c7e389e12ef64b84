# SPDX-License-Identifier: Apache-2.0
"""Small models of the usual kinds for test_fit.py, and random ones. Each is a module and the inputs of a forward pass; sizes are such that a
step takes milliseconds and most of its memory is activations."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(c), nn.BatchNorm2d(c)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.nb(self.b(self.relu(self.na(self.a(x)))))
        y += x
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            *[Residual(16) for _ in range(6)], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Attention(nn.Module):
    def __init__(self, d: int, heads: int, shared: int = 1, causal: bool = True, rotary: bool = False) -> None:
        super().__init__()
        self.heads, self.shared, self.causal, self.rotary = heads, shared, causal, rotary
        self.q = nn.Linear(d, d)
        self.kv = nn.Linear(d, 2 * d // shared)
        self.out = nn.Linear(d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, d = x.shape
        q = self.q(x).view(n, t, self.heads, -1).transpose(1, 2)
        k, v = self.kv(x).view(n, t, self.heads // self.shared, -1).transpose(1, 2).chunk(2, dim=-1)
        if self.rotary:
            q, k = rotated(q), rotated(k)
        k, v = k.repeat_interleave(self.shared, 1), v.repeat_interleave(self.shared, 1)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training and not self.rotary else 0.0, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, t, d))


def rotated(x: torch.Tensor) -> torch.Tensor:
    angle = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] / 100.0 ** (
        torch.arange(0, x.shape[-1], 2, dtype=torch.float32) / x.shape[-1]
    )
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1).flatten(-2).to(x.dtype)


class GptBlock(nn.Module):
    def __init__(self, d: int, causal: bool = True) -> None:
        super().__init__()
        self.na, self.nb = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention = Attention(d, 4, causal=causal)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Linear(4 * d, d), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.na(x))
        return x + self.mlp(self.nb(x))


class Gpt(nn.Module):
    def __init__(self, d: int = 32, words: int = 61) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, d), nn.Embedding(32, d)
        self.blocks = nn.ModuleList(GptBlock(d) for _ in range(4))
        self.norm = nn.LayerNorm(d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.dropout(self.words(x) + self.places(torch.arange(x.shape[1])), 0.1)
        for block in self.blocks:
            y = block(y)
        return self.norm(y) @ self.words.weight.T  # tied


class RmsNorm(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


class Experts(nn.Module):
    """The best two of four for each token."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.gate = nn.Linear(d, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(0, 1)
        weight, which = self.gate(flat).softmax(-1).topk(2)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            token, slot = (which == i).nonzero(as_tuple=True)
            out.index_add_(0, token, expert(flat[token]) * weight[token, slot, None])
        return out.view_as(x)


class Gated(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(d, 3 * d), nn.Linear(d, 3 * d), nn.Linear(3 * d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Llama(nn.Module):
    def __init__(self, experts: bool = False, d: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(61, d)
        self.attentions = nn.ModuleList(Attention(d, 4, shared=2, rotary=True) for _ in range(3))
        self.mlps = nn.ModuleList(Experts(d) if experts else Gated(d) for _ in range(3))
        self.norms = nn.ModuleList(RmsNorm(d) for _ in range(7))
        self.head = nn.Linear(d, 61)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.words(x)
        for i, (attention, mlp) in enumerate(zip(self.attentions, self.mlps, strict=True)):
            y = y + attention(self.norms[2 * i](y))
            y = y + mlp(self.norms[2 * i + 1](y))
        return self.head(self.norms[6](y))


class UNet(nn.Module):
    def __init__(self, c: int = 8) -> None:
        super().__init__()

        def pair(a: int, b: int) -> nn.Module:
            return nn.Sequential(
                nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1), nn.SiLU(inplace=True)
            )

        self.down = nn.ModuleList([pair(3, c), pair(c, 2 * c), pair(2 * c, 4 * c)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)])
        self.join = nn.ModuleList([pair(4 * c, 2 * c), pair(2 * c, c)])
        self.head = nn.Conv2d(c, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for i, down in enumerate(self.down):
            x = down(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for i, (up, join) in enumerate(zip(self.up, self.join, strict=True)):
            x = join(torch.cat((skips[1 - i], up(x)), 1))
        return self.head(x)


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(61, 24)
        self.layers = nn.LSTM(24, 24, 2, dropout=0.2, batch_first=True)
        self.cell = nn.LSTMCell(24, 24)
        self.head = nn.Linear(24, 61)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.layers(self.words(x))
        state, outs = None, []
        for t in range(y.shape[1]):
            state = self.cell(y[:, t], state)
            outs.append(state[0])
        return self.head(torch.stack(outs, 1))


class Vit(nn.Module):
    def __init__(self, d: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, d, 4, 4)
        self.first = nn.Parameter(torch.zeros(1, 1, d))
        self.places = nn.Parameter(torch.randn(1, 65, d) * 0.02)
        self.blocks = nn.Sequential(*[GptBlock(d, causal=False) for _ in range(3)])
        self.head = nn.Linear(d, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat((self.first.expand(len(y), -1, -1), y), 1) + self.places
        return self.head(self.blocks(y)[:, 0])


def _image(n: int = 4) -> torch.Tensor:
    return torch.randn(n, 3, 32, 32)


def _words(n: int = 4, t: int = 24) -> torch.Tensor:
    return torch.randint(0, 61, (n, t))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "ResNet": (ResNet, _image),
    "GPT-2": (Gpt, _words),
    "U-Net": (UNet, _image),
    "LSTM": (Lstm, _words),
    "ViT": (Vit, _image),
    "Llama": (Llama, _words),
    "experts": (lambda: Llama(experts=True), _words),
}


class Made(nn.Module):
    """A random program on (rows, 32): layers, in-place operators, views, several results, skips, randomness, constants."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.plan: list[tuple[str, int]] = []
        chooser = random.Random(seed)
        kinds = [
            "linear", "norm", "gelu", "relu_", "dropout", "add", "mul", "chunk", "sort", "cat", "view", "slice_", "clamp", "softmax",
            "mask", "noise", "transpose", "cumsum", "scale_", "batchnorm", "where", "norms", "silu_",
        ]  # fmt: skip
        self.layers = nn.ModuleList()
        for _ in range(chooser.randint(18, 40)):
            kind = chooser.choice(kinds)
            layer = {"linear": lambda: nn.Linear(32, 32), "norm": lambda: nn.LayerNorm(32), "batchnorm": lambda: nn.BatchNorm1d(32)}
            self.layers.append(layer.get(kind, nn.Identity)())
            self.plan.append((kind, chooser.randint(1, 6)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        past = [x * 1.5]
        for layer, (kind, back) in zip(self.layers, self.plan, strict=True):
            x = past[-1]
            past.append(self._one(kind, layer, x, past[-min(back, len(past))]))
            past = past[-6:]
        return past[-1] + past[0]

    @staticmethod
    def _one(kind: str, layer: nn.Module, x: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
        if kind in ("linear", "norm", "batchnorm"):
            return layer(x)
        if kind == "slice_":
            y = x.clone()
            y[:, 3:17] *= 0.5
            return y
        if kind == "noise":
            return x + torch.randn_like(x) * 0.1
        if kind == "chunk":
            a, b = x.chunk(2, -1)
            return torch.cat((b.tanh(), a.sigmoid()), -1)
        if kind == "cat":
            return torch.cat((x[:, ::2], old[:, 1::2]), -1)
        if kind == "mask":
            return x.masked_fill(torch.ones_like(x).triu() > 0.5, 0.25)
        return {
            "gelu": lambda: F.gelu(x),
            "relu_": lambda: (x + 0.1).relu_(),
            "silu_": lambda: F.silu(x + old, inplace=True),
            "dropout": lambda: F.dropout(x, 0.2),
            "add": lambda: x + old,
            "mul": lambda: x * old.sigmoid(),
            "sort": lambda: x.sort(-1).values,
            "view": lambda: x.view(-1, 4, 8).transpose(1, 2).reshape(x.shape[0], 32),
            "clamp": lambda: x.clamp(-2, 2),
            "softmax": lambda: x.softmax(-1) * 8,
            "transpose": lambda: (x.T.contiguous() * 0.9).T,
            "cumsum": lambda: x.cumsum(-1) * 0.2,
            "scale_": lambda: (x * 1.0).mul_(0.7).add_(old, alpha=0.3),
            "where": lambda: torch.where(x > old, x, old * 0.5),
            "norms": lambda: x / x.norm(dim=-1, keepdim=True).clamp_min(1e-3) * 4,
        }[kind]()
