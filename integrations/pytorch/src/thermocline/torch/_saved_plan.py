# SPDX-License-Identifier: Apache-2.0
"""Chooses the values that compiled regions save for backward within a budget. The library's planner chooses (docs/recompute.md). It is asked about a
step in which only saved values count, for several budgets that do not depend on the user's; so more memory never means that more is recomputed."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from . import _command
from ._joint_graph import Base, JointOperator, Region
from ._step_record import cpu_microseconds

# The planner does not drop what is used again within so many operators: around the place that counts there are some that do nothing.
_PAUSE = 32
# Budgets that are tried between the least and what is saved without a budget.
_TRIED = 24
# So many steps of regions whose plans are remembered.
_REMEMBERED = 64


@dataclass(frozen=True)
class Use:
    """A region, and how many of its forward passes wait for their backward at once."""

    region: Region
    count: int


@dataclass(frozen=True)
class Choice:
    """One way to save. nodes: by region."""

    saved_bytes: int
    milliseconds: float
    nodes: tuple[tuple[int, ...], ...]


class _Trace:
    """One step of several regions: their forwards, a place where everything but what is saved is gone, and their backwards. A buffer that
    lives only there is larger than all others together, so that a budget is one for what is saved."""

    def __init__(self, uses: list[Use], bases: list[Base], on_cpu: bool) -> None:
        self._uses, self._bases, self._on_cpu = uses, bases, on_cpu
        self._lines: list[dict[str, Any]] = []
        self._numbers: dict[tuple[int, int], int] = {}  # region, buffer -> the trace's
        self._places = 0
        self.once: list[int] = []
        self.results: list[int] = []
        self.middle = 0  # place of the operator where only what is saved counts
        self._last: dict[tuple[int, int], int] = {}  # last operator that uses it, of all
        self.ballast_bytes = sum(n * use.count for use, base in zip(uses, bases, strict=True) for n in base.sizes.values())

    def text(self) -> str:
        order = [(r, op) for r, base in enumerate(self._bases) for op in base.forward]
        split = len(order)
        order += [(r, op) for r in reversed(range(len(self._bases))) for op in self._bases[r].backward]
        for index, (r, op) in enumerate(order):
            self._last.update({(r, b): index for b in (*op.reads, *op.writes)})
        made = {(r, b) for r, op in order for b in op.writes}
        for r, op in order:
            for b in op.reads:
                if (r, b) not in made and (r, b) not in self._numbers:
                    self._line(e="alloc", b=self._number(r, b), n=1)
        self.before_bytes = len(self._numbers)
        self._line(e="op", k="begin", r=[], w=[], flops=0, bytes=0)
        self._line(e="step", i=0)
        ends: dict[int, list[tuple[int, int]]] = {}
        for key, index in self._last.items():
            if key in made:
                ends.setdefault(index, []).append(key)
        for index, (r, op) in enumerate(order):
            if index == split:
                self._pause()
            self._operator(r, op)
            for key in ends.get(index, ()):
                self._line(e="free", b=self._numbers[key])
        if split == len(order):
            self._pause()
        self._line(e="step", i=1)
        lines = (json.dumps(line, separators=(",", ":")) + "\n" for line in self._lines)
        return '{"schema":"thermocline-trace/1"}\n' + "".join(lines)

    def _line(self, **event: Any) -> None:
        self._lines.append(event)

    def _number(self, region: int, buffer: int) -> int:
        return self._numbers.setdefault((region, buffer), len(self._numbers))

    def _pause(self) -> None:
        for i in range(2 * _PAUSE + 1):
            is_middle = i == _PAUSE
            if is_middle:
                self.middle = self._places
                self.once.append(self._places)
                self.ballast = self._number(-1, -1)
                self._line(e="alloc", b=self.ballast, n=self.ballast_bytes)
            self._line(e="op", k="saved" if is_middle else "pause", r=[], w=[self.ballast] if is_middle else [], flops=0, bytes=0, us=0.001)
            if is_middle:
                self._line(e="free", b=self.ballast)
            self._places += 1

    def _operator(self, r: int, op: JointOperator) -> None:
        count, sizes = self._uses[r].count, self._bases[r].sizes
        for b in op.writes:
            self.results.append(self._number(r, b))
            self._line(e="alloc", b=self._numbers[r, b], n=max(sizes[b] * count, 1))
        moved = sum(sizes.get(b, 0) for b in dict.fromkeys((*op.reads, *op.writes))) * count
        flops = op.flops * count
        timed = {"us": cpu_microseconds(flops, moved)} if self._on_cpu else {}
        reads, writes = [self._numbers[r, b] for b in op.reads], [self._numbers[r, b] for b in op.writes]
        self._line(e="op", k=op.name, r=reads, w=writes, flops=flops, bytes=moved, **timed)
        if op.once:
            self.once.append(self._places)
        self._places += 1

    def made_again(self, drops: list[list[Any]]) -> list[set[int]]:
        """By region: the buffers that these drops make again in backward."""
        buffers = {number: key for key, number in self._numbers.items()}
        found: list[set[int]] = [set() for _ in self._bases]
        for number, begin, end in drops:
            if begin < self.middle and (end is None or end > self.middle):
                region, buffer = buffers[number]
                found[region].add(buffer)
        return found


@dataclass(frozen=True)
class _Answer:
    """A plan that fits."""

    milliseconds: float
    drops: list[list[Any]]


@lru_cache(maxsize=_REMEMBERED)
def _answers(trace: str, terms: str, device: str, beside_bytes: int) -> tuple[_Answer, ...]:
    """The planner's answers from the least budget to everything. They depend on nothing else, so equal regions are planned once, however often
    they are compiled and whatever the user's budget is."""
    found: list[_Answer] = []
    with tempfile.TemporaryDirectory(prefix="thermocline-compile-") as folder:
        paths = [os.path.join(folder, name) for name in ("step.jsonl", "terms.json")]
        for path, text in zip(paths, (trace, terms), strict=True):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

        def plan(saved_bytes: int) -> dict[str, Any]:
            words = ["--terms", paths[1], "--budget", str(beside_bytes + saved_bytes), "--device", device, "--plans", "recompute"]
            return _command.plan(paths[0], *words)

        answer = plan(1)
        least = (answer["peak_bytes"] if answer["fits"] else answer["found_bytes"]) - beside_bytes
        whole = answer["whole_peak_bytes"] - beside_bytes
        for i in range(_TRIED):
            answer = plan(least + (whole - least) * i // (_TRIED - 1))
            if answer["fits"]:
                found.append(_Answer(answer["step_ms"], answer.get("drops", [])))
    return tuple(found)


def _ask(uses: list[Use], bases: list[Base], device: str) -> list[Choice]:
    """The planner's choices from the least budget to everything, by one file."""
    trace = _Trace(uses, bases, all(use.region.on_cpu for use in uses))
    text = trace.text()
    said = {"stays": [trace.ballast], "results": [*trace.results, trace.ballast], "once": trace.once}
    terms = json.dumps({"schema": "thermocline-plan-terms/1", **said})
    found: list[Choice] = []
    for answer in _answers(text, terms, device, trace.ballast_bytes + trace.before_bytes):
        again = trace.made_again(answer.drops)
        nodes = [tuple(u.region.saved_by(b, a)) for u, b, a in zip(uses, bases, again, strict=True)]
        count = sum(u.region.saved_bytes(n) * u.count for u, n in zip(uses, nodes, strict=True))
        found.append(Choice(count, answer.milliseconds, tuple(nodes)))
    return found


def choices(uses: list[Use], device: str) -> list[Choice]:
    """All that there is to choose from, by what is saved. The last one is what PyTorch saves without a budget."""
    firsts = [use.region.bases[0] for use in uses]
    whole = Choice(sum(b.saved_bytes * u.count for u, b in zip(uses, firsts, strict=True)), 0.0, tuple(tuple(b.nodes) for b in firsts))
    found: dict[int, Choice] = {}
    for i in range(2):
        bases = [use.region.bases[min(i, len(use.region.bases) - 1)] for use in uses]
        if i and all(base is first for base, first in zip(bases, firsts, strict=True)):
            break
        for choice in _ask(uses, bases, device):
            known = found.get(choice.saved_bytes)
            if choice.saved_bytes < whole.saved_bytes and (known is None or choice.milliseconds < known.milliseconds):
                found[choice.saved_bytes] = choice
    return [*(found[count] for count in sorted(found)), whole]


def choose(ways: list[Choice], budget_bytes: int) -> Choice | None:
    """The fastest within the budget; None: there is none. What it saves never shrinks where the budget grows: a way that a larger budget adds
    saves more than all that the smaller one had to choose from."""
    if ways[-1].saved_bytes <= budget_bytes:
        return ways[-1]
    within = [way for way in ways if way.saved_bytes <= budget_bytes]
    return min(within, key=lambda way: (way.milliseconds, way.saved_bytes)) if within else None
