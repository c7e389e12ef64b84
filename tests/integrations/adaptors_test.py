# SPDX-License-Identifier: Apache-2.0
"""The adaptors for CuPy, RMM and Numba, those that this Python has, under the library on the simulated device with a budget
of 16 MiB. CuPy and RMM bring a CUDA runtime that does not run there, so what they would say of streams and devices is said
for them; Numba runs as it is."""

import importlib.util
import os
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("pytorch/src", "memory", "cupy", "rmm", "numba"):
    sys.path.insert(0, os.path.join(HERE, "..", "..", "integrations", *folder.split("/")))

import thermocline

MIB = 1 << 20


def require(holds: bool, what: object) -> None:
    if not holds:
        raise AssertionError(what)


def live() -> int:
    return thermocline.statistics()["live_bytes"]


def cupy_allocator() -> None:
    import cupy
    import thermocline_cupy

    require(isinstance(thermocline_cupy.allocator(), cupy.cuda.PythonFunctionAllocator), "kind")
    asked = []
    cupy.cuda.get_current_stream = lambda: asked.append(1) or types.SimpleNamespace(ptr=0)
    address = thermocline_cupy._malloc(3 * MIB, 0)
    require(address > 0 and live() == 3 * MIB, live())
    thermocline_cupy._free(address, 0)
    require(live() == 0 and len(asked) == 2, live())
    try:
        thermocline_cupy._malloc(1 << 40, 0)
    except cupy.cuda.memory.OutOfMemoryError as error:
        require("1,099,511,627,776 bytes" in str(error), error)
    else:
        raise AssertionError("nothing was raised")


def rmm_resource() -> None:
    import rmm
    import thermocline_rmm

    require(isinstance(thermocline_rmm.resource(), rmm.mr.CallbackMemoryResource), "kind")
    require(hasattr(rmm.pylibrmm.stream.DEFAULT_STREAM, "__cuda_stream__"), "RMM's streams tell their handle")
    thermocline_rmm.getDevice = lambda: 0
    stream = types.SimpleNamespace(__cuda_stream__=lambda: (0, 0))
    address = thermocline_rmm._allocate(5 * MIB, stream)
    require(address > 0 and live() == 5 * MIB, live())
    thermocline_rmm._deallocate(address, 5 * MIB, stream)
    require(live() == 0, live())
    try:
        thermocline_rmm._allocate(1 << 40, stream)
    except MemoryError:
        pass
    else:
        raise AssertionError("nothing was raised")


def numba_manager() -> None:
    import numpy as np
    import thermocline_numba
    from numba import cuda

    cuda.set_memory_manager(thermocline_numba.Manager)
    host = [np.arange(MIB, dtype=np.int32) + i for i in range(6)]
    device = [cuda.to_device(array) for array in host]
    numbers = thermocline.statistics()
    require(numbers["live_bytes"] == 24 * MIB and numbers["device_bytes"] <= 16 * MIB, numbers)
    require(all((a == b.copy_to_host()).all() for a, b in zip(host, device)), "contents")
    require(thermocline.statistics()["evicted_bytes"] > 0, "something had to leave")
    require(cuda.current_context().get_memory_info().total == 16 * MIB, "the budget")
    del device
    cuda.current_context().deallocations.clear()
    require(live() == 0, live())
    try:
        cuda.device_array(1 << 40, np.int8)
    except MemoryError as error:
        require("out of memory" in str(error), error)
    else:
        raise AssertionError("nothing was raised")


def main() -> int:
    ran = 0
    for name, test in (("cupy", cupy_allocator), ("rmm", rmm_resource), ("numba_cuda", numba_manager)):
        if importlib.util.find_spec(name) is None:
            print(f"skipped: this Python has no {name}")
            continue
        test()
        print(f"{name}: right")
        ran += 1
    return 0 if ran > 0 else 77


if __name__ == "__main__":
    sys.exit(main())
