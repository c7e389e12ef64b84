# SPDX-License-Identifier: Apache-2.0
"""The most bytes of storages that were alive at once, as a dispatch mode sees them: without the allocator's rounding, and without what an
operator takes and gives back inside of itself."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ._operators import storages_in


class PeakBytes(TorchDispatchMode):
    """``with PeakBytes(*tensors) as peak: step()``; then `peak.most` has it. For one thread.

    tensors: what is there before, such as parameters; other tensors count from their first use.
    """

    def __init__(self, *tensors: torch.Tensor) -> None:
        super().__init__()
        self.now = self.most = 0
        self.operators = 0
        self._alive: dict[int, int] = {}
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._see(tensors)

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        out = function(*args, **(kwargs or {}))
        self.operators += 1
        self._see((args, kwargs, out))
        return out

    def _see(self, values: Any) -> None:
        for storage in storages_in(values):
            if storage._cdata in self._alive:
                continue
            self._alive[storage._cdata] = storage.nbytes()
            self._storages[storage._cdata] = weakref.ref(storage)
            self.now += storage.nbytes()
            weakref.finalize(storage, self._free, storage._cdata).atexit = False
        self._weigh()
        self.most = max(self.most, self.now)

    def _free(self, key: int) -> None:
        self.now -= self._alive.pop(key)
        del self._storages[key]

    def _weigh(self) -> None:
        """A storage may have been emptied, or filled again, since it was seen first."""
        for key, reference in list(self._storages.items()):
            storage = reference()
            if storage is not None and storage.nbytes() != self._alive[key]:
                self.now += storage.nbytes() - self._alive[key]
                self._alive[key] = storage.nbytes()
