# SPDX-License-Identifier: Apache-2.0
"""The optimizer's step of chosen parameters in host memory, on a thread of its own, while the device does the rest of the optimizer's step.
Their state never crosses the link: only a gradient leaves, when it is accumulated, and the parameter comes back when it is used next.

The thread works on tensors of its own over the host copies. The program's tensors stay what they are, with empty storages, as for all
states that wait.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ._lineage import view_of
from ._operators import is_plain, tensors_in
from ._reads import storage_under

if TYPE_CHECKING:
    from ._states import States, _State

# Optimizers that change each parameter by what they keep of it alone, and what they keep in place.
_KNOWN = {
    getattr(torch.optim, name)
    for name in ("Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "SGD")
    if hasattr(torch.optim, name)
}


class _Job:
    """One optimizer's step of some parameters. All that it uses is in host memory."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        kind = type(optimizer)
        self._step = getattr(kind.step, "__wrapped__", kind.step)  # the program's hooks have been called for the whole step
        self._clone = kind.__new__(kind)
        self._clone.__dict__.update(optimizer.__dict__, state=defaultdict(dict), param_groups=[])
        self._kept: list[tuple[dict[str, Any], dict[str, Any]]] = []  # the program's entry of a parameter, and that of its twin
        self._waiting: list[_State] = []

    def add_group(self, group: dict[str, Any], members: list[_Member]) -> None:
        on_host = []
        for member in members:
            twin = member.twin_of(member.parameter, member.states[0])
            twin.grad = member.twin_of(member.parameter.grad, member.states[1])
            kept = {name: member.kept_on_host(name) for name in member.kept}
            self._clone.state[twin] = kept
            self._kept.append((member.kept, dict(kept)))
            self._waiting += member.states
            on_host.append(twin)
        self._clone.param_groups.append({**group, "params": on_host, "foreach": False})

    def run(self) -> None:
        for state in self._waiting:
            state.copy.synchronize()
        with torch.no_grad():
            self._step(self._clone)
        for (theirs, given), ours in zip(self._kept, self._clone.state.values(), strict=True):
            for name, value in ours.items():
                if value is not given.get(name) and isinstance(value, torch.Tensor):
                    given[name].copy_(value)
                elif not isinstance(value, torch.Tensor):
                    theirs[name] = value


class _Member:
    """A parameter whose step may run in host memory, with everything that the optimizer takes for it."""

    def __init__(self, parameter: torch.Tensor, kept: dict[str, Any], state_of: Callable[[torch.Tensor], _State | None]) -> None:
        self.parameter, self.kept = parameter, kept
        tensors = [parameter, parameter.grad, *(value for value in kept.values() if isinstance(value, torch.Tensor))]
        self.states: list[_State] = []
        self.by_name = {name: state_of(value) for name, value in kept.items() if isinstance(value, torch.Tensor)}
        # A count of steps is a number of the host anyway.
        self.is_whole = bool(kept)
        for tensor in tensors:
            state = state_of(tensor)
            if state is not None:
                self.states.append(state)
            elif len(self.states) < 2 or tensor.numel() != 1 or tensor.device.type != "cpu":
                self.is_whole = False
                return

    def twin_of(self, tensor: torch.Tensor, state: _State) -> torch.Tensor:
        return view_of(storage_under(state.copy.tensor), tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset())

    def kept_on_host(self, name: str) -> Any:
        value, state = self.kept[name], self.by_name.get(name)
        return value if state is None else self.twin_of(value, state)


