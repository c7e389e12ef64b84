# SPDX-License-Identifier: Apache-2.0
"""fit(): training steps within a budget of bytes. The first step is recorded, the joint plan of the library is made for it, and the steps
after it run by that plan, in eager mode and with the same bits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from . import _host_choice, _step_plan
from ._budget import Budget, check_keywords, check_plans, check_step, checked_budget, checked_states, quantity
from ._execution import Counts, Execution
from ._ranks import compare
from ._saved import Store
from ._states import States
from ._step_plan import DoesNotFitError, StepPlan
from ._step_record import GATHERED, Recorder, StepRecord
from ._stores import PinnedStore
from ._table import make_table
from ._trial import trial

# A step that begins with more than it was planned for is recorded again, so often at most.
_MOST_RECORDINGS = 3
_TOLERANCE = 0.005
# After so many steps in a row that were not the recorded one, the next is recorded.
_MOST_DIVERGED = 2


class Fit:
    """Made by fit(). Call it, or enter it around one step (forward and backward). Not for several threads at a time."""

    def __init__(
        self,
        step: Callable[..., Any] | None,
        *,
        budget: int | str,
        device: str,
        plans: str,
        store: Store | None,
        min_bytes: int,
        measure: bool,
        verbose: bool,
        states: States | None = None,
    ) -> None:
        self._step = step
        self._budget = checked_budget(budget, device)
        self._device, self._plans, self._store, self._min_bytes, self._verbose = device, plans, store, min_bytes, verbose
        self._measure = measure
        self._states = states
        self._entered: Recorder | Execution | None = None
        self._table: list[Any] = []
        self._recordings = 0
        self._diverged = 0
        self._named: set[str] = set()
        self._chose_host_steps = False
        self.result: Any = None  # of the step that fit() ran, where it was given inputs
        self.record: StepRecord | None = None
        self.plan: StepPlan | None = None  # None: the next step is recorded
        self.counts: Counts | None = None  # of the last step that ran under a plan

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One step: what the function returns. RuntimeError where fit() was given a module: enter the context around a step."""
        if self._step is None:
            raise RuntimeError("thermocline.torch.fit: a module alone is no step; write `with fitted:` around forward and backward")
        with self:
            return self._step(*args, **kwargs)

    def __enter__(self) -> Fit:
        if torch.compiler.is_compiling():
            raise RuntimeError("thermocline.torch.fit can not be entered in compiled code; enter it around the call")
        if self._entered is not None:
            raise RuntimeError("thermocline.torch.fit: a step is under way; steps can not be nested")
        if self._states is not None:
            self._states.enter()
            self._say_what_works_on_lists(self._states.lists.changed)
        try:
            entered = self._next()
            entered.__enter__()
        except BaseException:
            if self._states is not None:
                self._states.exit()
            raise
        self._entered = entered
        return self

    def _say_what_works_on_lists(self, optimizers: set[str]) -> None:
        for name in sorted(optimizers - self._named):
            self._named.add(name)
            self._say(f"{name} takes one parameter after the other inside (foreach=False), because a list of all has to be on the device at once")

    def _next(self) -> Recorder | Execution:
        if self.plan is None or self._must_record_again():
            self._recordings += 1
            return self.recorder()
        return Execution(self.plan, self._table, self._store, self._min_bytes, self._states)

    def recorder(self) -> Recorder:
        """The recorder of the next step. States have been entered."""
        most = None if self._budget.of_bytes else self._budget.count
        return Recorder(
            measure=self._measure, known=self.record, states=self._states, most_bytes=most, store=self._store, min_bytes=self._min_bytes
        )

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        entered, self._entered = self._entered, None
        if entered is None:
            raise RuntimeError("thermocline.torch.fit: no step is under way; write `with fitted:` around one")
        try:
            entered.__exit__(kind, error, trace)
        finally:
            if self._states is not None:
                self._states.exit()
        if isinstance(entered, Execution):
            self.counts = entered.counts
            self._diverged = self._diverged + 1 if self.counts.diverged_at is not None else 0
            if self._diverged >= _MOST_DIVERGED:
                self._say("the steps are not the recorded one any more; the next is recorded")
                self.plan, self._diverged, self._recordings = None, 0, 0
        elif kind is None:
            self.use(entered.record)

    def _must_record_again(self) -> bool:
        record = self.record
        if self._states is not None:
            grown = self._states.bytes_of_all() - record.state_bytes
            return grown > _TOLERANCE * record.state_bytes and self._recordings < _MOST_RECORDINGS
        grown = record.alive_bytes() - record.before_bytes
        return grown > _TOLERANCE * record.before_bytes and self._recordings < _MOST_RECORDINGS

    def use(self, record: StepRecord) -> None:
        """Plans for a recorded step. Raises DoesNotFitError, after which steps run without a plan."""
        self.record, self.plan = record, None
        if not record.operators:
            raise RuntimeError("thermocline.torch.fit: the step ran no operator that PyTorch dispatched on this thread")
        if self._states is not None and self._states.host is not None:
            if self._choose_host_steps(record):
                return
            self.record = record = _host_choice.again(record, self._states.host)
        # The bound is for who reads the line: it takes a part of the time of planning.
        answer = self._ask(record, bound=self._verbose)
        gathered = sum(operator.refusal == GATHERED for operator in record.operators)
        if gathered and GATHERED not in self._named:
            self._named.add(GATHERED)
            self._say(
                f"{quantity(gathered, 'operator reads', 'operators read')} what collectives filled, such as parameters that FSDP gathers; "
                "what is made of it is kept"
            )
        for name, reason in record.refusals().items():
            if name not in self._named and reason != GATHERED:
                self._named.add(name)
                self._say(f"the results of {name} are kept or offloaded, not recomputed: {reason}")
        if not answer["fits"]:
            raise _step_plan.refuse(record, answer)
        self.plan = _step_plan.plan_of(record, answer)
        self._table = make_table(self.plan)
        self._say(self.expectation())
        what = {
            "operators": [operator.name for operator in record.operators],
            "budget": answer["budget_bytes"],
            "expected peak": answer["peak_bytes"],
            "values dropped": answer["drops"],
            "values offloaded": answer["offloads"],
            "parameters updated in host memory": self.updated_on_host,
        }
        compare("fit", what, self._say)

    def _ask(self, record: StepRecord, *, budget: Budget | None = None, bound: bool = False) -> dict[str, Any]:
        return _step_plan.ask(record, budget or self._budget, device=self._device, plans=self._plans, min_bytes=self._min_bytes, bound=bound)

    def _choose_host_steps(self, record: StepRecord) -> bool:
        """Once, when the optimizer has made its state. Whether the step has to be recorded with the choice in force."""
        if self._chose_host_steps or not any(record.roles.get(number, ("",))[0] == "state" for number in record.before):
            return False
        self._chose_host_steps = True
        # A percentage stays one of what the step needs whole on the device.
        budget = Budget(self._budget.bytes_of(_step_plan.whole_peak_bytes(record)), 0)
        chosen, line = _host_choice.choose(record, self._states.host, lambda one: self._ask(one, budget=budget), self._device)
        if not chosen:
            return False
        self._budget = budget
        self._states.host.choose([one.parameter for one in chosen])
        self._say(line)
        return True

    def expectation(self) -> str:
        """The plan's promise, in a line."""
        if self.plan is None:
            return "no plan yet: the next step is recorded"
        answer = self.plan.answer

        def mib(name: str) -> str:
            return f"{answer.get(name, 0) / (1 << 20):,.1f} MiB"

        moved = len(answer.get("moves", ()))
        more = ""
        if answer["compute_ms"]:
            share = answer["step_ms"] / answer["compute_ms"] - 1
            more = f"; expected {share:+.1%} time"
            if answer.get("bound_ms") is not None:
                # The bound may be a hair less than what all operators take.
                more += f" (no plan takes less than {max(answer['bound_ms'] / answer['compute_ms'] - 1, 0):+.1%})"
        if self.updated_on_host:
            more += f", without the {quantity(self.updated_on_host, 'parameter')} updated in host memory"
        return (
            f"a step needs {mib('peak_bytes')} of {mib('budget_bytes')} (kept whole: {mib('whole_peak_bytes')}); "
            f"{quantity(self.plan.dropped, 'value')} dropped, {quantity(len(answer['reruns']), 'operator runs', 'operators run')} again, "
            f"{quantity(self.plan.offloaded + moved, 'offload')} ({mib('offloaded_bytes')}){more}"
        )

    @property
    def updated_on_host(self) -> int:
        """With cpu_step="auto": how many parameters the optimizer updates in host memory."""
        return len(self._states.host.chosen) if self._states is not None and self._states.host is not None else 0

    def is_in_host_memory(self, tensor: torch.Tensor) -> bool:
        """Between steps: whether the state waits there. It is a tensor of the host then."""
        return self._states is not None and self._states.is_waiting(tensor)

    def _say(self, text: str) -> None:
        if self._verbose:
            print(f"thermocline.torch.fit: {text}", file=sys.stderr)


