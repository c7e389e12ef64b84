# SPDX-License-Identifier: Apache-2.0
"""Attention on meta tensors as a GPU does it. PyTorch takes its plain formula there, whose buffers of sequence x sequence no GPU has: inside
fused_attention() it takes the operators that it takes on a GPU, which have implementations for shapes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def _as_bias(mask: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """PyTorch makes numbers of a mask of truths, in a buffer of its own, before any fused operator."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask.logical_not(), float("-inf"))


def _attention(
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
    if flash:
        out = torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
    else:
        bias = None
        if attn_mask is not None:
            bias = _as_bias(attn_mask, query).expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        keeps = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
        out = torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, bias, keeps, dropout_p, is_causal, scale=scale)[0]
    return out if len(lead) == 1 else out.reshape(*lead, *out.shape[-3:])


@contextmanager
def fused_attention() -> Iterator[None]:
    """For the whole process while it is entered; tensors on other devices are not concerned."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("scaled_dot_product_attention", _attention, "AutogradMeta")
    try:
        yield
    finally:
        library._destroy()
