# SPDX-License-Identifier: Apache-2.0
"""Files of `thermocline-trace/1` (docs/recording.md): JSON Lines under gzip, one event a line in program order."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from typing import Any


class TraceWriter:
    """Writes beside the file and moves it there at the end, so that no half a trace is left under its name. A symbolic link stays, and what
    is no regular file (a pipe, a device) is written to as it is.

    Buffers are numbered from 0 in order of allocation. What happened since the last step is held back, so that a buffer can be
    given its tag later than it was allocated. Not thread-safe.
    """

    def __init__(self, path: str | os.PathLike[str], header: dict[str, Any]) -> None:
        # Moving a file over a pipe or a device would replace it.
        self._is_moved = not os.path.exists(path) or os.path.isfile(path)
        self._path = os.path.realpath(path) if self._is_moved else os.fspath(path)
        self._part = self._path + ".part" if self._is_moved else self._path
        self._file = gzip.open(self._part, "wt", encoding="utf-8", compresslevel=6)
        self._buffers = 0
        self._steps = 0
        self.operators = 0
        self._waiting: list[dict[str, Any]] = []  # events of the step that is under way
        self._allocations: dict[int, dict[str, Any]] = {}  # those of them that are allocations, by buffer
        self._line({"schema": "thermocline-trace/1", **header})

    def allocate(self, size_bytes: int, tag: str = "") -> int:
        """The number of the new buffer. tag: what the program calls it; none where it is empty."""
        number = self._buffers
        self._buffers += 1
        event: dict[str, Any] = {"e": "alloc", "b": number, "n": size_bytes}
        self._allocations[number] = event
        self._waiting.append(event)
        self.tag(number, tag)
        return number

    def tag(self, number: int, tag: str) -> None:
        """Of a buffer that was allocated in the step that is under way; others keep what they have."""
        event = self._allocations.get(number)
        if event is not None and tag:
            event["tag"] = tag

    def free(self, number: int) -> None:
        self._waiting.append({"e": "free", "b": number})

    def operator(self, name: str, reads: Iterable[int], writes: Iterable[int], flops: int, moved_bytes: int) -> None:
        """flops: a multiply-add counts as two. moved_bytes: through device memory."""
        self.operators += 1
        self._waiting.append(
            {"e": "op", "k": name, "r": list(reads), "w": list(writes), "flops": flops, "bytes": moved_bytes}
        )

    def step(self) -> None:
        self._waiting.append({"e": "step", "i": self._steps})
        self._steps += 1
        self._flush()

    @property
    def steps(self) -> int:
        return self._steps

    def close(self) -> None:
        self._flush()
        self._file.close()
        if self._is_moved:
            os.replace(self._part, self._path)

    def discard(self) -> None:
        self._file.close()
        if self._is_moved:
            os.remove(self._part)

    def _flush(self) -> None:
        for event in self._waiting:
            self._line(event)
        self._waiting.clear()
        self._allocations.clear()

    def _line(self, event: dict[str, Any]) -> None:
        json.dump(event, self._file, separators=(",", ":"))
        self._file.write("\n")