def fit(
    step_or_model: Callable[..., Any] | torch.nn.Module,
    *inputs: Any,
    budget: int | str,
    loss: Callable[..., torch.Tensor] | None = None,
    device: str = "reference",
    plans: str | None = None,
    store: Store | None = None,
    min_bytes: int = 4096,
    states: Any = (),
    cpu_step: bool | str = False,
    measure: bool = False,
    verbose: bool = True,
    **keywords: Any,
) -> Fit:
    """Training steps whose tensors need at most `budget`, with the bits of plain PyTorch.

    A step function: ``step = fit(train_step, budget="50%")``, then ``step(x, y)``. The first call is recorded and not within the budget (about so with
    one in bytes, where there is somewhere to offload); the following ones are. With inputs (keywords, too), the first step runs at once, and its result is `.result`.

    A module: ``fitted = fit(model, budget="50%")``, then ``with fitted:`` around forward and backward. With inputs, a step is tried at once
    (`loss` of (outputs, *inputs, **keywords), else the sum of the outputs) and undone: gradients, buffers and random state are as before.

    budget: bytes (int, or "12GiB") for everything that the step uses: parameters, gradients, inputs, activations, optimizer state; "50%":
    of what the step needs whole. What PyTorch's operators take and give back inside themselves does not count.
    device: profile for the link, and for the times of a GPU's operators (`thermocline devices`); those of a CPU are estimated.
    measure: instead, operators are timed in the recorded step, by the host's clock. Without it equal steps have equal plans.
    plans: "joint", "recompute", "swap" or "sqrt" (docs/recompute.md); by default "joint" where there is somewhere to offload, else
    "recompute". store: where offloaded values go; by default pinned memory for a GPU, nowhere for a CPU.
    min_bytes: smaller values stay.
    states: modules, optimizers, tensors: what they have, gradients too, may wait in host memory between uses (docs/pytorch.md).
    cpu_step: each step ends with the gradients that it made, and their parameters, in host memory, where the optimizer runs between steps.
    "auto": the optimizer's step stays in the step, and runs in host memory for those parameters for which that is expected to be faster (on a GPU
    with the CPU's rounding).

    Raises DoesNotFitError (a RuntimeError) where no plan needs so little, naming the operator that needs most; ValueError for a budget or
    device that is none; FileNotFoundError without the command `thermocline`. Results belong to the caller; backward runs inside of the
    step, and what a graph that outlives it still needs is restored at its end, unless that is an error.
    """
    check_step(step_or_model, bool(inputs or keywords), loss)
    check_keywords(step_or_model, keywords)
    if not hasattr(torch._C, "_storage_Use_Count"):
        raise RuntimeError(f"thermocline.torch.fit needs a PyTorch that counts the uses of storages, which {torch.__version__} does not")
    store = store if store is not None or not torch.cuda.is_available() else PinnedStore()
    plans = plans or ("recompute" if store is None else "joint")
    check_plans(plans, store, min_bytes)
    fitted = Fit(
        None if isinstance(step_or_model, torch.nn.Module) else step_or_model,
        budget=budget,
        device=device,
        plans=plans,
        store=store,
        min_bytes=min_bytes,
        measure=measure,
        verbose=verbose,
        states=checked_states(states, store, plans, min_bytes, cpu_step=cpu_step),
    )
    if isinstance(step_or_model, torch._dynamo.eval_frame.OptimizedModule):
        fitted._say("a compiled module runs in eager mode inside; a budget for compiled code: thermocline.torch.compile_budget")
    if isinstance(step_or_model, torch.nn.Module) and (inputs or keywords):
        fitted.use(trial(step_or_model, inputs, keywords, loss, fitted.recorder, fitted._states))
    elif inputs or keywords:
        fitted.result = fitted(*inputs, **keywords)
    return fitted


__all__ = ["DoesNotFitError", "Fit", "fit"]
