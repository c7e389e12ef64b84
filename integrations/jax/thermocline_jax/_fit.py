# SPDX-License-Identifier: Apache-2.0
"""fit(): a loss whose gradients need at most a budget of bytes. Candidates are planned by the library's planner, made into checkpoints, and
each is traced and measured on abstract values; the fastest that fits is taken."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.extend

from . import _command, _estimate
from ._body import body_of, flat, is_opened, opened
from ._operators import inner_jaxprs, is_differentiable, is_variable
from ._regions import Choice, Layout, divide, execute
from ._step_trace import Planner, trace_of

PLANS = ("recompute", "joint")
# So many budgets between the least and the whole are asked for. They do not depend on the program's budget, so that a
# larger budget never gets a slower step.
_RUNGS = 14
_WAISTS, _STRIDES = (2, 8, 1 << 30), (1, 2, 3, 5)


class DoesNotFitError(RuntimeError):
    """No plan needs as little as the budget. least_bytes: the least budget that then works."""

    def __init__(self, message: str, least_bytes: int) -> None:
        super().__init__(message)
        self.least_bytes = least_bytes


@dataclass(frozen=True)
class Candidate:
    """A way to run the step, and what it needs."""

    layout: Layout | None  # None: as the program wrote it
    peak_bytes: int  # of forward and backward, arguments and gradients among it
    step_ms: float  # of the device profile
    saved_bytes: int = 0  # between forward and backward, on the device, beside the arguments
    offloaded_bytes: int = 0


@dataclass(frozen=True)
class Plan:
    chosen: Candidate
    whole: Candidate
    budget_bytes: int
    least_bytes: int

    @property
    def fits(self) -> bool:
        return self.chosen.peak_bytes <= self.budget_bytes


class _Study:
    """One traced function, and what its layouts need."""

    def __init__(self, closed: Any, wanted: Sequence[int], device: str) -> None:
        self._written, self._wanted, self._device = opened(closed), list(wanted), device
        self._differentiated = [i in set(wanted) for i in range(len(closed.in_avals))]
        self.body = body_of(flat(closed), self._differentiated)
        self._shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in closed.in_avals]
        self._rates = _command.rates_of(device)

    def candidates(self, plans: str) -> list[Candidate]:
        """The first is the function as it is written."""
        planner = Planner(trace_of(self.body, self._differentiated), self._device)
        try:
            choices = self._choices(planner, plans)
        finally:
            planner.close()
        layouts = dict.fromkeys(divide(self.body, choice) for choice in choices)
        return [self._measure(None), *map(self._measure, layouts)]

    def _choices(self, planner: Planner, plans: str) -> list[Choice]:
        first = planner.ask(1, plans)
        whole = first["whole_peak_bytes"]
        least = min(first["found_bytes"] or whole, whole)
        answers = [planner.ask(least + (whole - least) * rung // _RUNGS, plans) for rung in range(_RUNGS)]
        answers.append(planner.ask(least, "sqrt"))
        found = [Choice(planner.keys, frozenset(), waists, stride) for waists in _WAISTS for stride in _STRIDES]
        for answer in answers:
            if not answer["fits"]:
                continue
            drops, offloads = planner.shares(answer, "drops"), planner.shares(answer, "offloads")
            offloaded = frozenset(key for key, share in offloads.items() if share >= 0.5)
            for least_share in (0.5, 0.01) if any(share < 1 for share in drops.values()) else (0.5,):
                dropped = frozenset(key for key, share in drops.items() if share >= least_share) - offloaded
                found += [Choice(dropped, offloaded), Choice(dropped, offloaded, _WAISTS[0])]
        return found

    def _measure(self, layout: Layout | None) -> Candidate:
        function = self._function(layout)

        def step(*values: Any) -> Any:
            def moving(*some: Any) -> Any:
                full = list(values)
                for i, value in zip(self._wanted, some, strict=True):
                    full[i] = value
                loss, *rest = function(*full)
                return loss, rest

            return jax.value_and_grad(moving, argnums=tuple(range(len(self._wanted))), has_aux=True)(*(values[i] for i in self._wanted))

        jaxpr = jax.make_jaxpr(step)(*self._shapes).jaxpr
        # Without a plan, XLA computes what the program keeps between forward and backward where it is read, if it can. It does
        # not through a checkpoint.
        kept_until = _estimate.end_of_forward(jaxpr) if layout else 0
        arguments = sum(_estimate.bytes_of(v.aval) for v in (*jaxpr.invars, *jaxpr.constvars))
        peak = arguments + _estimate.peak_inside(jaxpr, kept_until)
        return Candidate(layout, peak, _estimate.milliseconds(jaxpr, self._rates, kept_until))

    def _function(self, layout: Layout | None) -> Callable[..., list[Any]]:
        if layout is None:
            return jax.extend.core.jaxpr_as_fun(self._written)
        return lambda *values: execute(self.body, layout, list(values))

    def _with_saved(self, candidate: Candidate) -> Candidate:
        function = self._function(candidate.layout)
        saved, offloaded = _estimate.saved_bytes(function, self._shapes, self._wanted)
        return dataclasses.replace(candidate, saved_bytes=saved, offloaded_bytes=offloaded)

    def plan(self, candidates: list[Candidate], budget_bytes: int) -> Plan:
        least = min(candidates, key=lambda c: (c.peak_bytes, c.step_ms))
        fitting = [c for c in candidates if c.peak_bytes <= budget_bytes]
        chosen = min(fitting, key=lambda c: (c.step_ms, c.peak_bytes), default=least)
        return Plan(self._with_saved(chosen), self._with_saved(candidates[0]), budget_bytes, least.peak_bytes)


# Candidates by fingerprint of a function, so that another budget for it costs no more tracing. They hold no arrays.
_candidates: dict[Any, list[Candidate]] = {}
_MOST_KNOWN = 64


def _is_array(leaf: Any, *, with_numbers: bool) -> bool:
    return (with_numbers and isinstance(leaf, (int, float, complex)) and not isinstance(leaf, bool)) or (
        hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    )


class Fitted:
    """Made by fit(): the loss, with residuals that a plan chose. Where nothing is transformed it is the loss itself."""

    def __init__(
        self, loss: Callable[..., Any], *, budget: Any, argnums: int | Sequence[int], device: str, plans: str, verbose: bool
    ) -> None:
        self._loss = loss
        self._budget = _command.checked_budget(budget, device)
        self._argnums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        self._device, self._plans, self._verbose = device, plans, verbose
        self._known: dict[Any, Plan] = {}
        self._said: set[str] = set()
        self.plan: Plan | None = None  # of the last traced call
        functools.update_wrapper(self, loss, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self._loss(*args, **kwargs)
        traced = _Traced(self._loss, leaves, tree, with_numbers=False)
        if not traced.has(self._argnums) or not any(traced.differentiated(self._argnums)):
            self._say_once("a call whose differentiated arguments are given by name, or are no arrays, is left alone")
            return self._loss(*args, **kwargs)
        plan = self._plan_of(traced, refuse=False)
        if plan.chosen.layout is None:
            return self._loss(*args, **kwargs)
        body = body_of(flat(traced.closed), traced.differentiated(self._argnums))
        return traced.rebuild(execute(body, plan.chosen.layout, traced.arrays(leaves)))

    def prepare(self, *args: Any, **kwargs: Any) -> Plan:
        """Plans for arguments of these shapes, without running anything. Raises DoesNotFitError."""
        leaves, tree = jax.tree.flatten((args, kwargs))
        try:  # as jax.jit takes numbers
            traced = _Traced(self._loss, leaves, tree, with_numbers=True)
        except TypeError:  # those of JAX are such, too; a function that needs their values has them as static arguments
            traced = _Traced(self._loss, leaves, tree, with_numbers=False)
        if not traced.has(self._argnums):
            raise ValueError(f"argnums: {self._argnums}, but the function is given {len(args)} arguments by place")
        return self._plan_of(traced, refuse=True)

    def _plan_of(self, traced: _Traced, *, refuse: bool) -> Plan:
        wanted = [i for i, is_wanted in enumerate(traced.differentiated(self._argnums)) if is_wanted]
        if not wanted:
            raise ValueError(f"thermocline_jax.fit: argument {self._argnums} has no floating-point array to differentiate; give argnums")
        traced.check_loss()
        key = (traced.fingerprint, tuple(wanted))
        plan = self._known.get(key)
        if plan is None:
            study = _Study(traced.closed, wanted, self._device)
            known = (*key, self._device, self._plans)
            candidates = _candidates.pop(known, None) or study.candidates(self._plans)
            _candidates[known] = candidates
            if len(_candidates) > _MOST_KNOWN:
                del _candidates[next(iter(_candidates))]
            plan = study.plan(candidates, self._budget.bytes_of(candidates[0].peak_bytes))
            if not plan.fits and refuse:
                raise _refusal(plan)
            self._known[key] = plan
            self.plan = plan
            self._say(expectation(plan))
        self.plan = plan
        return plan

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    def _say(self, text: str) -> None:
        if self._verbose:
            print(f"thermocline_jax.fit: {text}", file=sys.stderr)


class _Traced:
    """A call, traced on abstract values."""

    def __init__(self, loss: Callable[..., Any], leaves: list[Any], tree: Any, *, with_numbers: bool) -> None:
        """with_numbers: Python's numbers are arrays, too; otherwise they stay what they are, as in a call of the function itself."""
        self._places = [i for i, leaf in enumerate(leaves) if _is_array(leaf, with_numbers=with_numbers)]
        self._tree = tree

        def on_arrays(*arrays: Any) -> Any:
            full = list(leaves)
            for i, array in zip(self._places, arrays, strict=True):
                full[i] = array
            args, kwargs = jax.tree.unflatten(tree, full)
            return loss(*args, **kwargs)

        made, shape = jax.make_jaxpr(on_arrays, return_shape=True)(*self.arrays(leaves))
        self._out_tree = jax.tree.structure(shape)
        self.closed = made

    def arrays(self, leaves: list[Any]) -> list[Any]:
        return [leaves[i] for i in self._places]

    def rebuild(self, results: list[Any]) -> Any:
        return jax.tree.unflatten(self._out_tree, results)

    def _args(self) -> tuple[Any, ...]:
        return jax.tree.unflatten(self._tree, list(range(self._tree.num_leaves)))[0]

    def has(self, argnums: Sequence[int]) -> bool:
        count = len(self._args())
        return all(-count <= number < count for number in argnums)

    def differentiated(self, argnums: Sequence[int]) -> list[bool]:
        args = self._args()
        inside = {leaf for number in argnums for leaf in jax.tree.leaves(args[number])}
        return [place in inside and is_differentiable(aval) for place, aval in zip(self._places, self.closed.in_avals, strict=True)]

    @property
    def fingerprint(self) -> Any:
        jaxpr = self.closed.jaxpr
        return (str(self._tree), *map(str, self.closed.in_avals), _shape_of(jaxpr))

    def check_loss(self) -> None:
        avals = self.closed.out_avals
        if not avals or avals[0].shape != () or not is_differentiable(avals[0]):
            given = avals[0].str_short() if avals else "nothing"
            raise ValueError(
                f"thermocline_jax.fit: the function returns {given}; give the loss, a function that returns a floating-point scalar or "
                "(scalar, more), as jax.value_and_grad takes it, and not the training step"
            )


