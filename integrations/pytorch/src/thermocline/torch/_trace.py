# SPDX-License-Identifier: Apache-2.0
"""Files of `thermocline-trace/1` (docs/recording.md): JSON Lines under gzip, one event a line in program order."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
        self._choices = 0  # that have been declared
        self._taken = 0  # of them in this step
        self._mark: dict[str, Any] = {}  # what events get now
        self._marks_buffers = False
        self._begin = 0  # of what the alternative that was taken last did, among those that wait: others follow it
        self._marks: dict[int, dict[str, Any]] = {}  # by buffer, of those that are not in every alternative
        self._renamed: dict[int, int] = {}
        self._line({"schema": "thermocline-trace/1", **header})

    def allocate(self, size_bytes: int, tag: str = "") -> int:
        """The number of the new buffer. tag: what the program calls it; none where it is empty."""
        number = self._buffers
        self._buffers += 1
        event: dict[str, Any] = {"e": "alloc", "b": number, "n": size_bytes}
        if self._marks_buffers:
            self._marks[number] = self._mark
            event.update(self._mark)
        self._allocations[number] = event
        self._waiting.append(event)
        self.tag(number, tag)
        return number

    def tag(self, number: int, tag: str) -> None:
        """Tags a buffer that was allocated in the current step; others keep their tags."""
        event = self._allocations.get(number)
        if event is not None and tag:
            event["tag"] = tag

    def free(self, number: int) -> None:
        if self._renamed.pop(number, None) is None:
            self._waiting.append({"e": "free", "b": number, **self._marks.pop(number, {})})

    def operator(
        self, name: str, reads: Iterable[int], writes: Iterable[int], flops: int, moved_bytes: int, *, slices: int = 0, split: Iterable[int] = ()
    ) -> None:
        """flops: a multiply-add counts as two. moved_bytes: through device memory. slices: it may be split into so many parts, and these
        buffers with it; none where it is 0."""
        self.operators += 1
        self._waiting.append(
            {
                "e": "op",
                "k": name,
                "r": self._current(reads),
                "w": self._current(writes),
                "flops": flops,
                "bytes": moved_bytes,
                **({"slices": slices, "split": self._current(split)} if slices else {}),
                **self._mark,
            }
        )

    def _current(self, buffers: Iterable[int]) -> list[int]:
        return list(dict.fromkeys(self._renamed.get(buffer, buffer) for buffer in buffers))

    def choice(self, name: str, alternatives: list[str]) -> int:
        """The number of a choice between these, of which the first is what happens. The n-th of each step is the same."""
        number = self._taken
        self._taken += 1
        if number == self._choices:
            self._choices += 1
            self._waiting.append({"e": "choice", "k": name, "c": number, "of": alternatives})
        return number

    @contextmanager
    def alternative(self, choice: int, name: str, *, buffers: bool) -> Iterator[list[dict[str, Any]]]:
        """Operators inside belong to this alternative; with `buffers` what is allocated there, too, and its frees. The list has the
        operators at the end."""
        before = self._mark, self._marks_buffers
        begin = len(self._waiting)
        if not buffers:
            self._begin = begin
        self._mark, self._marks_buffers = {"c": choice, "a": name}, buffers
        operators: list[dict[str, Any]] = []
        try:
            yield operators
        finally:
            operators += [event for event in self._waiting[begin:] if event["e"] == "op" and event.get("a") == name]
            self._mark, self._marks_buffers = before

    def mark_freed(self, buffer: int, like: dict[str, Any]) -> bool:
        """Whether the buffer was allocated and freed in this step; then it belongs to the alternative that the event `like` belongs to."""
        events = [event for event in self._waiting[self._begin :] if event["e"] in ("alloc", "free") and event["b"] == buffer]
        if len(events) != 2:
            return False
        for event in events:
            event.update(c=like["c"], a=like["a"])
        return True

    def rename(self, buffer: int, to: int) -> None:
        """The result that an alternative made in this step as `buffer` is the one that another made as `to`."""
        if self._marks.pop(buffer, None) is None:
            return
        allocation = self._allocations.pop(buffer)
        recent = [event for event in self._waiting[self._begin :] if event is not allocation]
        self._waiting[self._begin :] = recent
        self._renamed[buffer] = to
        for event in recent:
            if event["e"] == "op":
                for operands in ("r", "w", "split"):
                    if operands in event:
                        event[operands] = self._current(event[operands])

    def step(self) -> None:
        self._waiting.append({"e": "step", "i": self._steps})
        self._steps += 1
        self._taken = 0
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
