# SPDX-License-Identifier: Apache-2.0
"""Forward and backward of a function as a trace (docs/recording.md) with terms, for `thermocline plan`. Scans are unrolled, long ones into
fewer and larger iterations; what is decided of their values is decided for all iterations at once."""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from . import _command
from ._body import Body, Operator
from ._operators import bytes_of, flops_of, is_variable, traffic_bytes

# A value of a body: the operators of the scans around it and its own, by place; and its index among the results.
Key = tuple[tuple[int, ...], int]
# At most so many operators of a scan are written out.
_MOST_UNROLLED = 1500
# Values that are smaller than this part of all bytes of a step stay.
_SMALL = 1 / 20000


@dataclass
class StepTrace:
    sizes: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)  # buffers that the step finds
    kept: set[int] = field(default_factory=set)  # results: there until the end
    stays: set[int] = field(default_factory=set)
    keys: dict[int, Key] = field(default_factory=dict)  # of buffers that the plan decides of
    operators: list[tuple[str, list[int], list[int], int, int]] = field(default_factory=list)  # name, reads, writes, flops, bytes
    once: list[int] = field(default_factory=list)  # places of operators that must not run again

    def buffer(self, size_bytes: float, key: Key | None = None) -> int:
        number = len(self.sizes)
        self.sizes.append(max(int(size_bytes), 1))
        if key is None:
            self.stays.add(number)
        else:
            self.keys[number] = key
        return number

    def operator(self, name: str, reads: Sequence[int], writes: Sequence[int], flops: float, moved_bytes: float) -> None:
        self.operators.append((name, list(dict.fromkeys(reads)), list(dict.fromkeys(writes)), int(flops), int(moved_bytes)))

    @property
    def instances(self) -> dict[Key, int]:
        found: dict[Key, int] = defaultdict(int)
        for key in self.keys.values():
            found[key] += 1
        return found

    def write(self, path: str) -> None:
        first, last = {}, {}
        for place, (_, reads, writes, _, _) in enumerate(self.operators):
            for number in (*reads, *writes):
                first.setdefault(number, place)
                last[number] = place
        before, ends = set(self.before), defaultdict(list)
        for number, place in last.items():
            if number not in before and number not in self.kept:
                ends[place].append(number)
        with open(path, "w", encoding="utf-8") as file:

            def line(**event: Any) -> None:
                file.write(json.dumps(event, separators=(",", ":")) + "\n")

            line(schema="thermocline-trace/1", source=f"jax {jax.__version__}")
            for number in self.before:
                line(e="alloc", b=number, n=self.sizes[number])
            line(e="op", k="begin", r=[], w=[], flops=0, bytes=0)
            line(e="step", i=0)
            for place, (name, reads, writes, flops, moved) in enumerate(self.operators):
                for number in (*reads, *writes):
                    if first[number] == place and number not in before:
                        line(e="alloc", b=number, n=self.sizes[number])
                line(e="op", k=name, r=reads, w=writes, flops=flops, bytes=moved)
                for number in ends[place]:
                    line(e="free", b=number)
            line(e="step", i=1)

    @property
    def small_bytes(self) -> float:
        return sum(self.sizes) * _SMALL

    def terms(self) -> dict[str, Any]:
        before = set(self.before)
        known = before | {n for _, reads, writes, _, _ in self.operators for n in (*reads, *writes)}
        stays = [
            n for n in range(len(self.sizes)) if n in known and n not in before and (n in self.stays or self.sizes[n] < self.small_bytes)
        ]
        return {
            "schema": "thermocline-plan-terms/1",
            "stays": stays,
            "results": [n for n in sorted(known) if n not in before],
            "once": self.once,
        }


