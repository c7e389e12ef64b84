# SPDX-License-Identifier: Apache-2.0
"""Whether two views of one storage have bytes in common. A saved tensor stays valid while others write other parts of its storage, as
recurrent cells do with the chunks of their gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Region:
    """The bytes of a view, from the beginning of its storage: blocks of `item` bytes at `offset` plus multiples of the strides."""

    offset: int
    item: int
    dims: tuple[tuple[int, int], ...]  # (elements, bytes from one to the next), without those of one element
    empty: bool

    @staticmethod
    def of(item: int, size: Sequence[int], stride: Sequence[int], offset: int) -> Region:
        """item: bytes of an element; strides and offset are in elements."""
        dims = tuple((n, step * item) for n, step in zip(size, stride, strict=True) if n > 1 and step)
        return Region(offset * item, item, dims, 0 in size)

    def within(self, modulus: int) -> tuple[int, int]:
        """An interval [begin, begin + length) that has all its bytes, modulo `modulus`."""
        length = self.item + sum((size - 1) * stride for size, stride in self.dims if stride % modulus)
        return self.offset % modulus, length


def region_of(tensor: torch.Tensor) -> Region:
    return Region.of(tensor.element_size(), tensor.size(), tensor.stride(), tensor.storage_offset())


def may_overlap(a: Region, b: Region) -> bool:
    """False only where they have no byte in common. Exact for parts of a tensor along one dimension; other cases may count as overlap."""
    if a.empty or b.empty:
        return False
    # Each modulus alone is a proof: of chunks along a dimension, the stride of the dimension outside of it tells them apart.
    end = 1 + max(r.offset + r.item + sum((size - 1) * stride for size, stride in r.dims) for r in (a, b))
    moduli = {end, *(stride for r in (a, b) for _, stride in r.dims)}
    return all(_meet(*a.within(modulus), *b.within(modulus), modulus) for modulus in moduli)


def _meet(begin: int, length: int, other_begin: int, other_length: int, modulus: int) -> bool:
    """Whether two intervals on a ring of that many bytes have one in common."""
    return (other_begin - begin) % modulus < length or (begin - other_begin) % modulus < other_length
