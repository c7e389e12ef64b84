# SPDX-License-Identifier: Apache-2.0
"""A recorded step as a trace with terms, for `thermocline plan`; and its answer in terms of what is dispatched. The planner is the
library's (docs/recompute.md); nothing is decided here."""

from __future__ import annotations

import json
import os
import tempfile
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from . import _command
from ._budget import Budget
from ._states import Role
from ._step_record import ASIDE_BYTES, StepRecord, Version


# Times in a plan for the fewest flops. Every operator takes some.
_FLOPS_A_MICROSECOND, _FLOPS_ALONE_MICROSECONDS = 20_000, 0.01


class DoesNotFitError(RuntimeError):
    """No plan needs as little as the budget. least_bytes: what one operator alone needs; found_bytes: for so much there is a plan, also
    if what the step left is still there when the next begins."""

    def __init__(self, message: str, least_bytes: int, found_bytes: int | None) -> None:
        super().__init__(message)
        self.least_bytes = least_bytes
        self.found_bytes = found_bytes


@dataclass
class Gap:
    """Between two uses, in ordinals of what is dispatched: a version is not there after `begin` until `end`."""

    begin: int
    end: int  # the ordinal before which it is there again; what is never asked for again: beyond the end
    how: str  # "drop" or "offload"
    prefetch_at: int = -1  # offload: the copy may begin after this


@dataclass
class Value:
    """A version that is dropped or offloaded."""

    key: Version
    gaps: list[Gap]
    kept_first: bool  # backward asks for it before its first gap


# After what: the operator with that ordinal ("op"), or so many operators that ran again, over the whole step ("rerun").
After = tuple[str, int]


@dataclass
class Moves:
    """The moves of states, which wait in host memory between uses."""

    roles: dict[int, Role] = field(default_factory=dict)  # by number of those that the step finds
    evicted_first: list[int] = field(default_factory=list)  # numbers: in host memory when the step begins
    fetched_first: list[int] = field(default_factory=list)  # numbers: on their way to the device when the step begins
    # Operator -> what it makes there and becomes a gradient: index among what it writes, number.
    births: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    evictions: dict[After, list[int]] = field(default_factory=dict)
    prefetches: dict[After, list[int]] = field(default_factory=dict)
    reran: dict[int, int] = field(default_factory=dict)  # operator -> how many have run again before it, over the whole step
    others_bytes: int = 0  # the most that everything else needs

    def ordinals(self) -> set[int]:
        """Operators at which something is to be done."""
        return {ordinal for kind, ordinal in (*self.evictions, *self.prefetches) if kind == "op"} | set(self.births) | set(self.reran)


@dataclass
class StepPlan:
    """For the execution, by ordinal of what is dispatched."""

    functions: list[Any]
    recorded: set[int]  # operators whose arguments are remembered, so that they can run again
    # Operators among those that change small state of before the step, of which a copy is kept -> indices among what they write.
    aside: dict[int, set[int]]
    # Operators among those that read small contents which end before they may run again -> indices among the storages that they read.
    pinned: dict[int, set[int]]
    values: dict[int, dict[int, Value]]  # operator -> index among what it writes -> what happens to that
    begins: dict[int, list[tuple[Version, int]]]  # after an operator: gaps that begin, as (key, index)
    prefetches: dict[int, list[Version]]  # after an operator: copies to the device that may begin
    together: dict[Version, dict[int, list[Version]]]  # key -> gap -> versions that are made again at once, in order
    answer: dict[str, Any] = field(default_factory=dict)  # of the command
    copies: set[int] = field(default_factory=set)  # operators whose results others read, when they run again, in place of what they change
    moves: Moves | None = None

    @property
    def dropped(self) -> int:
        return sum(gap.how == "drop" for values in self.values.values() for v in values.values() for gap in v.gaps)

    @property
    def offloaded(self) -> int:
        return sum(gap.how == "offload" for values in self.values.values() for v in values.values() for gap in v.gaps)


def write_trace(record: StepRecord, path: str, room_bytes: int) -> None:
    """Two steps of thermocline-trace/1: in the first what the step found is allocated, and room for copies of it; the second is the step."""
    with open(path, "w", encoding="utf-8") as file:

        def line(**event: Any) -> None:
            file.write(json.dumps(event, separators=(",", ":")) + "\n")

        line(schema="thermocline-trace/1", source=f"torch {torch.__version__}")
        for number in record.before:
            line(e="alloc", b=number, n=record.sizes[number])
        if room_bytes:
            line(e="alloc", b=max(record.sizes, default=-1) + 1, n=room_bytes)
        line(e="op", k="begin", r=[], w=[], flops=0, bytes=0)
        line(e="step", i=0)
        for kind, number in record.events:
            if kind == "alloc":
                line(e="alloc", b=number, n=record.sizes[number])
            elif kind == "free":
                line(e="free", b=number)
            else:
                op = record.operators[number]
                timed = {"us": op.microseconds} if op.microseconds else {}
                line(e="op", k=op.name, r=op.reads, w=op.writes, flops=op.flops, bytes=op.moved_bytes, **timed)
        line(e="step", i=1)


