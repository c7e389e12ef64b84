# SPDX-License-Identifier: Apache-2.0
"""A plan as checkpoints. One jax.checkpoint around a whole function would recompute all of it before the first step of backward. So the
operators are divided into segments at places where nothing crosses that is dropped: a segment's values are recomputed when the gradients
arrive there, and not earlier. What enters a segment is kept by JAX, what is kept inside is named, and the segment's policy keeps these names."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name

from ._body import Body, evaluate_operator
from ._operators import bytes_of, is_call, is_elementwise, is_variable
from ._step_trace import Key


@dataclass(frozen=True)
class Choice:
    """The values that are not kept, and what is done with them instead."""

    dropped: frozenset[Key]
    offloaded: frozenset[Key] = frozenset()
    waists: int = 0  # segments also end where no fewer bytes cross up to so many operators away; what crosses is kept
    stride: int = 1  # of these ends every so-many-th


@dataclass(frozen=True)
class Segment:
    begin: int
    end: int
    is_checkpointed: bool
    kept: frozenset[Key] = frozenset()
    offloaded: frozenset[Key] = frozenset()
    inner: Layout | None = None  # of a scan, which is then alone


@dataclass(frozen=True)
class Layout:
    """The layout of a body, by places of operators: it suits any body of the same fingerprint."""

    segments: tuple[Segment, ...] = ()
    counts: dict[str, int] = field(default_factory=dict, compare=False, hash=False)


class _Divider:
    def __init__(self, body: Body, path: tuple[int, ...], choice: Choice) -> None:
        self._body, self._path, self._choice = body, path, choice
        self._leaving = choice.dropped | choice.offloaded
        self._maker: dict[Any, tuple[int, int]] = {}
        self._sources: dict[Any, list[Any]] = {}  # of views
        for place, op in enumerate(body.operators):
            for i, v in enumerate(op.eqn.outvars):
                self._maker[v] = (place, i)
                if op.is_free:
                    self._sources[v] = [s for u in op.inputs for s in self._sources.get(u, [u])]
        self._wanted_until: dict[Any, int] = {}  # by value that backward wants: the last operator that reads it for that
        self._find_wanted()

    def key(self, variable: Any) -> Key | None:
        made = self._maker.get(variable)
        return None if made is None else ((*self._path, made[0]), made[1])

    def _find_wanted(self) -> None:
        for place in reversed(range(len(self._body.operators))):
            op = self._body.operators[place]
            if op.body or any(v in self._wanted_until and self.key(v) in self._leaving for v in op.eqn.outvars):
                self._want(op.inputs, place)  # to run again
            elif op.active:
                self._want([op.eqn.invars[i] for i in op.backward.needs], place)

    def _want(self, variables: list[Any], place: int) -> None:
        for v in variables:
            for source in self._sources.get(v, [v]):
                self._wanted_until.setdefault(source, place)

    def _crossing(self) -> list[int]:
        """By place: bytes of what leaves, is made before it and wanted by an operator after."""
        change = [0] * (len(self._body.operators) + 2)
        for v, until in self._wanted_until.items():
            if self.key(v) in self._leaving:
                change[self._maker[v][0] + 1] += bytes_of(v.aval)
                change[until + 1] -= bytes_of(v.aval)
        return list(itertools.accumulate(change))

    def _cuts(self) -> list[int]:
        operators, crossing = self._body.operators, self._crossing()
        inside = range(1, len(operators))
        cuts = {0, len(operators), *(p for p in inside if crossing[p] == 0)}
        if self._choice.waists:
            reach = self._choice.waists
            waists = [p for p in inside if 0 < crossing[p] <= 1.01 * min(filter(None, crossing[max(p - reach, 0) : p + reach + 1]))]
            first = set(waists).difference(p + 1 for p in waists)  # of places in a row
            if reach < len(operators):
                first.update(p for p in waists if self._makes_what_leaves(p - 1))
            cuts.update(sorted(first)[:: self._choice.stride])
        for place, op in enumerate(operators):
            if op.stands_alone:
                cuts.update((place, place + 1))
        return sorted(cuts)

    def _makes_what_leaves(self, place: int) -> bool:
        return any(v in self._wanted_until and self.key(v) in self._leaving for v in self._body.operators[place].eqn.outvars)

    def run(self) -> Layout:
        segments: list[Segment] = []
        for begin, end in itertools.pairwise(self._cuts()):
            segment = self._segment(begin, end)
            before = segments[-1] if segments else None
            if before and not before.is_checkpointed and not segment.is_checkpointed and before.inner is None and segment.inner is None:
                segments[-1] = Segment(before.begin, end, False)
            else:
                segments.append(segment)
        return Layout(tuple(segments), self._counts(segments))

    def _segment(self, begin: int, end: int) -> Segment:
        operators = self._body.operators
        if operators[begin].body is not None:
            return Segment(begin, end, False, inner=divide(operators[begin].body, self._choice, (*self._path, begin)))
        if operators[begin].stands_alone:
            return Segment(begin, end, False)
        made = [v for op in operators[begin:end] if not op.is_free for v in op.eqn.outvars if v in self._wanted_until]
        keys = frozenset(self.key(v) for v in made)
        is_active = any(op.active for op in operators[begin:end])
        # Where nothing is dropped, JAX would keep what it derives from values that are kept anyway.
        is_checkpointed = is_active and (
            bool(keys & self._leaving) or any(is_elementwise(op.eqn) or is_call(op.eqn) for op in operators[begin:end])
        )
        if not is_checkpointed:
            return Segment(begin, end, False)
        crossing = {self.key(v) for v in made if self._wanted_until[v] >= end}
        leaving = self._leaving - crossing
        return Segment(begin, end, True, keys - leaving, keys & self._choice.offloaded - crossing)

    def _counts(self, segments: list[Segment]) -> dict[str, int]:
        counts = {"segments": sum(s.is_checkpointed for s in segments), "offloaded": 0, "recomputed": 0, "apart": 0}
        for segment in segments:
            if segment.inner is not None:
                for name, count in segment.inner.counts.items():
                    counts[name] += count
            elif segment.is_checkpointed:
                counts["offloaded"] += len(segment.offloaded)
                for op in self._body.operators[segment.begin : segment.end]:
                    counts["recomputed"] += any(
                        v in self._wanted_until and self.key(v) in self._choice.dropped and self.key(v) not in segment.kept
                        for v in op.eqn.outvars
                    )
        counts["apart"] += sum(op.stands_alone and op.body is None for op in self._body.operators)
        return counts


def divide(body: Body, choice: Choice, path: tuple[int, ...] = ()) -> Layout:
    return _Divider(body, path, choice).run()


def _policy(segment: Segment) -> Callable[..., Any]:
    kept = [_name(key) for key in segment.kept]
    if not segment.offloaded:
        return jax.checkpoint_policies.save_only_these_names(*kept)
    return jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=kept,
        names_which_can_be_offloaded=[_name(key) for key in segment.offloaded],
        offload_src="device",
        offload_dst="pinned_host",
    )


def _name(key: Key) -> str:
    path, index = key
    return f"thermocline:{'.'.join(map(str, path))}:{index}"


def _run(body: Body, segment: Segment, path: tuple[int, ...], inputs: list[Any], outputs: list[Any], values: Collection[Any]) -> list[Any]:
    env = dict(zip(inputs, values, strict=True))
    named = segment.kept | segment.offloaded
    for place in range(segment.begin, segment.end):
        op = body.operators[place]
        read = [env[v] if is_variable(v) else v.val for v in op.eqn.invars]
        if segment.inner is not None:
            results = _scan(op.body, op.eqn, segment.inner, (*path, place), read)
        else:
            with op.eqn.ctx.manager:
                results = evaluate_operator(op.eqn, read)
        for i, (v, value) in enumerate(zip(op.eqn.outvars, results, strict=True)):
            key = ((*path, place), i)
            env[v] = checkpoint_name(value, _name(key)) if key in named else value
    return [env[v] for v in outputs]


def _scan(body: Body, eqn: Any, layout: Layout, path: tuple[int, ...], values: list[Any]) -> list[Any]:
    params = eqn.params
    consts, carries = params["num_consts"], params["num_carry"]

    def step(carry: list[Any], xs: list[Any]) -> tuple[list[Any], list[Any]]:
        out = execute(body, layout, [*values[:consts], *carry, *xs], path)
        return out[:carries], out[carries:]

    options = {"_split_transpose": True} if params.get("_split_transpose") else {}
    carry, stacked = jax.lax.scan(
        step,
        values[consts : consts + carries],
        values[consts + carries :],
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
        **options,
    )
    return [*carry, *stacked]


def execute(body: Body, layout: Layout, values: list[Any], path: tuple[int, ...] = ()) -> list[Any]:
    """The body's results. Under a transformation of JAX its residuals are those of the layout."""
    jaxpr = body.closed.jaxpr
    env = dict(zip(jaxpr.constvars, body.closed.consts, strict=True))
    env.update(zip(jaxpr.invars, values, strict=True))
    last = {v: len(body.operators) for v in jaxpr.outvars if is_variable(v)}
    for place in reversed(range(len(body.operators))):
        for v in body.operators[place].inputs:
            last.setdefault(v, place)
    for segment in layout.segments:
        operators = body.operators[segment.begin : segment.end]
        made = [v for op in operators for v in op.eqn.outvars]
        own = set(made)
        inputs = list(dict.fromkeys(v for op in operators for v in op.inputs if v not in own))
        outputs = [v for v in made if last.get(v, -1) >= segment.end]
        function: Callable[..., list[Any]] = partial(_flat_run, body, segment, path, inputs, outputs)
        if segment.is_checkpointed:
            function = jax.checkpoint(function, policy=_policy(segment))
        env.update(zip(outputs, function(*(env[v] for v in inputs)), strict=True))
    return [env[v] if is_variable(v) else v.val for v in jaxpr.outvars]


def _flat_run(body: Body, segment: Segment, path: tuple[int, ...], inputs: list[Any], outputs: list[Any], *values: Any) -> list[Any]:
    return _run(body, segment, path, inputs, outputs, values)
