# SPDX-License-Identifier: Apache-2.0
"""The library as a memory resource of RMM:

    rmm.mr.set_current_device_resource(thermocline_rmm.resource())

RMM's streams tell their handle since they have __cuda_stream__ (26.10 does).
"""

from __future__ import annotations

import rmm
import thermocline_memory
from rmm._cuda.gpu import getDevice


def _allocate(size: int, stream: object) -> int:
    address = thermocline_memory.allocate(size, getDevice(), stream.__cuda_stream__()[1])
    if not address and size > 0:
        raise MemoryError(f"thermocline: out of memory: {size} bytes")
    return address


def _deallocate(address: int, size: int, stream: object) -> None:
    thermocline_memory.free(address, getDevice(), stream.__cuda_stream__()[1])


def resource() -> rmm.mr.CallbackMemoryResource:
    return rmm.mr.CallbackMemoryResource(_allocate, _deallocate)
