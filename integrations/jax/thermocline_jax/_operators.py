# SPDX-License-Identifier: Apache-2.0
"""Facts about one equation of a jaxpr: its bytes and flops, whether XLA gives its result memory of its own, whether it may run again,
and what its backward reads. Nothing is executed; backward is traced on abstract values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core

# Their results are views, or are computed inside of the loop that reads them.
_FREE = {"broadcast_in_dim", "iota", "reshape", "squeeze", "expand_dims", "stop_gradient", "copy", "name", "reduce_precision", "pvary"}
# One loop over the elements: XLA fuses one into the next where nothing else reads the value between them.
_REDUCTIONS = {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "argmax", "argmin"}
_ELEMENTWISE = set(
    """abs acos acosh add add_any and asin asinh atan atan2 atanh bitcast_convert_type cbrt ceil clamp convert_element_type complex conj cos cosh
    digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt imag integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg
    nextafter not or population_count pow real rem round rsqrt select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh
    sqrt square sub tan tanh xor""".split()
)
_CALLS = {
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "remat2",
    "checkpoint",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
    "custom_lin",
}


def bytes_of(aval: Any) -> int:
    """The bytes of one value in device memory; 0 if it is no array, or is kept in host memory."""
    if not hasattr(aval, "shape") or "host" in str(getattr(aval, "memory_space", "")).lower():
        return 0
    dtype = aval.dtype
    size = getattr(dtype, "itemsize", 4)
    if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        size = 4 * math.prod(getattr(dtype._impl, "key_shape", (2,)))
    return math.prod(aval.shape) * int(size)


def is_variable(atom: Any) -> bool:
    return not isinstance(atom, core.Literal)


def is_differentiable(aval: Any) -> bool:
    return hasattr(aval, "dtype") and jax.numpy.issubdtype(aval.dtype, jax.numpy.inexact)


def inner_jaxprs(eqn: Any) -> Iterator[Any]:
    """The jaxprs in an equation's parameters, without their constants."""
    for value in eqn.params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, core.ClosedJaxpr):
                yield one.jaxpr
            elif hasattr(one, "eqns") and hasattr(one, "invars"):
                yield one


def is_call(eqn: Any) -> bool:
    return eqn.primitive.name in _CALLS


def is_free(eqn: Any) -> bool:
    return eqn.primitive.name in _FREE


def is_elementwise(eqn: Any) -> bool:
    return eqn.primitive.name in _ELEMENTWISE


def is_fusible_reader(eqn: Any) -> bool:
    return is_elementwise(eqn) or eqn.primitive.name in _REDUCTIONS


def is_light(eqn: Any) -> bool:
    """Loops over elements, alone or together in a jitted function: recomputed at the price of reading what they read."""
    if (
        eqn.effects
        or eqn.primitive.name.startswith("random_")
        or eqn.primitive.name in ("custom_vjp_call", "custom_vjp_call_jaxpr", "custom_lin")
    ):
        return False
    inner = list(inner_jaxprs(eqn))
    if not inner:
        return is_free(eqn) or is_fusible_reader(eqn)
    return eqn.primitive.name in ("jit", "pjit", "custom_jvp_call", "closed_call") and all(
        is_light(e) for jaxpr in inner[:1] for e in jaxpr.eqns
    )


def traffic_bytes(eqn: Any) -> int:
    return sum(bytes_of(atom.aval) for atom in (*filter(is_variable, eqn.invars), *eqn.outvars))


def _dot_flops(eqn: Any) -> int:
    (contracting, _), _ = eqn.params["dimension_numbers"]
    depth = math.prod(eqn.invars[0].aval.shape[d] for d in contracting)
    return 2 * math.prod(eqn.outvars[0].aval.shape) * depth


def _convolution_flops(eqn: Any) -> int:
    kernel = eqn.invars[1].aval.shape
    outputs = kernel[eqn.params["dimension_numbers"].rhs_spec[0]]
    return 2 * math.prod(eqn.outvars[0].aval.shape) * math.prod(kernel) // max(outputs, 1)


