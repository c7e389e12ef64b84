# SPDX-License-Identifier: Apache-2.0
"""Where saved tensors go: into pinned host memory by copies of our own, which needs nothing but PyTorch; or, where the
library sees every operation and every tensor is a buffer of its own, nowhere: the library is told that nobody uses
them, and moves pages as memory is needed."""

from __future__ import annotations

from collections import deque

import torch

from .. import _library
from ._reads import storage_under
from ._saved import MODIFIED

_NOT_READY = 600


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage, as bytes."""
    storage = storage_under(tensor)
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)


class _Copy:
    """A copy in pinned memory, and for a while one that has come back."""

    def __init__(self, place: Copies, alias: torch.Tensor) -> None:
        self._place = place
        self._device = alias.device
        self._version = alias._version
        self._host = torch.empty(storage_under(alias).nbytes(), dtype=torch.uint8, pin_memory=True)
        self._back: tuple[torch.Tensor, torch.cuda.Event] | None = None
        self._modified = False

    def copy_out(self, alias: torch.Tensor) -> torch.cuda.Event:
        stream = self._place.stream("out", self._device)
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            self._host.copy_(_bytes_of(alias), non_blocking=True)
            return stream.record_event()

    def left(self, alias: torch.Tensor) -> None:
        """The last moment at which the original is ours."""
        self._modified |= alias._version != self._version

    def begin_return(self) -> None:
        if self._back is not None:
            return
        # The memory is of the stream that will use it, so the copy comes behind whoever had it there before.
        current = torch.cuda.current_stream(self._device)
        tensor = torch.empty(self._host.numel(), dtype=torch.uint8, device=self._device)
        stream = self._place.stream("back", self._device)
        stream.wait_stream(current)
        stream.wait_stream(self._place.stream("out", self._device))
        with torch.cuda.stream(stream):
            tensor.copy_(self._host, non_blocking=True)
            self._back = (tensor, stream.record_event())
        tensor.record_stream(stream)

    def returned(self) -> torch.UntypedStorage:
        self._place.settle()
        if self._modified:
            raise RuntimeError(MODIFIED)
        self.begin_return()
        tensor, event = self._back
        current = torch.cuda.current_stream(self._device)
        current.wait_event(event)
        tensor.record_stream(current)
        return storage_under(tensor)

    def let_go(self) -> None:
        self._back = None


class _Home:
    """Pinned memory of one state (_states.py)."""

    def __init__(self, place: Copies, storage: torch.UntypedStorage) -> None:
        self._place = place
        self._device = storage.device
        self.tensor = torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=True)
        self._event: torch.cuda.Event | None = None

    def copy_out(self, storage: torch.UntypedStorage) -> None:
        stream, whole = self._place.stream("out", self._device), torch.empty(0, dtype=torch.uint8, device=self._device).set_(storage)
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            self.tensor.copy_(whole, non_blocking=True)
            self._event = stream.record_event()
        whole.record_stream(stream)

    def begin_return(self, storage: torch.UntypedStorage) -> None:
        stream, whole = self._place.stream("back", self._device), torch.empty(0, dtype=torch.uint8, device=self._device).set_(storage)
        stream.wait_stream(torch.cuda.current_stream(self._device))  # its memory may be in use there until now
        if self._event is not None:
            stream.wait_event(self._event)
        with torch.cuda.stream(stream):
            whole.copy_(self.tensor, non_blocking=True)
            self._event = stream.record_event()
        whole.record_stream(stream)

    def finish_return(self) -> None:
        torch.cuda.current_stream(self._device).wait_event(self._event)

    def settle(self) -> None:
        if self._event is not None:
            self._event.synchronize()


class Copies:
    """Pinned host memory. What leaves is let go on the device as soon as the copy is made; no more than `most_leaving`
    bytes are on their way out at a time: what comes after the copies in the program's stream then waits for the oldest.
    """

    def __init__(self, most_leaving: int = 1 << 30) -> None:
        self._most_leaving = most_leaving
        self._leaving: deque[tuple[torch.cuda.Event, torch.Tensor, _Copy]] = deque()
        self._leaving_bytes = 0
        self._streams: dict[tuple[str, torch.device], torch.cuda.Stream] = {}

    def stream(self, direction: str, device: torch.device) -> torch.cuda.Stream:
        key = (direction, device)
        if key not in self._streams:
            self._streams[key] = torch.cuda.Stream(device)
        return self._streams[key]

    def takes(self, tensor: torch.Tensor) -> bool:
        # A copy out would be part of the graph, and happen again whenever that runs.
        return tensor.is_cuda and not torch.cuda.is_current_stream_capturing()

    def home(self, storage: torch.UntypedStorage) -> _Home:
        return _Home(self, storage)

    def leave(self, alias: torch.Tensor) -> _Copy:
        copy = _Copy(self, alias)
        self._leaving.append((copy.copy_out(alias), alias, copy))
        self._leaving_bytes += storage_under(alias).nbytes()
        while self._leaving_bytes > self._most_leaving:
            self._let_go_first(wait=True)
        return copy

    def settle(self) -> None:
        while self._leaving and self._leaving[0][0].query():
            self._let_go_first(wait=False)

    def _let_go_first(self, *, wait: bool) -> None:
        event, alias, copy = self._leaving.popleft()
        if wait:
            # Its memory is its stream's again behind the copy.
            torch.cuda.current_stream(alias.device).wait_event(event)
        copy.left(alias)
        self._leaving_bytes -= storage_under(alias).nbytes()


class _Hint:
    """The storage stays, with its address; its pages go."""

    def __init__(self, alias: torch.Tensor) -> None:
        self.alias = alias
        self._version = alias._version
        self.sent = False

    def nobody_else_has_it(self) -> bool:
        # The alias, and the object that asks.
        storage = storage_under(self.alias)
        return torch._C._storage_Use_Count(storage._cdata) <= 2

    def send(self) -> None:
        self.sent = True
        _library.evict(storage_under(self.alias).data_ptr())

    def begin_return(self) -> None:
        if self.sent and _library.prefetch(storage_under(self.alias).data_ptr()):
            self.sent = False

    def returned(self) -> torch.UntypedStorage:
        if self.alias._version != self._version:
            raise RuntimeError(MODIFIED)
        self.sent = True  # once: from here on it is backward's
        return storage_under(self.alias)

    def let_go(self) -> None:
        """Backward uses it for the last time now; then it is freed."""


class Hints:
    """The library's own offloading, told what autograd knows. Nothing is sent before forward itself has let go of it."""

    def __init__(self) -> None:
        self._waiting: deque[_Hint] = deque()

    def takes(self, tensor: torch.Tensor) -> bool:
        return tensor.is_cuda

    def leave(self, alias: torch.Tensor) -> _Hint:
        hint = _Hint(alias)
        self._waiting.append(hint)
        return hint

    def settle(self) -> None:
        for _ in range(len(self._waiting)):
            hint = self._waiting.popleft()
            if hint.sent:
                continue
            if hint.nobody_else_has_it():
                hint.send()
            else:
                self._waiting.append(hint)