def _aside_bytes(record: StepRecord) -> int:
    """At most so much is kept of small state that the step changes."""
    return sum(record.sizes[number] for (number, _), _, _ in record.state_wanted_later)


def _kept_aside(record: StepRecord, reruns: set[int]) -> list[tuple[Version, int, int]]:
    """The versions of such state that these operators read when they run again."""
    read = {(number, record.version_at(number, place)) for place in reruns for number in record.operators[place].reads}
    return [change for change in record.state_wanted_later if change[0] in read]


def whole_peak_bytes(record: StepRecord) -> int:
    """The most bytes alive at once in the recorded step."""
    now = most = record.before_bytes
    for kind, number in record.events:
        if kind != "op":
            now += record.sizes[number] if kind == "alloc" else -record.sizes[number]
            most = max(most, now)
    return most


def movable(record: StepRecord, min_bytes: int) -> set[int]:
    """States that the step uses, without those that it saves a change of."""
    used = {n for operator in record.operators for n in (*operator.reads, *operator.writes)}
    changed = {number for number, version in record.saved if version > 0}
    return {n for n in record.roles if n in used and n not in changed and record.sizes[n] >= min_bytes}


def terms_of(record: StepRecord, min_bytes: int) -> dict[str, Any]:
    """The terms of the execution: it evicts only saved versions, once the program lets go of them."""
    found = set(record.before)
    saved = {number for number, _ in record.saved if number not in found and record.sizes[number] >= min_bytes}
    places = len(record.operators)
    # An operator that runs again reads a kept copy of such a state, or the state itself, which therefore does not move.
    kept = {number for (number, _), _, _ in record.state_wanted_later}
    moving = movable(record, min_bytes) - kept
    return {
        "schema": "thermocline-plan-terms/1",
        "held": [[n, min(max(1, record.held_until.get(n, 0)), places - 1)] for n in sorted(saved | (moving - found))],
        "stays": [n for n in record.sizes if n not in found and n not in saved and n not in moving],
        "moves": sorted(moving),
        "aside": [n for n in record.before if record.sizes[n] <= ASIDE_BYTES and n not in moving],
        "results": record.results,
        "once": [place for place, op in enumerate(record.operators) if op.refusal],
    }


def ask(
    record: StepRecord, budget: Budget, *, device: str, plans: str, min_bytes: int, bound: bool = False, command: str | None = None
) -> dict[str, Any]:
    """The command's answer (docs/recompute.md). Plans are found by search. Where arithmetic runs again, the planner is also asked for the fewest flops, and the
    faster plan is taken: only with times of operators that are known here, and where nothing but recomputing takes time."""
    asked = {"device": device, "plans": plans, "min_bytes": min_bytes, "command": command}
    answer = _ask(record, budget, bound=bound, **asked)
    if plans != "recompute" or not any(record.operators[place].flops for place in answer.get("reruns", ())):
        return answer
    if not all(op.microseconds for op in record.operators):
        return answer
    cheap = [replace(op, microseconds=_FLOPS_ALONE_MICROSECONDS + op.flops / _FLOPS_A_MICROSECOND) for op in record.operators]
    other = _ask(replace(record, operators=cheap), budget, **asked)
    if not other["fits"] or _rerun_ms(record, other) >= _rerun_ms(record, answer):
        return answer
    recomputed_ms = _rerun_ms(record, other)
    known = {name: answer[name] for name in ("compute_ms", "bound_ms", "whole_peak_bytes", "found_bytes")}
    return {**other, **known, "recomputed_ms": recomputed_ms, "step_ms": answer["compute_ms"] + recomputed_ms}


def _rerun_ms(record: StepRecord, answer: dict[str, Any]) -> float:
    return sum(record.operators[place].microseconds for place in answer["reruns"]) / 1000