def flops_of(eqn: Any) -> int:
    """Exact for matrix products and convolutions (a multiply-add is two), one for each element otherwise. A while loop counts once: its length
    is not known."""
    name = eqn.primitive.name
    if name == "dot_general":
        return _dot_flops(eqn)
    if name == "conv_general_dilated":
        return _convolution_flops(eqn)
    inner = list(inner_jaxprs(eqn))
    if name == "cond":
        return max((jaxpr_flops(jaxpr) for jaxpr in inner), default=0)
    if inner:
        times = eqn.params["length"] if name == "scan" else 1
        return times * sum(jaxpr_flops(jaxpr) for jaxpr in (inner if name in ("scan", "while") else inner[:1]))
    return 0 if is_free(eqn) else sum(math.prod(getattr(v.aval, "shape", ())) for v in eqn.outvars)


def jaxpr_flops(jaxpr: Any) -> int:
    return sum(flops_of(eqn) for eqn in jaxpr.eqns)


def is_heavy(jaxpr: Any) -> bool:
    """Whether a matrix product, a convolution or a loop is in it."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in ("dot_general", "conv_general_dilated", "scan", "while"):
            return True
        if any(map(is_heavy, inner_jaxprs(eqn))):
            return True
    return False


def has_loop_of_unknown_length(eqn: Any) -> bool:
    return eqn.primitive.name == "while" or any(has_loop_of_unknown_length(e) for jaxpr in inner_jaxprs(eqn) for e in jaxpr.eqns)


def is_apart(eqn: Any) -> bool:
    """It has effects (a print, a callback, a reference): it must not run twice, so no checkpoint is put around it."""
    return bool(eqn.effects)


def bind(eqn: Any, values: Sequence[Any]) -> list[Any]:
    """Evaluates the equation, in whatever JAX transforms at the moment."""
    found = eqn.primitive.get_bind_params(eqn.params)
    subfunctions, params = found if isinstance(found, tuple) else ((), found)
    out = eqn.primitive.bind(*subfunctions, *values, **params)
    return list(out) if eqn.primitive.multiple_results else [out]


@dataclass(frozen=True)
class Backward:
    """The backward of one equation, from its inputs alone: results of forward are not assumed to be there."""

    needs: tuple[int, ...]  # indices among the equation's inputs
    flops: int


_known: dict[Any, Backward] = {}
_MOST_KNOWN = 2048  # the parameters of equations can hold arrays


def backward_of(eqn: Any, active: Sequence[bool]) -> Backward:
    """active: which inputs gradients are wanted for."""
    try:
        key = (eqn.primitive, tuple(a.aval for a in eqn.invars), tuple(active), tuple(sorted(eqn.params.items(), key=lambda item: item[0])))
        hash(key)
    except TypeError:
        key = None
    if key is not None and key in _known:
        return _known[key]
    found = _trace_backward(eqn, active)
    if key is not None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = found
    return found


def _trace_backward(eqn: Any, active: Sequence[bool]) -> Backward:
    avals = [atom.aval for atom in eqn.invars]
    wanted = [i for i, is_active in enumerate(active) if is_active]
    given = [i for i, v in enumerate(eqn.outvars) if is_differentiable(v.aval)]

    def transposed(inputs: list[Any], cotangents: list[Any]) -> Any:
        def forward(*moving: Any) -> list[Any]:
            values = list(inputs)
            for i, value in zip(wanted, moving, strict=True):
                values[i] = value
            out = bind(eqn, values)
            return [out[i] for i in given]

        return jax.vjp(forward, *(inputs[i] for i in wanted))[1](cotangents)

    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
    cotangents = [jax.ShapeDtypeStruct(eqn.outvars[i].aval.shape, eqn.outvars[i].aval.dtype) for i in given]
    try:
        jaxpr = jax.make_jaxpr(transposed)(shapes, cotangents).jaxpr
    except Exception:  # JAX has no derivative for it, or it needs more than shapes: everything is assumed
        return Backward(tuple(i for i, a in enumerate(eqn.invars) if is_variable(a)), 2 * flops_of(eqn))
    used, flops = _live(jaxpr)
    needs = tuple(i for i, v in enumerate(jaxpr.invars[: len(shapes)]) if v in used and is_variable(eqn.invars[i]))
    return Backward(needs, flops)


def _live(jaxpr: Any) -> tuple[set[Any], int]:
    """The variables that the results depend on, and the flops that they take."""
    used = {v for v in jaxpr.outvars if is_variable(v)}
    flops = 0
    for eqn in reversed(jaxpr.eqns):
        if any(v in used for v in eqn.outvars):
            used.update(filter(is_variable, eqn.invars))
            flops += flops_of(eqn)
    return used, flops
