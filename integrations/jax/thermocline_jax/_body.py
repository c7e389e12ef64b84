# SPDX-License-Identifier: Apache-2.0
"""A function as a flat list of operators. Jitted functions with matrix products in them are opened; the bodies of scans that gradients pass
through are lists of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from ._operators import Backward, backward_of, bind, has_loop_of_unknown_length, is_apart, is_call, is_differentiable, is_free, is_heavy, is_variable


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

    @property
    def fingerprint(self) -> tuple[Any, ...]:
        """Equal for bodies that one layout suits."""
        return tuple(
            (op.eqn.primitive.name, op.active, *(str(v.aval) for v in op.eqn.outvars), op.body.fingerprint if op.body else ()) for op in self.operators
        )


def _opened(eqn: Any) -> Any:
    """The jaxpr of a jitted function that is to be opened; None: the equation stays as it is."""
    if eqn.primitive.name not in ("jit", "pjit"):
        return None
    params = eqn.params
    is_placed = any("Unspecified" not in type(s).__name__ for name in ("in_shardings", "out_shardings") for s in params.get(name, ()))
    if is_placed or any(params.get("donated_invars", ())) or not is_heavy(params["jaxpr"].jaxpr):
        return None
    return params["jaxpr"]


def _evaluate_opened(closed: Any, *values: Any) -> list[Any]:
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, values, strict=True))

    def read(atom: Any) -> Any:
        return env[atom] if is_variable(atom) else atom.val

    for eqn in closed.jaxpr.eqns:
        inner = _opened(eqn)
        read_values = [read(atom) for atom in eqn.invars]
        with eqn.ctx.manager:
            results = bind(eqn, read_values) if inner is None else _evaluate_opened(inner, *read_values)
        env.update(zip(eqn.outvars, results, strict=True))
    return [read(atom) for atom in closed.jaxpr.outvars]


def flat(closed: Any) -> Any:
    """The same function, with jitted functions opened."""
    if not any(_opened(eqn) is not None for eqn in closed.jaxpr.eqns):
        return closed
    return jax.make_jaxpr(partial(_evaluate_opened, closed))(*_shapes(closed.in_avals))


def _shapes(avals: Sequence[Any]) -> list[Any]:
    return [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak_type", False)) if hasattr(a, "shape") else a for a in avals]


def _is_checkpointed(closed: Any) -> bool:
    """The program has put a checkpoint around (part of) it: what is kept there is decided."""
    return any(eqn.primitive.name in ("remat2", "checkpoint") for eqn in closed.jaxpr.eqns)


def _activity_of_scan(eqn: Any, active: list[bool]) -> tuple[list[bool], list[bool]]:
    """Of the body's inputs and of the scan's results: what is carried can become active in a later iteration."""
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