def _ask(
    record: StepRecord, budget: Budget, *, device: str, plans: str, min_bytes: int, bound: bool = False, command: str | None = None
) -> dict[str, Any]:
    """The command's answer. Copies of small state are only kept where something that reads it runs again, which is known of a
    plan: room for them is left as far as the plan before needed it, and in the last try for all."""
    limit, all_bytes = budget.bytes_of(whole_peak_bytes(record)), _aside_bytes(record)
    with tempfile.TemporaryDirectory(prefix="thermocline-fit-") as folder:
        trace, terms = os.path.join(folder, "step.jsonl"), os.path.join(folder, "terms.json")
        with open(terms, "w", encoding="utf-8") as file:
            json.dump(terms_of(record, min_bytes), file)
        # Not the command's own percentage: it would be of a peak that has room for copies.
        words = ["--terms", terms, "--budget", str(limit), "--device", device, "--plans", plans]
        room, bound_ms = 0, None
        for tries_left in (2, 1, 0):
            write_trace(record, trace, room)
            is_first = bound and room == 0
            answer = _command.plan(trace, *words, *(["--bound"] if is_first else []), command=command)
            bound_ms = answer["bound_ms"] if is_first else bound_ms
            kept = sum(record.sizes[number] for (number, _), _, _ in _kept_aside(record, set(answer.get("reruns", ()))))
            if room == all_bytes or (answer["fits"] and answer["peak_bytes"] - room + kept <= limit):
                break
            room = kept if answer["fits"] and tries_left == 2 else all_bytes
    answer.update(whole_peak_bytes=answer["whole_peak_bytes"] - room, bound_ms=bound_ms)
    if answer["found_bytes"] is not None:
        answer["found_bytes"] = min(answer["found_bytes"], answer["whole_peak_bytes"])
    if answer["whole_peak_bytes"] <= limit:
        answer.update(
            fits=True, peak_bytes=answer["whole_peak_bytes"], step_ms=answer["compute_ms"], recomputed_ms=0.0, offloaded_bytes=0,
            drops=[], offloads=[], reruns=[], rerun_before=[], moves=[],
        )  # fmt: skip
    elif answer["fits"]:
        answer["peak_bytes"] += kept - room
    return answer


def _mib(count: float) -> str:
    return f"{count / (1 << 20):,.1f} MiB"


def _peak_of_others(record: StepRecord) -> int:
    """The most bytes at once of what is no state."""
    now = most = sum(record.sizes[n] for n in record.before if n not in record.roles)
    for kind, number in record.events:
        if kind != "op" and number not in record.roles:
            now += record.sizes[number] if kind == "alloc" else -record.sizes[number]
            most = max(most, now)
    return most


def refuse(record: StepRecord, answer: dict[str, Any]) -> DoesNotFitError:
    """The error that says what would suffice, in bytes: rounded numbers would not."""
    message = (
        f"thermocline.torch.fit: the step does not fit {_mib(answer['budget_bytes'])}: operator {answer['least_at']} of "
        f"{len(record.operators)} ({answer['least_operator']}) needs {_mib(answer['least_bytes'])} with what can not leave"
    )
    if record.roles and answer["least_operator"].startswith(("_foreach_", "_fused_")):
        message += "; it takes a whole list of tensors at once: give foreach=False and fused=False to the optimizer, or to clip_grad_norm_()"
    found = answer["found_bytes"]
    if found is not None:
        left = max(record.alive_bytes() - record.before_bytes, 0)
        message += f"; a plan was found for budget={found + left} ({_mib(found + left)})"
        if left:
            message += f", or budget={found} if the {left} bytes that the step left (gradients, state) are gone when the next begins"
        found += left
    message += f". Kept whole the step needs {answer['whole_peak_bytes']} bytes"
    return DoesNotFitError(message, answer["least_bytes"], found)


def plan_of(record: StepRecord, answer: dict[str, Any]) -> StepPlan:
    """The answer, which fits, in ordinals."""
    return _Compiler(record, answer).run()