def _shape_of(jaxpr: Any) -> Any:
    """Equal for jaxprs of which bodies have the same operators: what is computed from what, and everything that flat() decides by."""
    numbers: dict[Any, int] = {}

    def number(atom: Any) -> int:
        return numbers.setdefault(atom, len(numbers)) if is_variable(atom) else -1

    inputs = tuple(map(number, (*jaxpr.constvars, *jaxpr.invars)))
    eqns = tuple(
        (
            eqn.primitive.name,
            tuple(map(number, eqn.invars)),
            tuple((number(v), str(v.aval)) for v in eqn.outvars),
            bool(eqn.effects),
            is_opened(eqn),
            eqn.params.get("length"),  # of a scan: what it stacks for backward is not in its results
            tuple(map(_shape_of, inner_jaxprs(eqn))),
        )
        for eqn in jaxpr.eqns
    )
    return inputs, eqns, tuple(map(number, jaxpr.outvars))


def _quantity(count: int, one: str, many: str = "") -> str:
    """'1 kernel', '2 kernels'. Without `many`: `one` with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def _mib(count: float) -> str:
    return f"{count / (1 << 20):,.1f} MiB"


def expectation(plan: Plan) -> str:
    """The plan's promise, in a line."""
    chosen, whole = plan.chosen, plan.whole
    counts = chosen.layout.counts if chosen.layout else {}
    share = chosen.step_ms / whole.step_ms - 1 if whole.step_ms else 0.0
    text = (
        f"the step needs {_mib(chosen.peak_bytes)} of {_mib(plan.budget_bytes)} (kept whole: {_mib(whole.peak_bytes)}), of which "
        f"{_mib(chosen.saved_bytes)} are saved for backward; {_quantity(counts.get('recomputed', 0), 'operator')} recomputed in "
        f"{_quantity(counts.get('segments', 0), 'segment')}, {_quantity(counts.get('offloaded', 0), 'value')} offloaded "
        f"({_mib(chosen.offloaded_bytes)}); "
        f"expected {share:+.1%} time"
    )
    if counts.get("apart"):
        text += f"; {_quantity(counts['apart'], 'operator with effects is', 'operators with effects are')} left alone"
    if not plan.fits:
        text += f"; the budget is not enough: no plan for these shapes needs less than {plan.least_bytes} bytes"
    return text


