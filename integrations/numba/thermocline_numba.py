# SPDX-License-Identifier: Apache-2.0
"""The library as Numba's memory manager (its External Memory Management interface, version 1), chosen before Numba first
uses the device: NUMBA_CUDA_MEMORY_MANAGER=thermocline_numba, or

    numba.cuda.set_memory_manager(thermocline_numba.Manager)

Pinned, mapped and managed memory stay with Numba.
"""

from __future__ import annotations

import thermocline
import thermocline_memory
from numba import cuda


class Manager(cuda.HostOnlyCUDAMemoryManager):
    @property
    def interface_version(self) -> int:
        return 1

    def initialize(self) -> None:
        thermocline_memory.require_library()

    def memalloc(self, size: int) -> cuda.MemoryPointer:
        # Numba's interface knows no stream: what is freed is ordered behind all that its last users were given.
        device = self.context.device.id
        address = thermocline_memory.allocate(size, device, 0)
        if not address and size > 0:
            raise MemoryError(f"thermocline: out of memory: {size} bytes")

        def free() -> None:
            thermocline_memory.free(address, device, 0)

        return cuda.MemoryPointer(self.context, _pointer(address), size, finalizer=free)

    def get_memory_info(self) -> cuda.MemoryInfo:
        numbers = thermocline.statistics()
        free = numbers["budget_bytes"] - min(numbers["budget_bytes"], numbers["block_bytes"] + numbers["external_bytes"])
        return cuda.MemoryInfo(free=free, total=numbers["budget_bytes"])

    def get_ipc_handle(self, memory: object) -> None:
        raise NotImplementedError("the driver gives out no IPC handles of mapped memory")


def _pointer(address: int) -> object:
    """As Numba has pointers: the driver bindings' type where it uses them, else a number by ctypes."""
    try:
        from cuda.bindings.driver import CUdeviceptr

        return CUdeviceptr(address)
    except ImportError:
        import ctypes

        return ctypes.c_void_p(address)


_numba_memory_manager = Manager
