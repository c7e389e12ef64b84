# SPDX-License-Identifier: Apache-2.0
"""The library as PyTorch's allocator (torch.cuda.memory.CUDAPluggableAllocator): for everything, or for chosen regions
(MemPool). PyTorch's own binding wires alloc and free alone; the other hooks are set through the handle that it gives
out, by address."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

import torch

from .. import _library
from ._extension import build_extension, use_extension

# The handle's setters -> the library's functions. set_init_fn is left out: there is nothing to do.
_HOOKS = {
    "set_reset_fn": "thermocline_empty_cache",
    "set_memory_fraction_fn": "thermocline_memory_fraction",
    "set_base_alloc_fn": "thermocline_base",
    "set_record_stream_fn": "thermocline_record_stream",
    "set_begin_allocate_to_pool": "thermocline_begin_pool",
    "set_end_allocate_to_pool_fn": "thermocline_end_pool",
    "set_release_pool": "thermocline_release_pool",
}
# Without it PyTorch forgets which streams use a tensor.
_NEEDED = "set_record_stream_fn"
# c10::detail::torchCheckFail(char const*, char const*, unsigned int, char const*)
_RAISE = "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"

_allocator: torch.cuda.memory.CUDAPluggableAllocator | None = None
# How enable() was called; None: it was not.
_enabled: dict[str, bool] | None = None
_brought_in = False  # the extension is in charge without having been asked for


def _require_cuda() -> None:
    if torch.version.cuda is None:
        raise RuntimeError(
            f"this PyTorch ({torch.__version__}) is built without CUDA, and has no place for an allocator of device memory"
        )


def _let_failures_raise(library: ctypes.CDLL) -> None:
    """PyTorch uses what an allocator returns without a look, so a failure has to be a C++ exception: one of its own."""
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
    raise_error = getattr(ctypes.CDLL(path), _RAISE, None)
    if raise_error is None:
        raise RuntimeError(f"this PyTorch ({torch.__version__}) has no c10::detail::torchCheckFail; failures could not be raised")
    library.thermocline_raise_with(raise_error)


def allocator() -> torch.cuda.memory.CUDAPluggableAllocator:
    """The library's allocator with every hook set, and not in use yet. One for the process."""
    global _allocator
    _require_cuda()
    if _allocator is None:
        library = _library.load()
        _let_failures_raise(library)
        made = torch.cuda.memory.CUDAPluggableAllocator(
            _library.path(), "thermocline_allocate", "thermocline_free"
        )
        handle = made.allocator()
        for setter, function in _HOOKS.items():
            if hasattr(handle, setter):
                getattr(handle, setter)(ctypes.cast(getattr(library, function), ctypes.c_void_p).value)
            elif setter == _NEEDED:
                raise RuntimeError(f"this PyTorch ({torch.__version__}) has no {setter}")
        _allocator = made
    return _allocator


def enable(*, extension: bool = False) -> None:
    """From here on all device memory of PyTorch is the library's. Before PyTorch first uses the device, or not at all.

    extension: by a C++ class of PyTorch's in place of its plug, so that its statistics, snapshots, out-of-memory
    observers and torch.OutOfMemoryError work; built at the first use (build_extension).

    Preloaded (thermocline run), the library also offloads, tensor by tensor. Otherwise it is opened here and moves
    nothing: it allocates, reuses memory in the order of streams, keeps to the budget, counts and reports.

    RuntimeError: PyTorch has no CUDA or finds no device, has allocated there already, or enable() was called before
    with other arguments; the same ones again do nothing.
    """
    global _enabled
    wanted = {"extension": extension}
    if _enabled == wanted or _brought_in:  # which has all that either has
        return
    if _enabled is not None:
        raise RuntimeError(
            f"thermocline.torch.enable() was called with extension={_enabled['extension']} before, and PyTorch changes "
            "its allocator once a process: call it with the same arguments, or once"
        )
    _require_cuda()
    if torch.cuda.device_count() == 0:
        raise RuntimeError(
            "PyTorch finds no CUDA device, so thermocline.torch.enable() has nothing to allocate on. To try a program "
            "without a GPU: thermocline run --simulate h200 -- python ..."
        )
    built = build_extension() if extension else None
    try:
        if built is not None:
            use_extension(built)
        else:
            torch.cuda.memory.change_current_allocator(allocator())
    except RuntimeError as error:
        raise RuntimeError(
            "thermocline.torch.enable() has to come before PyTorch allocates on the device for the first time: " + str(error)
        ) from error
    _enabled = wanted


def bring_in_extension(before_building: Callable[[], None]) -> None:
    """enable(extension=True) without asking for devices, which would begin CUDA in a process that may yet fork."""
    global _enabled, _brought_in
    if _enabled is None:
        use_extension(build_extension(before_building=before_building))
        _enabled, _brought_in = {"extension": True}, True


def is_enabled() -> bool:
    """Whether enable() has been called here."""
    return _enabled is not None


def pool(**options: bool) -> torch.cuda.MemPool:
    """A torch.cuda.MemPool whose memory is the library's, for chosen regions: ``with torch.cuda.use_mem_pool(pool()):``.

    PyTorch's cache stays in charge, with its statistics, and asks the library for whole segments. As in every MemPool,
    only what the thread itself allocates goes there, not what autograd's threads do. options: of torch.cuda.MemPool.
    """
    if _brought_in:
        return torch.cuda.MemPool(**options)
    if _enabled is not None:
        raise RuntimeError("after thermocline.torch.enable() all memory is the library's, and PyTorch has no pools")
    return torch.cuda.MemPool(allocator().allocator(), **options)
