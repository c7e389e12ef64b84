# SPDX-License-Identifier: Apache-2.0
"""CUDA streams, where contents that one stream has made are used by others. Tensors of a CPU have none: then nothing happens."""

from __future__ import annotations

import torch


def use_here(storage: torch.UntypedStorage) -> None:
    """The current stream uses it: whenever it is freed, its memory serves others only behind what this stream has to do until then."""
    if storage.device.type == "cuda":
        use_on(storage, torch.cuda.current_stream(storage.device))


def use_on(storage: torch.UntypedStorage, stream: torch.cuda.Stream) -> None:
    torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).record_stream(stream)


class Made:
    """The current stream has these contents from now on."""

    __slots__ = ("_event", "_stream")

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._stream = torch.cuda.current_stream(storage.device) if storage.device.type == "cuda" else None
        self._event = self._stream.record_event() if self._stream is not None else None

    def use_here(self, storage: torch.UntypedStorage) -> None:
        """The current stream waits for them, if it is another."""
        if self._stream is not None and torch.cuda.current_stream(storage.device) != self._stream:
            torch.cuda.current_stream(storage.device).wait_event(self._event)
            use_here(storage)