class _Builder:
    """Writes the operators of forward and then those of backward. A variable has a list of buffers: what a scan stacks is in pieces."""

    def __init__(self) -> None:
        self.trace = StepTrace()

    def forward(self, body: Body, env: dict[Any, list[int]], path: tuple[int, ...], scale: float) -> list[Any]:
        """env is completed. Returns, by operator that is a planned scan, the environments of its iterations."""
        tape: list[Any] = []
        for place, op in enumerate(body.operators):
            reads = [n for v in op.inputs for n in env[v]]
            if op.body is not None:
                tape.append((place, self._forward_scan(op, env, (*path, place), scale)))
            elif op.is_free and len(op.eqn.outvars) == 1:
                env[op.eqn.outvars[0]] = list(dict.fromkeys(reads))
            else:
                outs = []
                for i, v in enumerate(op.eqn.outvars):
                    key = None if op.runs_once else ((*path, place), i)
                    env[v] = [self.trace.buffer(scale * bytes_of(v.aval), key)] if bytes_of(v.aval) else []
                    outs += env[v]
                if op.runs_once:
                    self.trace.once.append(len(self.trace.operators))
                self.trace.operator(op.eqn.primitive.name, reads, outs, scale * flops_of(op.eqn), scale * traffic_bytes(op.eqn))
        return tape

    def _forward_scan(self, op: Operator, env: dict[Any, list[int]], path: tuple[int, ...], scale: float) -> list[Any]:
        params, eqn, body = op.eqn.params, op.eqn, op.body
        consts, carries, length = params["num_consts"], params["num_carry"], params["length"]
        times = max(min(length, _MOST_UNROLLED // max(_size(body), 1)), min(2, length))
        inner_scale = scale * length / times
        atoms = [env[v] if is_variable(v) else [] for v in eqn.invars]
        carry, stacked = atoms[consts : consts + carries], [[] for _ in eqn.outvars[carries:]]
        iterations = []
        for k in range(times):
            xs = [[pieces[k]] if len(pieces) == times else pieces for pieces in atoms[consts + carries :]]
            inner = {v: [] for v in body.closed.jaxpr.constvars}
            inner.update(zip(body.closed.jaxpr.invars, [*atoms[:consts], *carry, *xs], strict=True))
            tape = self.forward(body, inner, path, inner_scale)
            outs = [inner[v] if is_variable(v) else [] for v in body.closed.jaxpr.outvars]
            self.trace.stays.update(n for out in outs for n in out)  # a scan keeps what it carries, and what it stacks
            carry = outs[:carries]
            for pieces, out in zip(stacked, outs[carries:], strict=True):
                pieces += out
            iterations.append((inner, tape))
        for v, out in zip(eqn.outvars, [*carry, *stacked], strict=True):
            env[v] = out
        return [iterations, inner_scale]

    def backward(self, body: Body, env: dict[Any, list[int]], tape: list[Any], cotangents: dict[Any, list[int]], scale: float) -> None:
        """cotangents: by variable; those of the inputs are added."""
        scans = dict(tape)
        for place in reversed(range(len(body.operators))):
            op = body.operators[place]
            given = [n for v in op.eqn.outvars for n in cotangents.pop(v, ())]
            if not op.active or not given:
                continue
            if op.body is not None:
                self._backward_scan(op, scans[place], given, cotangents)
                continue
            needs = [n for i in op.backward.needs for n in env[op.eqn.invars[i]]]
            targets = [v for v in dict.fromkeys(op.inputs) if v in body.active]
            made = {v: self.trace.buffer(scale * bytes_of(v.aval)) for v in targets}
            moved = sum(self.trace.sizes[n] for n in (*needs, *given, *made.values()))
            self.trace.operator(
                f"{op.eqn.primitive.name} backward", [*needs, *given], list(made.values()), scale * op.backward.flops, moved
            )
            for v, number in made.items():
                self._add(cotangents, v, [number])

    def _add(self, cotangents: dict[Any, list[int]], variable: Any, made: list[int]) -> None:
        old = cotangents.get(variable)
        if not old or not made:
            cotangents[variable] = made or old or []
            return
        number = self.trace.buffer(max(self.trace.sizes[n] for n in made))
        self.trace.operator("add_any", [*old, *made], [number], 0, 3 * self.trace.sizes[number])
        cotangents[variable] = [number]

    def _backward_scan(self, op: Operator, record: list[Any], given: list[int], cotangents: dict[Any, list[int]]) -> None:
        params, eqn, body = op.eqn.params, op.eqn, op.body
        consts, carries = params["num_consts"], params["num_carry"]
        iterations, scale = record
        inner_inputs, inner_outputs = body.closed.jaxpr.invars, body.closed.jaxpr.outvars
        carried: list[list[int]] = []
        summed: dict[Any, list[int]] = {}
        pieces: dict[Any, list[int]] = defaultdict(list)
        for inner, tape in reversed(iterations):
            found: dict[Any, list[int]] = {}
            for i, v in enumerate(inner_outputs):
                if is_variable(v) and v in body.active:
                    self._add_alias(found, v, given if not carried or i >= carries else carried[i])
            self.backward(body, inner, tape, found, scale)
            carried = [found.get(v, []) for v in inner_inputs[consts : consts + carries]]
            for v in inner_inputs[:consts]:
                self._add(summed, v, found.get(v, []))
            for v in inner_inputs[consts + carries :]:
                pieces[v] += found.get(v, [])
        for atom, v in zip(eqn.invars, inner_inputs, strict=True):
            made = (
                summed.get(v, []) if v in inner_inputs[:consts] else pieces[v] if v in pieces else carried[inner_inputs.index(v) - consts]
            )
            if is_variable(atom) and made:
                self._add(cotangents, atom, made) if len(made) == 1 or not cotangents.get(atom) else cotangents[atom].extend(made)

    @staticmethod
    def _add_alias(found: dict[Any, list[int]], variable: Any, buffers: list[int]) -> None:
        found[variable] = list(dict.fromkeys([*found.get(variable, ()), *buffers]))


def _size(body: Body) -> int:
    return sum(_size(op.body) * min(op.eqn.params["length"], 8) if op.body else 3 for op in body.operators)


def trace_of(body: Body, differentiated: Sequence[bool]) -> StepTrace:
    """body: a flat function whose first result is the loss. differentiated: by input."""
    builder = _Builder()
    trace, jaxpr = builder.trace, body.closed.jaxpr
    env = {}
    for v in (*jaxpr.constvars, *jaxpr.invars):
        env[v] = [trace.buffer(bytes_of(v.aval))] if bytes_of(v.aval) else []
        trace.before += env[v]
    tape = builder.forward(body, env, (), 1.0)
    results = [v for v in jaxpr.outvars if is_variable(v)]
    cotangents: dict[Any, list[int]] = {}
    loss = jaxpr.outvars[0]
    if is_variable(loss) and loss in body.active:
        seed = trace.buffer(bytes_of(loss.aval))
        trace.operator("seed", [], [seed], 0, trace.sizes[seed])
        cotangents[loss] = [seed]
    builder.backward(body, env, tape, cotangents, 1.0)
    for v, wanted in zip(jaxpr.invars, differentiated, strict=True):
        if wanted:
            trace.kept.update(cotangents.get(v, ()))
    trace.kept.update(n for v in results for n in env.get(v, ()))
    trace.kept -= set(trace.before)
    trace.stays |= trace.kept
    return trace


class Planner:
    """Asks the command about one step, under one budget after the other."""

    def __init__(self, trace: StepTrace, device: str) -> None:
        self._trace, self._device = trace, device
        self._folder = tempfile.TemporaryDirectory(prefix="thermocline-fit-")
        self._path, self._terms = (os.path.join(self._folder.name, name) for name in ("step.jsonl", "terms.json"))
        trace.write(self._path)
        with open(self._terms, "w", encoding="utf-8") as file:
            json.dump(trace.terms(), file)

    def ask(self, budget_bytes: int, plans: str) -> dict[str, Any]:
        return _command.plan(
            self._path, "--terms", self._terms, "--budget", str(max(budget_bytes, 1)), "--device", self._device, "--plans", plans
        )

    def shares(self, answer: dict[str, Any], what: str) -> dict[Key, float]:
        """By value: the part of its instances (the iterations of a scan) that the plan drops, or offloads."""
        hit: dict[Key, set[int]] = defaultdict(set)
        for number, *_ in answer.get(what, ()):
            if number in self._trace.keys:
                hit[self._trace.keys[number]].add(number)
        instances = self._trace.instances
        return {key: len(numbers) / instances[key] for key, numbers in hit.items()}

    @property
    def keys(self) -> frozenset[Key]:
        """All values that a plan may decide of."""
        trace = self._trace
        return frozenset(
            key for number, key in trace.keys.items() if number not in trace.stays and trace.sizes[number] >= trace.small_bytes
        )

    def close(self) -> None:
        self._folder.cleanup()
