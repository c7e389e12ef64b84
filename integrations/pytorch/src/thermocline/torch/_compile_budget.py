# SPDX-License-Identifier: Apache-2.0
"""compile_budget(): a backend for torch.compile whose regions save no more for backward than a budget."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ._budget import Budget, checked_budget, quantity
from ._joint_graph import Region
from ._operators import storages_in
from ._partition import answered, check_partitioner
from ._ranks import compare
from ._saved_plan import Choice, Use, choices, choose
from ._step_plan import DoesNotFitError

# A step whose regions together need more than was planned for is planned again, so often at most.
_MOST_PLANS = 3
_NODE = "CompiledFunctionBackward"
_ADVICE = "Where there are several regions, enter the budget around each step (`with budget:`): they are planned together then"

_MORE = "More passes wait for their backward than in the step that was planned, or they are larger: give more, or save less between backwards"


class _Unit:
    """A compiled region as it runs."""

    def __init__(self) -> None:
        self.region: Region | None = None  # None: it has no backward
        self.choice_bytes = 0  # what the choice says that a pass saves
        self.saved_bytes = 0  # what the last pass saved
        self.extra_bytes = 0  # what the compiler saves besides, such as copies of weights in another layout
        self.refusal: DoesNotFitError | None = None

    def measure(self, node: Any, arguments: tuple[Any, ...]) -> None:
        """Measures the storages that this pass has saved, without those of parameters and of buffers of modules."""
        if self.saved_bytes and not self.region.is_dynamic:
            return  # as the pass before
        if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
            self.saved_bytes = self.choice_bytes  # somebody else has what was saved: to look at it would bring it back
            return
        is_static = lambda t: isinstance(t, torch.nn.Parameter) or hasattr(t, "_dynamo_static_input_type")  # noqa: E731
        there = {storage._cdata for t in arguments if isinstance(t, torch.Tensor) and is_static(t) for storage in storages_in(t)}
        held = storages_in([*node.saved_tensors, *getattr(node, "_tensors_no_vc_check", ())])
        self.saved_bytes = sum(storage.nbytes() for storage in held if storage._cdata not in there)
        self.extra_bytes = 0 if self.region.is_dynamic else max(self.saved_bytes - self.choice_bytes, 0)

    def whole_bytes(self) -> int:
        """The bytes that the last pass would have saved without a budget."""
        whole = self.region.bases[0].saved_bytes
        if self.region.is_dynamic and self.choice_bytes:
            return whole * self.saved_bytes // self.choice_bytes
        return whole + self.extra_bytes


@dataclass(frozen=True)
class _Pass:
    """A forward pass of a region. Passes of one region differ in what they save where its sizes do."""

    node: weakref.ref[Any]  # of its backward
    unit: _Unit
    saved_bytes: int
    whole_bytes: int  # what it would have saved without a budget
    extra_bytes: int


def _waits(node: Any) -> bool:
    """Whether backward is still to come."""
    if node is None:
        return False
    try:
        node._raw_saved_tensors  # noqa: B018  raises where they are gone
    except RuntimeError:
        return False
    return True


def _backward_node(outputs: Any) -> Any:
    """The backward node of the region that made these; None if it has no backward."""
    for output in outputs if isinstance(outputs, (list, tuple)) else (outputs,):
        node = output.grad_fn if isinstance(output, torch.Tensor) else None
        for _ in range(4):  # views of outputs have nodes of their own
            if node is None or node.name() == _NODE:
                break
            node = node.next_functions[0][0] if node.next_functions else None
        if node is not None and node.name() == _NODE:
            return node
    return None


class CompileBudget:
    """Made by compile_budget(). For one model, on one thread at a time."""

    def __init__(self, budget: Budget, compiler: Callable[..., Any], device: str, *, verbose: bool) -> None:
        self._budget, self._compiler, self._device, self._verbose = budget, compiler, device, verbose
        self._waiting: list[_Pass] = []  # whose backward has not run
        self._assigned: dict[str, tuple[int, ...]] = {}  # by key of a region: what a common plan says
        self._at_most: Counter[_Unit] = Counter()  # the passes that waited when most was saved, in this step
        self._step_bytes = 0
        self._plans = 0
        # By key of a region: bytes for all that wait, as the step that was measured with it has it. One region alone may save more than its percentage.
        self._limits: dict[str, int] = {}
        self._is_entered = False
        self._has_new = False  # something was compiled that no whole step has run since
        self.__name__ = "thermocline"  # for messages of torch.compile
        self.peak_saved_bytes = 0  # the most that regions have held for backward at once
        self.units: list[_Unit] = []

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any], **options: Any) -> Callable[..., Any]:
        """torch.compile calls this for each graph."""
        unit = _Unit()
        self._has_new = True

        def answer(region: Region) -> tuple[int, ...] | None:
            unit.region = region  # the last one, where regions are nested
            return self._answer(unit, region)

        try:
            with answered(answer):
                compiled = self._compiler(module, inputs, **options)
        except Exception:
            if unit.refusal is None:
                raise
            refusal = unit.refusal

            def refuse(*_arguments: Any) -> Any:  # at the call: torch.compile would wrap what is raised here in other words
                raise refusal.with_traceback(None) from None

            return refuse
        if unit.region is None:
            return compiled
        self.units.append(unit)

        def run(*arguments: Any) -> Any:
            return self._run(unit, compiled, arguments)

        return run

    def _answer(self, unit: _Unit, region: Region) -> tuple[int, ...] | None:
        if region.key in self._assigned:
            nodes = self._assigned[region.key]
            unit.choice_bytes = region.saved_bytes(nodes)
            return nodes
        whole = region.bases[0].saved_bytes
        self._forget_done()
        free = self._budget.bytes_of(whole) - (0 if self._budget.of_bytes else self._saved_now())
        if whole <= free:
            unit.choice_bytes = whole
            return None
        ways = choices([Use(region, 1)], self._device)
        choice = choose(ways, free)
        if choice is None and self._is_entered:  # the end of the step plans all regions together
            choice = ways[0]
        if choice is None:
            unit.refusal = self._refuse(ways, free, len(self.units) + 1)
            raise unit.refusal
        unit.choice_bytes = choice.saved_bytes
        self._say(f"region {len(self.units) + 1} saves {choice.saved_bytes} bytes for backward (without a budget: {whole})")
        self._compare([region], choice)
        return choice.nodes[0]

    def _refuse(self, ways: list[Choice], free: int, number: int) -> DoesNotFitError:
        least = ways[0].saved_bytes
        others = self._saved_now() if not self._budget.of_bytes else 0
        beside = f", and those before it hold {others} bytes" if others else ""
        message = (
            f"thermocline.torch.compile_budget: compiled region {number} has to save {least} bytes for backward at least (without a budget "
            f"{ways[-1].saved_bytes}){beside}; the budget has {max(free, 0)} for it; the least budget is {least + others} bytes. {_ADVICE}"
        )
        return DoesNotFitError(message, least + others, least + others)

    def _run(self, unit: _Unit, compiled: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        # DistributedDataParallel's buckets are compiled one after the other, each tried with tensors that have no contents.
        if not torch.is_grad_enabled() or any(isinstance(argument, FakeTensor) for argument in arguments):
            return compiled(*arguments)
        self._forget_done()
        self._check(unit)
        out = compiled(*arguments)
        node = _backward_node(out)
        if node is not None:
            unit.measure(node, arguments)
            self._waiting.append(_Pass(weakref.ref(node), unit, unit.saved_bytes, unit.whole_bytes(), unit.extra_bytes))
            now = self._saved_now()
            self.peak_saved_bytes = max(self.peak_saved_bytes, now)
            if now > self._step_bytes:
                self._step_bytes, self._at_most = now, Counter(one.unit for one in self._waiting)
            if now > self._limit() and not (self._is_entered and self._has_new):
                raise self._exceeded(now)
        return out

    def _limit(self) -> int:
        """Bytes for all passes that wait. A percentage is of what they, or those of the step that was planned, would save without a budget."""
        waiting = self._budget.bytes_of(sum(one.whole_bytes for one in self._waiting))
        planned = (self._limits.get(one.unit.region.key, 0) for one in self._waiting)
        return max(waiting, *planned, 0) if self._is_entered else waiting

    def _check(self, unit: _Unit) -> None:
        """Raises DoesNotFitError where one more pass would be too much."""
        needed = self._saved_now() + (unit.saved_bytes or unit.choice_bytes)
        if self._budget.of_bytes or needed <= self._budget.count or (self._is_entered and self._has_new):
            return
        raise self._exceeded(needed)

    def _exceeded(self, needed: int) -> DoesNotFitError:
        extra = sum(one.extra_bytes for one in self._waiting)
        besides = f" ({extra} of them copies that the compiler makes of its own accord)" if extra else ""
        message = (
            f"thermocline.torch.compile_budget: compiled regions hold {needed} bytes for backward at once{besides}, and the budget is "
            f"{self._limit()}. {_MORE if self._is_entered else _ADVICE}"
        )
        return DoesNotFitError(message, needed, None)

    def _saved_now(self) -> int:
        return sum(one.saved_bytes for one in self._waiting)

    def _forget_done(self) -> None:
        self._waiting = [one for one in self._waiting if _waits(one.node())]

    def __enter__(self) -> CompileBudget:
        if torch.compiler.is_compiling():
            raise RuntimeError("thermocline.torch.compile_budget can not be entered in compiled code; enter it around the call")
        if self._is_entered:
            raise RuntimeError("thermocline.torch.compile_budget: a step is under way; steps can not be nested")
        self._is_entered = True
        self._step_bytes, self._at_most = 0, Counter()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._is_entered = False
        if kind is None and self._has_new:
            self._has_new = False
            self._plan_together()

    def _plan_together(self) -> None:
        """If the step's regions held more than the budget together. Raises DoesNotFitError."""
        by_key: dict[str, Use] = {}
        for unit, count in self._at_most.items():
            known = by_key.get(unit.region.key)
            by_key[unit.region.key] = Use(unit.region, count + (known.count if known else 0))
        uses = list(by_key.values())
        extra = sum(unit.extra_bytes * count for unit, count in self._at_most.items())
        whole = sum(use.region.bases[0].saved_bytes * use.count for use in uses) + extra
        limit = self._budget.bytes_of(whole)
        # Steps of several sizes may share regions: the largest such step has to run.
        self._limits.update({key: max(limit, self._limits.get(key, 0)) for key in by_key})
        if self._step_bytes <= limit:
            return
        self._plans += 1
        ways = choices(uses, self._device)
        choice = choose(ways, limit - extra)
        if choice is None or self._plans > _MOST_PLANS:
            passes, least = sum(use.count for use in uses), ways[0].saved_bytes + extra
            message = (
                f"thermocline.torch.compile_budget: {quantity(passes, 'forward pass has', 'forward passes have')} to save {least} bytes for "
                f"backward at least, in {quantity(len(uses), 'compiled region')}, and the budget has {limit}: the least budget is {least} "
                f"(without a budget {whole})"
            )
            raise DoesNotFitError(message, least, least)
        self._assigned.update(zip(by_key, choice.nodes, strict=True))
        self._say(
            f"{quantity(len(uses), 'region saves', 'regions save')} {choice.saved_bytes + extra} bytes for backward together "
            f"(without a budget: {whole}); the next step compiles them again"
        )
        self._compare([use.region for use in uses], choice)
        self.units.clear()
        torch._dynamo.reset()

    def _compare(self, regions: list[Region], choice: Choice) -> None:
        what = {"regions": [r.key[:12] for r in regions], "saved bytes": choice.saved_bytes, "values saved": [list(n) for n in choice.nodes]}
        compare("compile_budget", what, self._say)

    def _say(self, text: str) -> None:
        if self._verbose:
            print(f"thermocline.torch.compile_budget: {text}", file=sys.stderr)


