# SPDX-License-Identifier: Apache-2.0
"""offload(): what autograd saves for backward waits in host memory. See _saved.py for what is evicted and when it is fetched,
_stores.py for how."""

from __future__ import annotations

from types import TracebackType

import torch
from torch.autograd.graph import saved_tensors_hooks

from .. import _library
from . import _plugin
from ._saved import SavedTensors, Store
from ._stores import LibraryStore, PinnedStore


def _default_store() -> Store:
    # Under PyTorch's own cache several tensors share one buffer of the library's: a hint would send them all.
    # And without PyTorch's count of who has a storage nobody could tell when forward has let go of it.
    if _plugin.is_enabled() and _library.sees_operations() and hasattr(torch._C, "_storage_Use_Count"):
        return LibraryStore()
    if not torch.cuda.is_available():
        raise RuntimeError("thermocline.torch.offload: PyTorch finds no CUDA device, and CPU tensors stay where they are")
    return PinnedStore()


class offload:  # noqa: N801, like the contexts of torch
    """``with offload(model): loss = model(x)``: what is saved for backward inside is evicted and fetched in time.

    modules: their parameters and buffers are left alone (leaves that require gradients are in any case).
    ahead: so many tensors begin to return before backward asks for them.
    min_bytes: smaller storages stay.

    One object can be entered again and again, and while it is entered. Backward may run inside or outside.
    """

    def __init__(
        self, *modules: torch.nn.Module, ahead: int = 4, min_bytes: int = 1 << 20, store: Store | None = None
    ) -> None:
        keep = [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]
        self._saved = SavedTensors(store or _default_store(), ahead=ahead, min_bytes=min_bytes, keep=keep)
        self._entered: list[saved_tensors_hooks] = []

    def __enter__(self) -> offload:
        if torch.compiler.is_compiling():
            raise RuntimeError("thermocline.torch.offload can not be entered in compiled code; enter it around the call")
        hooks = saved_tensors_hooks(self._saved.pack, self._saved.unpack)
        hooks.__enter__()
        self._entered.append(hooks)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, error, trace)
        self._saved.release_copied()

    def statistics(self) -> dict[str, int]:
        """Since it was made. evicted_bytes, restored_bytes: of storages; shared: saves that found a copy; kept: saves that
        were left where they are."""
        saved = self._saved
        return {
            "evicted_bytes": saved.evicted_bytes,
            "restored_bytes": saved.restored_bytes,
            "shared": saved.shared,
            "kept": saved.kept,
        }
