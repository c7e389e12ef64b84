# SPDX-License-Identifier: Apache-2.0
"""Models as they compute answers, for inference.py: plain PyTorch on shapes alone. What serving engines fuse is one operator here, too:
RMS norm, rotary positions, the gate of a feed-forward layer, attention over blocks of a cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import register_flop_formula

_fused = torch.library.Library("inference", "DEF")
for _schema, _shape in {
    "rms_norm(Tensor x, Tensor weight) -> Tensor": lambda x, weight: torch.empty_like(x),
    "rotary_(Tensor(a!) query, Tensor(b!) key, Tensor table) -> ()": lambda query, key, table: None,
    "silu_and_multiply(Tensor x) -> Tensor": lambda x: x.new_empty(*x.shape[:-1], x.shape[-1] // 2),
    "store_(Tensor(a!) block, Tensor key, Tensor value) -> ()": lambda block, key, value: None,
    "paged_attention(Tensor query, Tensor[] blocks, int tokens) -> Tensor": lambda query, blocks, tokens: torch.empty_like(query),
    "add_weighted_(Tensor(a!) sum, Tensor x, Tensor weights, int index) -> ()": lambda sum, x, weights, index: None,
}.items():
    _fused.define(_schema)
    _fused.impl(_schema.split("(")[0], _shape, "Meta")
fused = torch.ops.inference


@register_flop_formula(fused.paged_attention)
def _attention_flops(query: torch.Size, _blocks: Any, tokens: int, *_: Any, **_named: Any) -> int:
    """The flops of attention for a query (batch, heads, 1, width): scores and their sum."""
    return 4 * query[0] * query[1] * query[3] * tokens


@dataclass(frozen=True)
class Sizes:
    hidden: int
    layers: int
    heads: int
    key_heads: int
    feed_forward: int
    words: int
    experts: int = 0  # of each layer; 0: one dense feed-forward layer

    @property
    def width(self) -> int:
        return self.hidden // self.heads


class GrowingCache:
    """One tensor of keys and one of values a layer, which a longer copy replaces in each step: what generate() of plain PyTorch programs does."""

    def __init__(self, sizes: Sizes, batch: int, tokens: int) -> None:
        shape = (batch, sizes.key_heads, tokens, sizes.width)
        self._tensors = [[torch.empty(shape), torch.empty(shape)] for _ in range(sizes.layers)]

    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        return [(f"{i}.{name}", pair[k]) for i, pair in enumerate(self._tensors) for k, name in enumerate(("keys", "values"))]

    def advance(self) -> None:
        pass

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        pair = self._tensors[layer]
        for k, new in enumerate((key, value)):
            pair[k] = torch.cat([pair[k], new], 2)
        return functional.scaled_dot_product_attention(query, *pair, enable_gqa=True)


class PagedCache:
    """Blocks of keys and values for so many tokens of all sequences; a layer gets one more when its last one is full."""

    def __init__(self, sizes: Sizes, batch: int, tokens: int, block: int) -> None:
        self._shape = (2, batch, block, sizes.key_heads, sizes.width)
        self._block, self._tokens = block, tokens
        self._blocks = [[torch.empty(self._shape) for _ in range(-(-tokens // block))] for _ in range(sizes.layers)]

    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        return [(f"{i}.{k}", block) for i, blocks in enumerate(self._blocks) for k, block in enumerate(blocks)]

    def advance(self) -> None:
        """There is one more token from now on."""
        self._tokens += 1

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        blocks, place = self._blocks[layer], (self._tokens - 1) % self._block
        if (self._tokens - 1) // self._block == len(blocks):
            blocks.append(torch.empty(self._shape))
        fused.store_(blocks[-1][:, :, place], key, value)
        return fused.paged_attention(query, blocks, self._tokens)


class PromptCache:
    """The cache that a prompt leaves: its keys and values, in order of layers."""

    def __init__(self) -> None:
        self.left: list[torch.Tensor] = []

    def advance(self) -> None:
        pass

    def attend(self, _layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        self.left += [key, value]
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


# Returns the experts of a layer for the next token.
Route = Callable[[int], list[int]]


class Layer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self._sizes = sizes
        inner = sizes.key_heads * sizes.width
        self.attention_norm = nn.Parameter(torch.empty(sizes.hidden))
        self.query = nn.Linear(sizes.hidden, sizes.hidden, bias=False)
        self.key = nn.Linear(sizes.hidden, inner, bias=False)
        self.value = nn.Linear(sizes.hidden, inner, bias=False)
        self.out = nn.Linear(sizes.hidden, sizes.hidden, bias=False)
        self.norm = nn.Parameter(torch.empty(sizes.hidden))
        if sizes.experts:
            self.router = nn.Linear(sizes.hidden, sizes.experts, bias=False)
            # One buffer an expert: gate and up, then down.
            self.experts = nn.ParameterList(torch.empty(3 * sizes.feed_forward, sizes.hidden) for _ in range(sizes.experts))
        else:
            self.gate_and_up = nn.Linear(sizes.hidden, 2 * sizes.feed_forward, bias=False)
            self.down = nn.Linear(sizes.feed_forward, sizes.hidden, bias=False)

    def forward(self, x: torch.Tensor, table: torch.Tensor, layer: int, cache: Any, route: Route | None) -> torch.Tensor:
        normed = fused.rms_norm(x, self.attention_norm)
        heads = (-1, self._sizes.width)
        query, key, value = (project(normed).unflatten(-1, heads).transpose(1, 2) for project in (self.query, self.key, self.value))
        fused.rotary_(query, key, table)
        x = x + self.out(cache.attend(layer, query, key, value).transpose(1, 2).flatten(2))
        normed = fused.rms_norm(x, self.norm)
        if route is not None:
            return x + self._mixture(normed, route(layer))
        return x + self.down(fused.silu_and_multiply(self.gate_and_up(normed)))

    def _mixture(self, x: torch.Tensor, active: list[int]) -> torch.Tensor:
        weights = torch.softmax(self.router(x), -1).topk(len(active))[0]
        out = torch.zeros_like(x)
        for index, number in enumerate(active):
            gate_and_up, down = self.experts[number].split([2 * self._sizes.feed_forward, self._sizes.feed_forward])
            hidden = fused.silu_and_multiply(functional.linear(x, gate_and_up))
            fused.add_weighted_(out, functional.linear(hidden, down.view(self._sizes.hidden, -1)), weights, index)
        return out


class LanguageModel(nn.Module):
    """Like Llama: RMS norm, rotary positions, keys shared between heads, a gated feed-forward layer or a mixture of such."""

    MOST_TOKENS = 4096

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.words = nn.Embedding(sizes.words, sizes.hidden)
        self.table = nn.Parameter(torch.empty(self.MOST_TOKENS, sizes.width))
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.norm = nn.Parameter(torch.empty(sizes.hidden))
        self.head = nn.Linear(sizes.hidden, sizes.words, bias=False)

    def forward(self, tokens: torch.Tensor, cache: Any, route: Route | None = None) -> torch.Tensor:
        """The next token of each sequence."""
        cache.advance()
        x = self.words(tokens)
        for number, layer in enumerate(self.layers):
            x = layer(x, self.table, number, cache, route)
        return self.head(fused.rms_norm(x[:, -1:], self.norm)).argmax(-1)


class Residual(nn.Module):
    """A block of the U-Net: two convolutions, with the time between them."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.norm_in, self.convolution_in = nn.GroupNorm(32, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.norm_out, self.convolution_out = nn.GroupNorm(32, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor, _context: torch.Tensor) -> torch.Tensor:
        hidden = self.convolution_in(functional.silu(self.norm_in(x)))
        hidden = hidden + self.time(functional.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.convolution_out(functional.silu(self.norm_out(hidden)))


class Attention(nn.Module):
    WIDTH = 64

    def __init__(self, channels: int, context: int) -> None:
        super().__init__()
        self.query = nn.Linear(channels, channels, bias=False)
        self.key, self.value = nn.Linear(context, channels, bias=False), nn.Linear(context, channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        heads = (-1, self.WIDTH)
        made = (project(of).unflatten(-1, heads).transpose(1, 2) for project, of in ((self.query, x), (self.key, context), (self.value, context)))
        return self.out(functional.scaled_dot_product_attention(*made).transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    def __init__(self, channels: int, context: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.own, self.cross = Attention(channels, channels), Attention(channels, context)
        self.gate_and_up, self.down = nn.Linear(channels, 8 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        normed = self.norms[0](x)
        x = x + self.own(normed, normed)
        x = x + self.cross(self.norms[1](x), context)
        up, gate = self.gate_and_up(self.norms[2](x)).chunk(2, -1)
        return x + self.down(up * functional.gelu(gate))


class Transformer(nn.Module):
    def __init__(self, channels: int, depth: int, context: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, channels)
        self.enter, self.leave = nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.blocks = nn.ModuleList(TransformerBlock(channels, context) for _ in range(depth))

    def forward(self, x: torch.Tensor, _time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        tokens = self.enter(self.norm(x).flatten(2).transpose(1, 2))
        for block in self.blocks:
            tokens = block(tokens, context)
        return x + self.leave(tokens).transpose(1, 2).unflatten(2, x.shape[2:])


class Resample(nn.Module):
    def __init__(self, channels: int, up: bool) -> None:
        super().__init__()
        self._up, self.convolution = up, nn.Conv2d(channels, channels, 3, 1 if up else 2, 1)

    def forward(self, x: torch.Tensor, _time: torch.Tensor, _context: torch.Tensor) -> torch.Tensor:
        return self.convolution(functional.interpolate(x, scale_factor=2.0) if self._up else x)


class UNet(nn.Module):
    """Stable Diffusion XL's, with its published sizes (Podell et al. 2023): channels, transformer depths, two text encoders' context."""

    CHANNELS, DEPTHS, CONTEXT, ADDED, TIME = (320, 640, 1280), (0, 2, 10), 2048, 2816, 1280

    def __init__(self) -> None:
        super().__init__()
        first = self.CHANNELS[0]
        self.time = nn.Sequential(nn.Linear(first, self.TIME), nn.SiLU(), nn.Linear(self.TIME, self.TIME))
        self.added = nn.Sequential(nn.Linear(self.ADDED, self.TIME), nn.SiLU(), nn.Linear(self.TIME, self.TIME))
        self.enter = nn.Conv2d(4, first, 3, padding=1)
        kept, before = [first], first
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level, (channels, depth) in enumerate(zip(self.CHANNELS, self.DEPTHS)):
            for _ in range(2):
                self.down.append(self._stage(before, channels, depth))
                before = channels
                kept.append(channels)
            if level + 1 < len(self.CHANNELS):
                self.down.append(nn.ModuleList([Resample(channels, False)]))
                kept.append(channels)
        self.middle = nn.ModuleList([Residual(before, before, self.TIME), self._transformer(before, self.DEPTHS[-1]), Residual(before, before, self.TIME)])
        for level, (channels, depth) in reversed(list(enumerate(zip(self.CHANNELS, self.DEPTHS)))):
            for i in range(3):
                stage = self._stage(before + kept.pop(), channels, depth)
                before = channels
                if i == 2 and level > 0:
                    stage.append(Resample(channels, True))
                self.up.append(stage)
        self.norm, self.leave = nn.GroupNorm(32, before), nn.Conv2d(before, 4, 3, padding=1)

    def _transformer(self, channels: int, depth: int) -> Transformer:
        return Transformer(channels, depth, self.CONTEXT)

    def _stage(self, inputs: int, channels: int, depth: int) -> nn.ModuleList:
        stage = nn.ModuleList([Residual(inputs, channels, self.TIME)])
        if depth:
            stage.append(self._transformer(channels, depth))
        return stage

    def forward(self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
        state = self.time(time) + self.added(added)
        x = self.enter(x)
        kept = [x]
        for stage in self.down:
            for module in stage:
                x = module(x, state, context)
            kept.append(x)
        for module in self.middle:
            x = module(x, state, context)
        for stage in self.up:
            x = torch.cat([x, kept.pop()], 1)
            for module in stage:
                x = module(x, state, context)
        return self.leave(functional.silu(self.norm(x)))