def _compiler_of(backend: str | Callable[..., Any], mode: str | None, options: dict[str, Any] | None) -> Callable[..., Any]:
    if backend == "inductor":
        return torch._TorchCompileInductorWrapper(mode or "default", options, None)
    if mode or options:
        raise ValueError("compile_budget: mode and options are those of the backend 'inductor'; leave them out")
    if not isinstance(backend, str):
        return backend
    from torch._dynamo.backends.registry import lookup_backend

    return lookup_backend(backend)


def compile_budget(
    budget: int | str,
    *,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    device: str = "reference",
    verbose: bool = True,
) -> CompileBudget:
    """A backend for torch.compile: ``model = torch.compile(model, backend=compile_budget("2GiB"))``.

    budget: bytes (int, or "2GiB") that compiled regions may save for backward together, without parameters and buffers of modules; "50%": of what
    they save without a budget. What is not saved runs again in backward; the library's planner chooses.
    backend: the compiler; any that uses AOTAutograd's min-cut partitioner. mode, options: as of torch.compile.
    device: profile for the times of a GPU's operators (`thermocline devices`).

    With several regions (graph breaks, blocks that are compiled one by one), or several forward passes before a backward: ``with budget:`` around
    each step. The first step may then need more, all regions are planned together, and the next step compiles again.

    Raises DoesNotFitError (a RuntimeError) at the call of the compiled function, or at the end of the first step, with the least budget.
    """
    check_partitioner()
    return CompileBudget(checked_budget(budget, device), _compiler_of(backend, mode, options), device, verbose=verbose)
