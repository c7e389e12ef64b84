# SPDX-License-Identifier: Apache-2.0
"""A function as a flat list of operators. Jitted functions with matrix products in them are opened; the bodies of scans that gradients pass
through are lists of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from ._operators import (
    Backward,
    backward_of,
    bind,
    has_loop_of_unknown_length,
    is_apart,
    is_call,
    is_differentiable,
    is_free,
    is_heavy,
    is_light,
    is_variable,
)

_CLUSTER = "thermocline_cluster"


@dataclass
class Operator:
    eqn: Any
    active: bool  # gradients pass through it
    backward: Backward | None
    body: Body | None  # of a scan that is planned inside

    @property
    def inputs(self) -> list[Any]:
        return [atom for atom in self.eqn.invars if is_variable(atom)]

    @property
    def is_free(self) -> bool:
        """Its results are its inputs, seen otherwise."""
        return is_free(self.eqn)

    @property
    def runs_once(self) -> bool:
        return is_apart(self.eqn) or has_loop_of_unknown_length(self.eqn)

    @property
    def stands_alone(self) -> bool:
        """No checkpoint is put around it."""
        return self.body is not None or is_apart(self.eqn)


@dataclass
class Body:
    closed: Any  # jax.extend.core.ClosedJaxpr
    operators: list[Operator]
    active: set[Any]  # variables


def _opened(eqn: Any) -> Any:
    """The jaxpr of a jitted function that is to be opened; None: the equation stays as it is."""
    if eqn.primitive.name not in ("jit", "pjit"):
        return None
    params = eqn.params
    is_placed = any("Unspecified" not in type(s).__name__ for name in ("in_shardings", "out_shardings") for s in params.get(name, ()))
    if is_placed or any(params.get("donated_invars", ())) or not is_heavy(params["jaxpr"].jaxpr):
        return None
    return params["jaxpr"]


def is_opened(eqn: Any) -> bool:
    return _opened(eqn) is not None


def opened(closed: Any) -> Any:
    """The same function, without the jitted functions that are to be opened."""
    if not any(_opened(eqn) is not None for eqn in closed.jaxpr.eqns):
        return closed
    return jax.make_jaxpr(partial(_evaluate_opened, closed))(*_shapes(closed.in_avals))


def flat(closed: Any) -> Any:
    """The same function, opened, with light operators that nothing else reads joined to those that read them."""
    closed = opened(closed)
    clusters = _clusters(closed.jaxpr)
    return jax.make_jaxpr(partial(_evaluate_clustered, closed, clusters))(*_shapes(closed.in_avals)) if clusters else closed


def _evaluate(closed: Any, values: Sequence[Any], step: Callable[[int, Any, list[Any]], list[Any] | None]) -> list[Any]:
    """step: results of the equation at that place from its operands; None: nobody reads them."""
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, values, strict=True))
    for place, eqn in enumerate(closed.jaxpr.eqns):
        with eqn.ctx.manager:
            results = step(place, eqn, [env.get(atom) if is_variable(atom) else atom.val for atom in eqn.invars])
        if results is not None:
            env.update(zip(eqn.outvars, results, strict=True))
    return [env[v] if is_variable(v) else v.val for v in closed.jaxpr.outvars]


def _evaluate_opened(closed: Any, *values: Any) -> list[Any]:
    def step(_: int, eqn: Any, operands: list[Any]) -> list[Any]:
        inner = _opened(eqn)
        return bind(eqn, operands) if inner is None else _evaluate_opened(inner, *operands)

    return _evaluate(closed, values, step)


def evaluate_operator(eqn: Any, operands: list[Any]) -> list[Any]:
    """A cluster is evaluated equation by equation, so that it is differentiated as the program wrote it."""
    if eqn.params.get("name") == _CLUSTER:
        return _evaluate(eqn.params["jaxpr"], operands, lambda _, inner, read: bind(inner, read))
    return bind(eqn, operands)


def _clusters(jaxpr: Any) -> dict[int, list[int]]:
    """By the place of the last equation of a cluster: all of its places. What the others make is read inside of it only, so that nothing of it
    can depend on what comes out of it."""
    readers: dict[Any, set[int]] = defaultdict(set)
    for place, eqn in enumerate(jaxpr.eqns):
        for v in filter(is_variable, eqn.invars):
            readers[v].add(place)
    results = set(filter(is_variable, jaxpr.outvars))
    root: dict[int, int] = {}
    for place in reversed(range(len(jaxpr.eqns))):
        eqn = jaxpr.eqns[place]
        if not is_light(eqn):
            continue
        roots = {root.get(reader) for v in eqn.outvars for reader in readers[v]}
        is_inside = len(roots) == 1 and None not in roots and not any(v in results for v in eqn.outvars)
        root[place] = roots.pop() if is_inside else place
    members: dict[int, list[int]] = defaultdict(list)
    for place in sorted(root):
        members[root[place]].append(place)
    return {last: places for last, places in members.items() if len(places) > 1}


def _evaluate_clustered(closed: Any, clusters: dict[int, list[int]], *values: Any) -> list[Any]:
    eqns = closed.jaxpr.eqns
    inside = {place for places in clusters.values() for place in places}
    known = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    known.update(zip(closed.jaxpr.invars, values, strict=True))

    def step(place: int, eqn: Any, operands: list[Any]) -> list[Any] | None:
        if place in clusters:
            results = _joined([eqns[p] for p in clusters[place]], known)
        elif place in inside:
            return None
        else:
            results = bind(eqn, operands)
        known.update(zip(eqn.outvars, results, strict=True))
        return results

    return _evaluate(closed, values, step)


def _joined(eqns: list[Any], known: dict[Any, Any]) -> list[Any]:
    own = {v for eqn in eqns for v in eqn.outvars}
    inputs = list(dict.fromkeys(v for eqn in eqns for v in eqn.invars if is_variable(v) and v not in own))

    def thermocline_cluster(*values: Any) -> list[Any]:
        env = dict(zip(inputs, values, strict=True))
        for eqn in eqns:
            with eqn.ctx.manager:
                env.update(zip(eqn.outvars, bind(eqn, [env[v] if is_variable(v) else v.val for v in eqn.invars]), strict=True))
        return [env[v] for v in eqns[-1].outvars]

    return jax.jit(thermocline_cluster)(*(known[v] for v in inputs))


def _shapes(avals: Sequence[Any]) -> list[Any]:
    return [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak_type", False)) if hasattr(a, "shape") else a for a in avals]


def _is_checkpointed(closed: Any) -> bool:
    """The program has put a checkpoint around (part of) it: what is kept there is decided."""
    return any(eqn.primitive.name in ("remat2", "checkpoint") for eqn in closed.jaxpr.eqns)


def _activity_of_scan(eqn: Any, active: list[bool]) -> tuple[list[bool], list[bool]]:
    """Which inputs of the body and results of the scan are active: a carried value can become active in a later iteration."""
    consts, carries = eqn.params["num_consts"], eqn.params["num_carry"]
    closed = eqn.params["jaxpr"]
    while True:
        out = propagate(closed.jaxpr, active)
        merged = list(active)
        for i in range(carries):
            merged[consts + i] = active[consts + i] or out[i]
        if merged == active:
            return active, out
        active = merged


def propagate(jaxpr: Any, active_inputs: Sequence[bool]) -> list[bool]:
    """Which results depend on active inputs by values that have gradients."""
    active = {v for v, is_active in zip(jaxpr.invars, active_inputs, strict=True) if is_active and is_differentiable(v.aval)}
    for eqn in jaxpr.eqns:
        _mark(eqn, active)
    return [is_variable(v) and v in active for v in jaxpr.outvars]


def _mark(eqn: Any, active: set[Any]) -> bool:
    if eqn.primitive.name == "stop_gradient" or not any(is_variable(v) and v in active for v in eqn.invars):
        return False
    if is_call(eqn) and "jaxpr" in eqn.params and eqn.primitive.name in ("jit", "pjit"):
        results = propagate(eqn.params["jaxpr"].jaxpr, [is_variable(v) and v in active for v in eqn.invars])
    else:
        results = [is_differentiable(v.aval) for v in eqn.outvars]
    active.update(v for v, is_active in zip(eqn.outvars, results, strict=True) if is_active and is_differentiable(v.aval))
    return any(results)


def body_of(closed: Any, active_inputs: Sequence[bool]) -> Body:
    """closed: flat. active_inputs: for which inputs gradients are wanted."""
    body = Body(closed, [], {v for v, a in zip(closed.jaxpr.invars, active_inputs, strict=True) if a and is_differentiable(v.aval)})
    for eqn in closed.jaxpr.eqns:
        active_atoms = [is_variable(v) and v in body.active for v in eqn.invars]
        active = _mark(eqn, body.active)
        inner = None
        if active and eqn.primitive.name == "scan" and not is_apart(eqn) and eqn.params["length"] > 0:
            body_closed = flat(eqn.params["jaxpr"])
            if not _is_checkpointed(body_closed):
                inner = body_of(body_closed, _activity_of_scan(eqn, active_atoms)[0])
        backward = backward_of(eqn, active_atoms) if active and inner is None else None
        body.operators.append(Operator(eqn, active, backward, inner))
    return body