class HostSteps:
    """For one fit(). Between begin() and end() a step runs."""

    def __init__(self, optimizers: list[torch.optim.Optimizer]) -> None:
        self.optimizers = [optimizer for optimizer in optimizers if type(optimizer) in _KNOWN]
        self._chosen: dict[int, weakref.ref[torch.Tensor]] = {}
        # The last step, for who chooses: operators between which an optimizer ran, and where a gradient was accumulated, by id of the parameter.
        self.spans: list[tuple[int, int]] = []
        self.accumulated: dict[int, list[int]] = {}
        self.place: Callable[[], int] | None = None  # operators that have run so far, in a step that is recorded
        # Set in a step under a plan. Whether something is to be made again from the storage's contents; and that these change now.
        self.is_wanted: Callable[[torch.UntypedStorage], bool] | None = None
        self.changes: Callable[[torch.UntypedStorage], None] | None = None
        self.ran = 0  # parameters, since it was made
        self._states: States | None = None
        self._begun = 0
        self._groups: list[tuple[dict[str, Any], list[torch.Tensor]]] = []  # with the program's lists
        self._hooks: list[Any] = []
        self._jobs: list[Future[None]] = []
        self._thread: ThreadPoolExecutor | None = None

    def choose(self, parameters: list[torch.Tensor]) -> None:
        self._chosen = {id(parameter): weakref.ref(parameter) for parameter in parameters}

    @property
    def chosen(self) -> set[int]:
        return {key for key, parameter in self._chosen.items() if parameter() is not None}

    def is_chosen(self, parameter: torch.Tensor) -> bool:
        known = self._chosen.get(id(parameter))
        return known is not None and known() is parameter

    def begin(self, states: States) -> None:
        self._states, self.spans, self.accumulated = states, [], {}
        for optimizer in self.optimizers:
            after = optimizer.register_step_post_hook(self._after)
            optimizer._optimizer_step_post_hooks.move_to_end(after.id, last=False)  # the program's hooks find its own lists
            self._hooks += [optimizer.register_step_pre_hook(self._before), after]

    def note_accumulated(self, parameter: torch.Tensor) -> None:
        if self.place is not None:
            self.accumulated.setdefault(id(parameter), []).append(self.place())

    def end(self) -> BaseException | None:
        """All jobs are done. The first error of one."""
        for hook in self._hooks:
            hook.remove()
        self._give_groups_back()
        wait(self._jobs)
        errors = [error for job in self._jobs if (error := job.exception()) is not None]
        self._hooks, self._jobs = [], []
        self._states = self.place = self.is_wanted = self.changes = None
        return errors[0] if errors else None

    def _give_groups_back(self) -> None:
        for group, parameters in self._groups:
            group["params"] = parameters
        self._groups.clear()

    def _before(self, optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict[str, Any]) -> None:
        self._begun = self.place() if self.place is not None else 0
        has_closure = any(argument is not None for argument in (*args[1:], *kwargs.values()))
        if self._chosen and not has_closure:
            with _disable_current_modes():
                self._begin_job(optimizer)

    def _after(self, _optimizer: torch.optim.Optimizer, _args: tuple, _kwargs: dict[str, Any]) -> None:
        self._give_groups_back()
        if self.place is not None:
            self.spans.append((self._begun, self.place()))

    def _begin_job(self, optimizer: torch.optim.Optimizer) -> None:
        found: list[tuple[dict[str, Any], list[_Member]]] = []
        for group in optimizer.param_groups:
            members = [self._member(optimizer, parameter) for parameter in group["params"]] if is_usual(group) else []
            if any(members):
                found.append((group, [member for member in members if member is not None]))
        if not found:
            return
        members = [member for _, members in found for member in members]
        for member in members:
            for state in member.states:
                self._states.evict(state)
        # From here on nothing of them is done on the device in this step of the optimizer.
        job = _Job(optimizer)
        for group, own in found:
            job.add_group(group, own)
            taken = {id(member.parameter) for member in own}
            self._groups.append((group, group["params"]))
            group["params"] = [parameter for parameter in group["params"] if id(parameter) not in taken]
        self._tell(members)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="thermocline-optimizer")
        future = self._thread.submit(job.run)
        self._jobs.append(future)
        for state in (state for member in members for state in member.states):
            state.job = future
        self.ran += len(members)

    def _tell(self, members: list[_Member]) -> None:
        """Autograd, and who makes values again, that the contents are others from now on."""
        for member in members:
            torch.autograd.graph.increment_version(member.parameter)
            for state in (member.states[0], *member.states[2:]):
                if self.changes is not None and (storage := state.storage()) is not None:
                    self.changes(storage)

    def _member(self, optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> _Member | None:
        """None: its step runs on the device."""
        if not self.is_chosen(parameter) or parameter.grad is None:
            return None
        member = _Member(parameter, optimizer.state.get(parameter, {}), self._states.state_of)
        if not member.is_whole or any(state.is_handed_out or state.job is not None for state in member.states):
            return None
        storages = [state.storage() for state in member.states]
        is_wanted = self.is_wanted or (lambda storage: False)
        return None if any(storage is None or is_wanted(storage) for storage in storages) else member


def is_usual(group: dict[str, Any]) -> bool:
    """Whether the group's step is the same operators in host memory. A rate that is a tensor may change while the thread reads it."""
    has_tensors = bool(tensors_in([value for name, value in group.items() if name != "params"]))
    return not has_tensors and not any(group.get(name) for name in ("fused", "capturable", "differentiable"))


def may_run_on_host(parameter: torch.Tensor) -> bool:
    return is_plain(parameter) and not parameter.is_complex()