class _Compiler:
    def __init__(self, record: StepRecord, answer: dict[str, Any]) -> None:
        self._record = record
        self._answer = answer
        self._end = len(record.functions) + 1

    def run(self) -> StepPlan:
        record, answer = self._record, self._answer
        begins, prefetches, together_at = defaultdict(list), defaultdict(list), defaultdict(dict)
        plan = StepPlan(record.functions, set(), self._aside(), self._pinned(), {}, begins, prefetches, together_at, answer)
        plan.recorded = {self._ordinal(place) for place in answer.get("reruns", ())}
        values = self._values()
        together: dict[int, list[Version]] = defaultdict(list)
        for value in values.values():
            place, index = record.writers[value.key[0]][value.key[1] - 1]
            plan.values.setdefault(self._ordinal(place), {})[index] = value
            for i, gap in enumerate(value.gaps):
                if i > 0 or value.kept_first:
                    plan.begins[gap.begin].append((value.key, i))
                if gap.how == "offload" and gap.prefetch_at >= 0:
                    plan.prefetches[gap.prefetch_at].append(value.key)
                if gap.how == "drop" and gap.end < self._end:
                    together[gap.end].append(value.key)
                    plan.together[value.key][i] = together[gap.end]
        plan.recorded |= set(plan.values)
        plan.copies = {ordinal for op in record.operators if op.ordinal in plan.recorded for ordinal in op.copies}
        plan.moves = self._moves() if record.roles else None
        for end, keys in together.items():
            self._order(keys, end)
        return plan

    def _moves(self) -> Moves:
        record, answer = self._record, self._answer
        before = set(record.before)
        moves = Moves(reran={}, others_bytes=_peak_of_others(record))
        timeline: list[After] = []
        reruns = list(answer["rerun_before"])
        ran = 0
        for place in range(len(record.operators)):
            while ran < len(reruns) and reruns[ran] == place:
                ran += 1
                timeline.append(("rerun", ran))
                moves.reran[self._ordinal(place)] = ran
            timeline.append(("op", self._ordinal(place)))
        for number, begin, end, prefetch_at in answer["moves"]:
            if number in before:
                moves.roles[number] = record.roles[number]
            else:
                place, index = record.writers[number][0]
                births = moves.births.setdefault(self._ordinal(place), [])
                if (index, number) not in births:
                    births.append((index, number))
            moves.evictions.setdefault(timeline[begin], []).append(number)
            if end is not None and end <= begin and prefetch_at == len(timeline) - 1:
                # For the planner that is between two steps; here what the step leaves, such as gradients, may still be on the device then.
                moves.fetched_first.append(number)
            elif end is not None:
                moves.prefetches.setdefault(timeline[prefetch_at], []).append(number)
            if end is not None and prefetch_at < begin:
                moves.evicted_first.append(number)
        return moves

    def _order(self, keys: list[Version], end: int) -> None:
        """As the planner makes them again: by the operands of the operator that wants them."""
        place = bisect_left(self._record.operators, end, key=lambda op: op.ordinal)
        reads = self._record.operators[place].reads
        keys.sort(key=lambda key: reads.index(key[0]) if key[0] in reads else len(reads))

    def _aside(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = defaultdict(set)
        for _, place, index in _kept_aside(self._record, set(self._answer["reruns"])):
            if index >= 0:
                found[self._ordinal(place)].add(index)
        return dict(found)

    def _pinned(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = defaultdict(set)
        reruns = set(self._answer["reruns"])
        ended = {number for (number, _), _, index in _kept_aside(self._record, reruns) if index < 0}
        for place in reruns if ended else ():
            for i, number in enumerate(self._record.operators[place].reads):
                if number in ended:
                    found[self._ordinal(place)].add(i)
        return dict(found)

    def _ordinal(self, place: int) -> int:
        return self._record.operators[place].ordinal

    def _values(self) -> dict[Version, Value]:
        found: dict[Version, Value] = {}
        for number, begin, end in self._answer.get("drops", ()):
            self._add(found, number, begin, end, "drop", None)
        for number, begin, end, prefetch_at in self._answer.get("offloads", ()):
            self._add(found, number, begin, end, "offload", prefetch_at)
        for value in found.values():
            value.gaps.sort(key=lambda gap: gap.begin)
            first = value.gaps[0].begin
            value.kept_first = any(at <= first for at in self._record.saved[value.key].unpacked_at)
        self._add_carried(found)
        return found

    def _add_carried(self, found: dict[Version, Value]) -> None:
        """Earlier versions whose saves become saves of a planned one; they stay until then."""
        for number, version in list(found):
            earlier = (number, version - 1)
            while earlier[1] > 0 and earlier in self._record.carried and earlier not in found:
                found[earlier] = Value(earlier, [], True)
                earlier = (number, earlier[1] - 1)

    def _add(
        self, found: dict[Version, Value], number: int, begin: int, end: int | None, how: str, prefetch_at: int | None
    ) -> None:
        version = sum(place <= begin for place, _ in self._record.writers[number])
        key = (number, version)
        if version == 0 or key not in self._record.saved:
            return  # an older version than the one that was saved: the program lets go of it by itself
        gap = Gap(
            begin=self._ordinal(begin),
            end=self._end if end is None else self._ordinal(end),
            how=how,
            prefetch_at=-1 if prefetch_at is None else self._ordinal(prefetch_at),
        )
        found.setdefault(key, Value(key, [], False)).gaps.append(gap)
