# SPDX-License-Identifier: Apache-2.0
"""The library as CuPy's allocator, on CuPy's current stream:

    cupy.cuda.set_allocator(thermocline_cupy.allocator().malloc)

In place of CuPy's own pool: the library keeps freed memory for the stream that it was freed on, and knows what is in use.
"""

from __future__ import annotations

import cupy
import thermocline
import thermocline_memory


def _malloc(size: int, device: int) -> int:
    address = thermocline_memory.allocate(size, device, cupy.cuda.get_current_stream().ptr)
    if not address and size > 0:
        numbers = thermocline.statistics()
        raise cupy.cuda.memory.OutOfMemoryError(size, numbers["live_bytes"], numbers["budget_bytes"])
    return address


def _free(address: int, device: int) -> None:
    thermocline_memory.free(address, device, cupy.cuda.get_current_stream().ptr)


def allocator() -> cupy.cuda.PythonFunctionAllocator:
    """Its `malloc` is what cupy.cuda.set_allocator and cupy.cuda.using_allocator take. Memory that is freed while another
    stream is current than those that use it has to be waited for by that stream, as with any allocator of CuPy's."""
    return cupy.cuda.PythonFunctionAllocator(_malloc, _free)