def _refusal(plan: Plan) -> DoesNotFitError:
    return DoesNotFitError(
        f"thermocline_jax.fit: the step does not fit {_mib(plan.budget_bytes)}: the least that a plan was found for is budget={plan.least_bytes} "
        f"({_mib(plan.least_bytes)}). Kept whole the step needs {plan.whole.peak_bytes} bytes",
        plan.least_bytes,
    )


def fit(
    loss: Callable[..., Any],
    *example_args: Any,
    budget: int | str,
    argnums: int | Sequence[int] = 0,
    device: str = "reference",
    plans: str = "recompute",
    verbose: bool = True,
    **example_kwargs: Any,
) -> Fitted:
    """The same loss, whose gradients need at most `budget`: ``loss = fit(loss, params, batch, budget="60%")``, and then
    ``jax.jit(jax.value_and_grad(loss))`` as before.

    loss: returns a scalar, or (scalar, more). example_args: arrays, or jax.ShapeDtypeStruct; only shapes are looked at and nothing runs.
    Without them the first traced call is planned for. Calls with other shapes are planned for when they are traced.
    budget: bytes (int, or "12GiB") for all that forward and backward hold: arguments, what is saved, gradients; "60%": of what the step needs
    as it is written. argnums: the arguments that gradients are taken of. device: profile that times are estimated for (`thermocline devices`).
    plans: "recompute", or "joint": also offloads to pinned host memory.

    Raises DoesNotFitError, with the least budget that then works; ValueError and TypeError for what is no loss, budget or device;
    FileNotFoundError without the command `thermocline`.
    """
    if not callable(loss):
        raise TypeError(f"loss: a function that returns a scalar, not {type(loss).__name__}")
    if plans not in PLANS:
        raise ValueError(f"plans: {plans!r} is none of {', '.join(PLANS)}")
    fitted = Fitted(loss, budget=budget, argnums=argnums, device=device, plans=plans, verbose=verbose)
    if example_args or example_kwargs:
        fitted.prepare(*example_args, **example_kwargs)
    return fitted
