# SPDX-License-Identifier: Apache-2.0
"""Stores, which keep saved tensors that are evicted: pinned host memory with copies of our own, which needs nothing
but PyTorch; or, where the library sees every operation and every tensor is a buffer of its own, the library itself:
it is told that nobody uses them, and moves pages as memory is needed."""

from __future__ import annotations

import weakref
from collections import deque

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import _library
from ._reads import storage_under

_NOT_READY = 600


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage, as bytes."""
    storage = storage_under(tensor)
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)


class _PinnedCopy:
    """A copy in pinned memory; for a while also the original, until it is copied, or a copy that has come back."""

    _original: torch.Tensor | None = None

    def __init__(self, store: PinnedStore, alias: torch.Tensor) -> None:
        self._store = store
        self._device = alias.device
        self._host = torch.empty(storage_under(alias).nbytes(), dtype=torch.uint8, pin_memory=True)
        self._back: tuple[torch.Tensor, torch.cuda.Event] | None = None
        self._stream = store.stream("out", self._device)
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            self._host.copy_(_bytes_of(alias), non_blocking=True)
            self._copied = self._stream.record_event()
        self._original = alias

    def is_copied(self) -> bool:
        return self._copied.query()

    def let_original_go(self) -> None:
        self._original = None

    def let_original_go_behind_copy(self) -> None:
        """The current stream waits, and then whichever stream the memory is of."""
        current = torch.cuda.current_stream(self._device)
        current.wait_event(self._copied)
        self._original.record_stream(current)
        self._original = None

    def __del__(self) -> None:
        # Nobody wants it any more. The memory is that of a stream which does not wait for the copy.
        if self._original is not None:
            with _disable_current_modes():  # it is no operator of the program's
                self._original.record_stream(self._stream)

    def prefetch(self) -> None:
        if self._back is not None:
            return
        # The memory is of the stream that will use it, so the copy comes behind whoever had it there before.
        current = torch.cuda.current_stream(self._device)
        tensor = torch.empty(self._host.numel(), dtype=torch.uint8, device=self._device)
        stream = self._store.stream("back", self._device)
        stream.wait_stream(current)
        stream.wait_stream(self._store.stream("out", self._device))
        with torch.cuda.stream(stream):
            tensor.copy_(self._host, non_blocking=True)
            self._back = (tensor, stream.record_event())
        tensor.record_stream(stream)

    def fetch(self) -> torch.UntypedStorage:
        self._store.release_copied()
        self.prefetch()
        tensor, event = self._back
        current = torch.cuda.current_stream(self._device)
        current.wait_event(event)
        tensor.record_stream(current)
        return storage_under(tensor)

    def release(self) -> None:
        self._back = None


class _StateCopy:
    """Pinned memory of one state (_states.py)."""

    def __init__(self, store: PinnedStore, storage: torch.UntypedStorage) -> None:
        self._store = store
        self._device = storage.device
        self.tensor = torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=True)
        self._event: torch.cuda.Event | None = None

    def copy_out(self, storage: torch.UntypedStorage) -> None:
        stream, whole = self._store.stream("out", self._device), torch.empty(0, dtype=torch.uint8, device=self._device).set_(storage)
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            self.tensor.copy_(whole, non_blocking=True)
            self._event = stream.record_event()
        whole.record_stream(stream)

    def prefetch(self, storage: torch.UntypedStorage) -> None:
        stream, whole = self._store.stream("back", self._device), torch.empty(0, dtype=torch.uint8, device=self._device).set_(storage)
        stream.wait_stream(torch.cuda.current_stream(self._device))  # its memory may be in use there until now
        if self._event is not None:
            stream.wait_event(self._event)
        with torch.cuda.stream(stream):
            whole.copy_(self.tensor, non_blocking=True)
            self._event = stream.record_event()
        whole.record_stream(stream)

    def finish_prefetch(self) -> None:
        if self._event is not None:
            torch.cuda.current_stream(self._device).wait_event(self._event)

    def synchronize(self) -> None:
        if self._event is not None:
            self._event.synchronize()


class PinnedStore:
    """Pinned host memory. What is evicted is released on the device as soon as the copy is made; no more than `most_evicting`
    bytes are on their way out at a time: what comes after the copies in the program's stream then waits for the oldest.
    """

    def __init__(self, most_evicting: int = 1 << 30) -> None:
        self._most_evicting = most_evicting
        self._evicting: deque[tuple[weakref.ref[_PinnedCopy], int]] = deque()  # with bytes; a graph that is dropped takes its copies along
        self._evicting_bytes = 0
        self._streams: dict[tuple[str, torch.device], torch.cuda.Stream] = {}

    def stream(self, direction: str, device: torch.device) -> torch.cuda.Stream:
        key = (direction, device)
        if key not in self._streams:
            self._streams[key] = torch.cuda.Stream(device)
        return self._streams[key]

    def accepts(self, tensor: torch.Tensor) -> bool:
        # A copy out would be part of the graph, and happen again whenever that runs.
        return tensor.is_cuda and not torch.cuda.is_current_stream_capturing()

    def host_copy(self, storage: torch.UntypedStorage) -> _StateCopy:
        return _StateCopy(self, storage)

    def evict(self, alias: torch.Tensor) -> _PinnedCopy:
        copy = _PinnedCopy(self, alias)
        count = storage_under(alias).nbytes()
        self._evicting.append((weakref.ref(copy), count))
        self._evicting_bytes += count
        del alias
        while self._evicting_bytes > self._most_evicting:
            self._release_first(wait=True)
        return copy

    def release_copied(self) -> None:
        while self._evicting and self._release_first(wait=False):
            pass

    def _release_first(self, *, wait: bool) -> bool:
        """False: it is not copied yet."""
        reference, count = self._evicting[0]
        copy = reference()
        if copy is not None and not wait and not copy.is_copied():
            return False
        self._evicting.popleft()
        self._evicting_bytes -= count
        if copy is not None and wait:
            copy.let_original_go_behind_copy()
        elif copy is not None:
            copy.let_original_go()
        return True


class _UnusedBuffer:
    """The storage stays, with its address; its pages go."""

    def __init__(self, alias: torch.Tensor) -> None:
        self.alias = alias
        self.is_evicted = False

    def nobody_else_has_it(self) -> bool:
        # The alias, and the object that asks.
        storage = storage_under(self.alias)
        return torch._C._storage_Use_Count(storage._cdata) <= 2

    def evict_now(self) -> None:
        self.is_evicted = True
        _library.evict(storage_under(self.alias).data_ptr())

    def prefetch(self) -> None:
        if self.is_evicted and _library.prefetch(storage_under(self.alias).data_ptr()):
            self.is_evicted = False

    def fetch(self) -> torch.UntypedStorage:
        self.is_evicted = True  # once: from here on it is backward's
        return storage_under(self.alias)

    def release(self) -> None:
        """Backward uses it for the last time now; then it is freed."""


class LibraryStore:
    """The library's own offloading, told what autograd knows. Nothing is evicted before forward itself has let go of it."""

    def __init__(self) -> None:
        self._waiting: deque[_UnusedBuffer] = deque()

    def accepts(self, tensor: torch.Tensor) -> bool:
        return tensor.is_cuda

    def evict(self, alias: torch.Tensor) -> _UnusedBuffer:
        buffer = _UnusedBuffer(alias)
        self._waiting.append(buffer)
        return buffer

    def release_copied(self) -> None:
        for _ in range(len(self._waiting)):
            buffer = self._waiting.popleft()
            if buffer.is_evicted:
                continue
            if buffer.nobody_else_has_it():
                buffer.evict_now()
            else:
                self._waiting.append(buffer)
