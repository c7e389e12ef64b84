# SPDX-License-Identifier: Apache-2.0
"""Which saved tensors leave the device, in which order they return, and what they share. Exact: autograd says by pack
what is saved for backward, and by unpack what backward needs now. How bytes move is a Store's business.

A save is one call of pack. All saves of one storage in one version share an entry: views and duplicates have one copy.
An entry lives as long as one of its saves does. Once backward has begun with an entry it stays on the device until
every live save of it has been unpacked; after that the copy alone is kept, for a second backward.

Backward comes back through the saves in reverse: with each unpack the entries that were packed before it, the last
first, begin to return. That is right within a forward pass, and across several when they are taken back in reverse;
otherwise only the first unpack of each pass waits.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Protocol

import torch

from ._kept import Kept, modified_in
from ._reads import storage_under
from ._streams import Made, use_here


class Evicted(Protocol):
    """Contents that a store keeps. Forgets them when it dies."""

    def prefetch(self) -> None:
        """May be called at any time, and again; fetch() alone must not need it."""

    def fetch(self) -> torch.UntypedStorage:
        """On the device, for work that is submitted from now on to the current stream."""

    def release(self) -> None:
        """Nothing on the device is wanted any more, until the next fetch()."""


class Store(Protocol):
    """Where contents go."""

    def accepts(self, tensor: torch.Tensor) -> bool: ...

    def evict(self, alias: torch.Tensor) -> Evicted:
        """Takes the contents of the storage of `alias`, a detached tensor that nobody else has."""

    def release_copied(self) -> None:
        """Called now and then: what has been copied is released on the device."""


MODIFIED = modified_in("offload")


class _Entry:
    """The contents of one storage, in one version."""

    __slots__ = ("__weakref__", "evicted", "held", "storage_ref", "index", "lock", "made", "original", "version", "waiting", "witness")

    def __init__(self, tensor: torch.Tensor, evicted: Evicted, index: int, lock: threading.RLock) -> None:
        self.evicted = evicted
        self.lock = lock
        self.version = tensor._version
        # Has the version that the tensor and its views have, whoever of them lives, and none of their memory.
        self.witness = tensor.detach()
        self.witness.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        self.original = weakref.ref(tensor)
        self.storage_ref = weakref.ref(storage_under(tensor))  # the storage that has the contents, while it lives
        self.held: torch.UntypedStorage | None = None
        self.made: Made | None = None  # what is held, if it has come back
        self.index = index
        self.waiting = 0  # live saves that backward has not asked for

    def on_device(self) -> torch.UntypedStorage | None:
        storage = self.storage_ref()
        if storage is None or storage is self.held:
            return storage
        tensor = self.original()
        # Whether others have written to it since, only a tensor of that storage can tell.
        known = tensor is not None and tensor._version == self.version
        return storage if known and storage_under(tensor) is storage else None

    def fetch(self) -> torch.UntypedStorage:
        if self.witness._version != self.version:
            raise RuntimeError(MODIFIED)
        storage = self.on_device()
        if storage is not None and self.made is not None:
            self.made.use_here(storage)
        elif storage is None:
            storage = self.evicted.fetch()
            self.made = Made(storage)
            self.storage_ref = weakref.ref(storage)
            self.original = _nobody
        self.held = storage
        return storage

    def release(self) -> None:
        self.held = self.made = None
        self.evicted.release()


def _nobody() -> None:
    return None


class _Save:
    """Stands for a tensor in autograd."""

    __slots__ = ("dtype", "entry", "offset", "size", "stride", "taken")

    def __init__(self, entry: _Entry, tensor: torch.Tensor) -> None:
        self.entry = entry
        self.dtype = tensor.dtype
        self.size = tensor.size()
        self.stride = tensor.stride()
        self.offset = tensor.storage_offset()
        self.taken = False
        entry.waiting += 1

    def __del__(self) -> None:
        with self.entry.lock:
            self.take()

    def take(self) -> None:
        """Backward has it, or will never ask for it."""
        if not self.taken:
            self.taken = True
            self.entry.waiting -= 1
        if self.entry.waiting == 0 and self.entry.held is not None:
            self.entry.release()


class SavedTensors:
    """pack and unpack for torch.autograd.graph.saved_tensors_hooks. Thread-safe: backward has threads of its own."""

    def __init__(
        self, store: Store, *, ahead: int = 4, min_bytes: int = 1 << 20, keep: Iterable[torch.Tensor] = ()
    ) -> None:
        if ahead < 0 or min_bytes < 0:
            raise ValueError(f"ahead and min_bytes are no less than 0, not {ahead} and {min_bytes}")
        self.store = store
        self._ahead = ahead
        self._min_bytes = min_bytes
        self._keep = {storage_under(tensor)._cdata: weakref.ref(storage_under(tensor)) for tensor in keep}
        self._known: dict[int, weakref.ref[_Entry]] = {}  # by storage: the newest entry
        self._order: list[weakref.ref[_Entry]] = []  # as packed
        self._crowded = 64  # how long the order may get before the dead are taken out
        self._lock = threading.RLock()
        self.evicted_bytes = self.restored_bytes = self.shared = self.kept = 0

    def pack(self, tensor: torch.Tensor) -> _Save | Kept:
        with self._lock:
            self.store.release_copied()
            if not self._may_evict(tensor):
                self.kept += 1
                return Kept(tensor, MODIFIED)
            use_here(storage_under(tensor))  # the graph does not keep it until backward
            return _Save(self._entry_of(tensor), tensor)

    def release_copied(self) -> None:
        with self._lock:
            self.store.release_copied()

    def unpack(self, saved: _Save | Kept) -> torch.Tensor:
        if isinstance(saved, Kept):
            return saved.unpack()
        with self._lock:
            entry = saved.entry
            was_there = entry.on_device() is not None
            storage = entry.fetch()
            self.restored_bytes += 0 if was_there else storage.nbytes()
            result = torch.empty(0, dtype=saved.dtype, device=storage.device)
            result.set_(storage, saved.offset, saved.size, saved.stride)
            saved.take()
            self._prefetch_before(entry.index)
            return result

    def _may_evict(self, tensor: torch.Tensor) -> bool:
        if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
            return False  # parameters, subclasses, sparse tensors
        if tensor.is_conj() or tensor.is_neg():
            return False
        base = tensor if tensor._base is None else tensor._base
        if base.is_leaf and base.requires_grad:
            return False  # a parameter in all but name, or a view of one
        if not self.store.accepts(tensor):
            return False
        storage = storage_under(tensor)
        kept = self._keep.get(storage._cdata)
        return (kept is None or kept() is not storage) and storage.nbytes() >= max(self._min_bytes, 1)

    def _entry_of(self, tensor: torch.Tensor) -> _Entry:
        storage = storage_under(tensor)
        known = self._known.get(storage._cdata)
        entry = known() if known is not None else None
        # An address may come again for another storage; a storage has one object as long as it lives.
        if entry is not None and entry.storage_ref() is storage and entry.version == tensor._version:
            self.shared += 1
            return entry
        self._forget_dead()
        entry = _Entry(tensor, self.store.evict(tensor.detach()), len(self._order), self._lock)
        self._known[storage._cdata] = weakref.ref(entry)
        self._order.append(weakref.ref(entry))
        self.evicted_bytes += storage.nbytes()
        return entry

    def _forget_dead(self) -> None:
        while self._order and self._order[-1]() is None:
            self._order.pop()
        if len(self._order) < self._crowded:
            return
        live = [entry for entry in (reference() for reference in self._order) if entry is not None]
        for index, entry in enumerate(live):
            entry.index = index
        self._order = [weakref.ref(entry) for entry in live]
        self._known = {key: reference for key, reference in self._known.items() if reference() is not None}
        self._crowded = max(64, 2 * len(live))

    def _prefetch_before(self, index: int) -> None:
        begun = 0
        for i in range(index - 1, -1, -1):
            if begun == self._ahead:
                return
            entry = self._order[i]()
            if entry is None or entry.waiting == 0:
                continue
            begun += 1
            if entry.on_device() is None:
                entry.evicted.prefetch()
