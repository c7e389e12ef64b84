# SPDX-License-Identifier: Apache-2.0
"""A kernel of Triton, for frameworks.py: Triton reads a kernel's source file."""

import triton
import triton.language as tl


@triton.jit
def kernel(a, b, scale, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    tl.store(a + at, tl.load(a + at, inside) * scale + tl.load(b + at, inside), inside)


def scale_and_add(a, b, scale: float) -> None:
    """a = a * scale + b."""
    kernel[(triton.cdiv(a.numel(), 1024),)](a, b, scale, a.numel(), block=1024)
