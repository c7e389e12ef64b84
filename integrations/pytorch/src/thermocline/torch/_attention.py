# SPDX-License-Identifier: Apache-2.0
"""Attention on meta tensors as a GPU does it. PyTorch takes its plain formula there, whose buffers of sequence x sequence no GPU has: inside
fused_attention() it takes the operators that it takes on a GPU, which have implementations for shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


def _as_bias(mask: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """PyTorch makes numbers of a mask of truths, in a buffer of its own, before any fused operator."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask.logical_not(), float("-inf"))


# Called with the result of attention, what it is of, and all ways to make it by name, of which the first was taken.
Ways = dict[str, Callable[..., torch.Tensor]]
Watch = Callable[[Ways, tuple[torch.Tensor, torch.Tensor, torch.Tensor]], torch.Tensor]


def _take_first(ways: Ways, inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return next(iter(ways.values()))(*inputs)


class _Attention:
    def __init__(self, take: Watch) -> None:
        self._take = take

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """The choice of PyTorch on a GPU since Ampere: flash attention for half precision without a mask, else the memory-efficient one."""
        flash = query.dtype in (torch.float16, torch.bfloat16) and attn_mask is None and query.shape[-1] <= 256
        if enable_gqa and not flash:
            shared = query.shape[-3] // key.shape[-3]
            key, value = (tensor.repeat_interleave(shared, -3) for tensor in (key, value))
        lead = query.shape[:-3]
        if query.dim() != 4:  # the fused operators take a batch of heads
            query, key, value = (tensor.reshape(-1, *tensor.shape[-3:]) for tensor in (query, key, value))
        bias = None
        if attn_mask is not None:
            bias = _as_bias(attn_mask, query).expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        ways = _ways(bias, dropout_p, is_causal, scale)
        if not flash:
            del ways["flash"]
        elif query.shape[-3] != key.shape[-3]:  # only flash attention shares keys between heads
            ways = {"flash": ways["flash"]}
        out = self._take(ways, (query, key, value))
        return out if len(lead) == 1 else out.reshape(*lead, *out.shape[-3:])


def _ways(bias: torch.Tensor | None, dropout: float, causal: bool, scale: float | None) -> Ways:
    def flash(*inputs: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._scaled_dot_product_flash_attention(*inputs, dropout, causal, False, scale=scale)[0]

    def efficient(*inputs: torch.Tensor) -> torch.Tensor:
        keeps = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
        return torch.ops.aten._scaled_dot_product_efficient_attention(*inputs, bias, keeps, dropout, causal, scale=scale)[0]

    def math(*inputs: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._scaled_dot_product_attention_math(*inputs, bias, dropout, causal, scale=scale)[0]

    return {"flash": flash, "efficient": efficient, "math": math}


@contextmanager
def fused_attention(take: Watch = _take_first) -> Iterator[None]:
    """For the whole process while it is entered; tensors on other devices are not concerned. take: makes the result in one of the ways."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("scaled_dot_product_attention", _Attention(take), "AutogradMeta")
    try:
        yield
    finally:
        library._destroy()
