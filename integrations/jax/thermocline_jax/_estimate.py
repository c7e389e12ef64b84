# SPDX-License-Identifier: Apache-2.0
"""Estimates a jaxpr of forward and backward, in its own order: the most bytes alive at once, and the time by a device profile. Exact for the
values that the jaxpr names; a value that one fused loop makes and the next one reads takes no memory."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import jax

from ._command import Rates
from ._operators import bytes_of, flops_of, inner_jaxprs, is_elementwise, is_free, is_fusible_reader, is_variable, traffic_bytes


def _fused(jaxpr: Any, kept_until: int = 0) -> set[Any]:
    """Variables without memory of their own. What is made before the equation `kept_until` and read behind it has memory."""
    sources = _sources(jaxpr)
    readers: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
    for place, eqn in enumerate(jaxpr.eqns):
        if not is_free(eqn):
            for v in {s for v in eqn.invars if is_variable(v) for s in sources.get(v, [v])}:
                readers[v].append((place, eqn))
    results = {s for v in jaxpr.outvars if is_variable(v) for s in sources.get(v, [v])}
    found = set()
    for place, eqn in enumerate(jaxpr.eqns):
        if not is_elementwise(eqn) or is_free(eqn):
            continue
        for v in eqn.outvars:
            if v in results or len(readers[v]) != 1 or not is_fusible_reader(readers[v][0][1]):
                continue
            if not place < kept_until <= readers[v][0][0]:
                found.add(v)
    return found


def _sources(jaxpr: Any) -> dict[Any, list[Any]]:
    """By variable that is only another view: what it is made from."""
    found: dict[Any, list[Any]] = {}
    for eqn in jaxpr.eqns:
        if is_free(eqn):
            inputs = [s for v in eqn.invars if is_variable(v) for s in found.get(v, [v])]
            for v in eqn.outvars:
                found[v] = inputs
    return found


def end_of_forward(jaxpr: Any) -> int:
    """Behind the equation that makes the first result, the loss."""
    loss = jaxpr.outvars[0]
    return next((place + 1 for place, eqn in enumerate(jaxpr.eqns) if is_variable(loss) and loss in eqn.outvars), 0)


def peak_inside(jaxpr: Any, kept_until: int = 0) -> int:
    """The most bytes alive at once beside the inputs."""
    fused, sources = _fused(jaxpr, kept_until), _sources(jaxpr)
    outside = set(jaxpr.invars) | set(jaxpr.constvars)
    last: dict[Any, int] = {}
    readings = []
    for place, eqn in enumerate(jaxpr.eqns):
        readings.append([s for v in eqn.invars if is_variable(v) for s in sources.get(v, [v])])
        # A value that is fused away is computed where it is read: its own inputs live until then.
        last.update((v, place) for v in readings[-1])
    _prolong(jaxpr, readings, last, fused)
    for v in filter(is_variable, jaxpr.outvars):
        last.update((s, len(jaxpr.eqns)) for s in sources.get(v, [v]))
    ends: dict[int, list[Any]] = defaultdict(list)
    for v, place in last.items():
        if v not in outside:
            ends[place].append(v)
    now = most = 0
    size: dict[Any, int] = {}
    for place, eqn in enumerate(jaxpr.eqns):
        made = 0
        for v in eqn.outvars:
            size[v] = 0 if v in fused or v in sources else bytes_of(v.aval)
            made += size[v]
        most = max(most, now + max(made, _needed_inside(eqn)))
        now += made - sum(size[v] for v in eqn.outvars if v not in last)
        now -= sum(size.get(v, 0) for v in ends[place])
    return max(most, now)


def _prolong(jaxpr: Any, readings: list[list[Any]], last: dict[Any, int], fused: set[Any]) -> None:
    for place in reversed(range(len(jaxpr.eqns))):
        until = max((last.get(v, 0) for v in jaxpr.eqns[place].outvars if v in fused), default=0)
        if until:
            for v in readings[place]:
                last[v] = max(last.get(v, 0), until)


def _needed_inside(eqn: Any) -> int:
    """Its own results among it."""
    name = eqn.primitive.name
    inside = max((peak_inside(jaxpr) for jaxpr in inner_jaxprs(eqn)), default=0)
    if name in ("scan", "while"):
        return inside + sum(bytes_of(v.aval) for v in eqn.outvars)
    return inside


def milliseconds(jaxpr: Any, rates: Rates, kept_until: int = 0) -> float:
    fused, sources = _fused(jaxpr, kept_until), _sources(jaxpr)
    total = 0.0
    for eqn in jaxpr.eqns:
        inner = list(inner_jaxprs(eqn))
        if is_free(eqn):
            continue
        if eqn.primitive.name == "cond":
            total += max((milliseconds(j, rates) for j in inner), default=0.0)
        elif inner:
            times = eqn.params["length"] if eqn.primitive.name == "scan" else 1
            total += times * sum(milliseconds(j, rates) for j in inner[: None if eqn.primitive.name in ("scan", "while") else 1])
        else:
            total += _operator_ms(eqn, fused, sources, rates)
    return total


def _operator_ms(eqn: Any, fused: set[Any], sources: dict[Any, list[Any]], rates: Rates) -> float:
    if eqn.primitive.name == "device_put":
        return 1e3 * bytes_of(eqn.invars[0].aval) / rates.link_bytes if "host" in str(eqn.outvars[0].aval.memory_space).lower() else 0.0
    without_memory = sum(bytes_of(v.aval) for v in (*filter(is_variable, eqn.invars), *eqn.outvars) if v in fused)
    from_views = sum(bytes_of(v.aval) for v in eqn.invars if is_variable(v) and v in sources and not sources[v])
    is_fused = any(v in fused for v in eqn.outvars)
    spent = rates.operator_ms(flops_of(eqn), max(traffic_bytes(eqn) - without_memory - from_views, 0))
    return spent - rates.launch_ms if is_fused else spent


def saved_bytes(function: Any, shapes: list[Any], wanted: list[int]) -> tuple[int, int]:
    """The bytes that live between forward and backward beside the arguments: (on the device, in host memory)."""

    def forward(*values: Any) -> Any:
        def moving(*some: Any) -> Any:
            full = list(values)
            for i, value in zip(wanted, some, strict=True):
                full[i] = value
            return function(*full)[0]

        return jax.vjp(moving, *(values[i] for i in wanted))

    jaxpr = jax.make_jaxpr(forward)(*shapes).jaxpr
    # The first result is the loss. reduce_precision rounds a saved value to its own type.
    same = _sources(jaxpr)
    found = {s for v in jaxpr.outvars[1:] if is_variable(v) for s in same.get(v, [v])} - set(jaxpr.invars) - set(jaxpr.constvars)
    on_host = sum(jax.numpy.dtype(v.aval.dtype).itemsize * v.aval.size for v in found if "host" in str(v.aval.memory_space).lower())
    return sum(bytes_of(v.aval) for v in found), on_host
