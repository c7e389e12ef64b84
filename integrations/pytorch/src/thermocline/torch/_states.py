# SPDX-License-Identifier: Apache-2.0
"""Parameters, gradients and optimizer state of a fitted step, which may wait in host memory between uses.

Within a step a state is evicted by emptying its storage and fetched by filling the same storage: every tensor, view and saved tensor on it stays
what it is, and whatever an operator is given is filled first. Between steps no storage is empty: what waits in host memory is, for the
program, the same tensor object on a host tensor. What somebody else holds too (a view, a graph that outlives the step) is on the device
between steps.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._python_dispatch import _disable_current_modes

from ._host_steps import HostSteps
from ._kept import Kept
from ._lineage import view_of
from ._lists import OneByOne
from ._operators import covers_storage, is_plain, mapped, tensors_in
from ._reads import storage_under, unwatch, watch
from ._streams import use_on

Role = tuple[str, int]

# Made of an empty storage, too. Other views look whether their elements are within the storage.
_NEEDS_NOTHING = {"aten::detach", "aten::alias", "aten::view", "aten::is_same_size"}


def needs_contents(function: Any) -> bool:
    return function._schema.name not in _NEEDS_NOTHING


class StateCopy(Protocol):
    """Host memory for one state."""

    tensor: torch.Tensor  # the bytes; valid after synchronize()

    def copy_out(self, storage: torch.UntypedStorage) -> None:
        """The caller empties the storage right afterwards."""

    def prefetch(self, storage: torch.UntypedStorage) -> None:
        """Into the storage, which has its size again."""

    def finish_prefetch(self) -> None:
        """Work submitted to the current stream from now on finds the contents. May be called again, for another stream."""

    def synchronize(self) -> None:
        """Waits until the bytes are in `tensor`."""


class _State:
    """One storage on the device."""

    __slots__ = ("bytes", "device", "copy", "is_evicted", "is_coming", "is_current", "is_handed_out", "job", "others", "role", "storage")

    def __init__(self, storage: torch.UntypedStorage, role: Role, count: int) -> None:
        self.storage = weakref.ref(storage)
        self.role = role
        self.bytes = count
        self.device = storage.device
        self.copy: StateCopy | None = None
        self.is_evicted = self.is_coming = False
        self.is_current = False  # the copy has what the storage has
        self.is_handed_out = False  # somebody has the address until the step ends
        self.job: Future[None] | None = None  # that works on the copy; the storage is empty then
        self.others: set[torch.cuda.Stream] = set()  # which have used it, beside the step's own


class _Waiting:
    """Between steps: a state in host memory, with the tensors that are on it."""

    __slots__ = ("bytes", "copy", "device", "tensors")

    def __init__(self, state: _State, tensors: list[torch.Tensor]) -> None:
        self.copy = state.copy
        self.bytes = state.bytes
        self.device = state.device
        self.tensors = [weakref.ref(tensor) for tensor in tensors]

    def alive(self) -> list[torch.Tensor]:
        """The tensors that the program has not given other memory meanwhile."""
        tensors = [tensor for tensor in (reference() for reference in self.tensors) if tensor is not None]
        return [tensor for tensor in tensors if storage_under(tensor)._cdata == storage_under(self.copy.tensor)._cdata]


class _Here:
    """States on the device, by _cdata of their storages: the one that was not used for longest first."""

    def __init__(self) -> None:
        self._states: dict[int, _State] = {}
        self.bytes = 0

    def add(self, key: int, state: _State) -> None:
        self.remove(key)
        self._states[key] = state
        self.bytes += state.bytes

    def remove(self, key: int) -> None:
        if (state := self._states.pop(key, None)) is not None:
            self.bytes -= state.bytes

    def used(self, keys: set[int]) -> None:
        for key in keys & self._states.keys():
            self._states[key] = self._states.pop(key)

    def by_age(self) -> list[tuple[int, _State]]:
        return list(self._states.items())


class States:
    """For one fit(). Between enter() and exit() a step runs. Not for several threads at a time."""

    def __init__(self, sources: list[Any], store: Any, min_bytes: int, *, cpu_step: bool | str = False) -> None:
        """sources: modules, optimizers and tensors. cpu_step: True: optimizers run between steps, where everything that they take is in host memory;
        "auto": within the step, and for chosen parameters there."""
        self._sources = sources
        self._cpu_step = cpu_step is True
        optimizers = [source for source in sources if isinstance(source, torch.optim.Optimizer)]
        self.lists = OneByOne(optimizers)
        self.host = HostSteps(optimizers) if cpu_step == "auto" else None
        self._store = store
        self._min_bytes = min_bytes
        self._by_key: dict[int, _State] = {}  # by _cdata of the storage
        self._by_role: dict[Role, _State] = {}
        self._waiting: deque[_Waiting] = deque()
        self._handed_out: list[weakref.ref[torch.UntypedStorage]] = []  # in the step before
        self._kept: list[tuple[int, weakref.ref[Kept]]] = []
        self._hooks: list[Any] = []
        self._looked_at = 0  # entries of the optimizers' state
        self._here = _Here()
        self._streams: dict[torch.device, torch.cuda.Stream] = {}  # the step's own: all states come and go on it
        self.not_here = 0  # states that an operator can not take as they are
        self.evictions = self.evicted_bytes = self.fetches = self.fetched_bytes = 0  # since it was made
        self.noticed: Callable[[torch.UntypedStorage], None] | None = None  # called with the storages of new states
        self.room: Callable[[], int] | None = None  # bytes for states on the device; None: as the plan has it
        for optimizer in optimizers if not self._cpu_step else ():
            optimizer.register_step_pre_hook(_Outside(self))
        if self._cpu_step:
            weakref.finalize(self, register_optimizer_step_pre_hook(_Along(self)).remove).atexit = False

    def tensors(self) -> Iterator[tuple[Role, torch.Tensor]]:
        """Everything that the sources have now, each tensor once."""
        seen: set[int] = set()
        for role, tensor in self._found():
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield role, tensor

    def _found(self) -> Iterator[tuple[Role, torch.Tensor]]:
        for source in self._sources:
            if isinstance(source, torch.Tensor):
                yield from _with_gradient(source)
            elif isinstance(source, torch.nn.Module):
                for tensor in (*source.parameters(), *source.buffers()):
                    yield from _with_gradient(tensor)
            else:
                for group in source.param_groups:
                    for tensor in group["params"]:
                        yield from _with_gradient(tensor)
                for values in source.state.values():
                    for tensor in tensors_in(values):
                        yield ("state", id(tensor)), tensor

    def names(self, tensor: torch.Tensor) -> bool:
        """Whether the sources have it."""
        return any(one is tensor for _, one in self.tensors())

    def bytes_of_all(self) -> int:
        """In a step: of all states, wherever they are."""
        return sum(state.bytes for state in self._by_key.values())

    def is_waiting(self, tensor: torch.Tensor) -> bool:
        """Between steps: whether its contents are in host memory."""
        return any(one is tensor for waiting in self._waiting for one in waiting.alive())

    @property
    def is_any_waiting(self) -> bool:
        return any(waiting.alive() for waiting in self._waiting)

    def enter(self) -> None:
        """Every state has a storage on the device from now on, if an empty one; or, where that fails, everything is as between steps."""
        watch(self._told)
        try:
            self._enter()
        except BaseException:
            self.exit()
            raise

    def _enter(self) -> None:
        while self._waiting:
            self._back_on_device(self._waiting[0])
            self._waiting.popleft()
        for source in self._sources:
            if not isinstance(source, torch.Tensor):
                self._hooks.append(source.register_state_dict_pre_hook(self._refuse_to_save))
        for role, tensor in self.tensors():
            self._know(role, tensor)
            if role[0] == "tensor" and tensor.requires_grad and tensor.is_leaf:
                self._hooks.append(tensor.register_post_accumulate_grad_hook(self._accumulated))
        self._stay_where_arrays_are()
        self.lists.begin()
        if self.host is not None:
            self.host.begin(self)

    def _stay_where_arrays_are(self) -> None:
        """An array that a step before has made of a state may be in use still: it holds the storage, as tensors do."""
        owners: dict[int, int] = {}
        for _, tensor in self.tensors() if self._handed_out else ():
            key = storage_under(tensor)._cdata if is_plain(tensor) else 0
            owners[key] = owners.get(key, 0) + 1
        for storage in (reference() for reference in self._handed_out):
            state = self._by_key.get(storage._cdata) if storage is not None else None
            if state is not None and torch._C._storage_Use_Count(storage._cdata) > 1 + owners.get(storage._cdata, 0):
                state.is_handed_out = True
        self._handed_out.clear()

    def exit(self) -> None:
        """No storage is empty from now on. Where one can not be filled, the sources' tensors on it are in host memory, everything else is as it
        should be, and the error is raised; only what else is on that storage has no contents.
        """
        unwatch(self._told)
        error = self.host.end() if self.host is not None else None
        try:
            self.lists.end()
            for state in self._by_key.values():
                if state.is_handed_out:
                    self._handed_out.append(state.storage)
            for hook in self._hooks:
                hook.remove()
            self._make_whole()
        finally:
            self._hooks, self._kept = [], []
            self._by_key, self._by_role, self._here, self.not_here = {}, {}, _Here(), 0
            self._streams = {}
            self.room = self.noticed = None
        if error is not None:
            raise error

    def _make_whole(self) -> None:
        error: BaseException | None = None
        owners: dict[int, list[torch.Tensor]] = {}
        for _, tensor in self.tensors():
            found = owners.setdefault(storage_under(tensor)._cdata, []) if is_plain(tensor) else []
            if all(tensor is not other for other in found):
                found.append(tensor)
        held = {key for key, kept in self._kept if kept() is not None}
        if self._cpu_step and not self._waiting:  # else the step could not begin
            error = self._evict_what_is_trained(lambda key: key not in held and torch._C._storage_Use_Count(key) <= 1 + len(owners.get(key, [])))
        for key, state in list(self._by_key.items()):
            for other in state.others:  # The next step may evict it before the program has said so.
                self._streams[state.device].wait_stream(other)
            storage = state.storage()
            if storage is None or not (state.is_evicted or state.is_coming):
                continue
            tensors = owners.get(key, [])
            try:
                if state.is_coming or key in held or not tensors or torch._C._storage_Use_Count(key) > 1 + len(tensors):
                    self.fetch(state)
                    continue
            except BaseException as failure:
                error = error or failure
                storage.resize_(0)  # Nobody takes for contents what has not come.
            try:
                self._to_host(state, tensors)
            except BaseException as failure:
                error = error or failure
        if error is not None:
            raise error

    def _evict_what_is_trained(self, is_free: Callable[[int], bool]) -> BaseException | None:
        """A parameter, its gradient and its state: all of them, or none where one has to stay on the device, or finds no host memory. is_free:
        whether only the sources' tensors are on the storage with that _cdata. The first error, after which the others have moved all the same."""
        error: BaseException | None = None
        optimizers = [source for source in self._sources if isinstance(source, torch.optim.Optimizer)]
        for role, parameter in list(self.tensors()):
            if role[0] != "tensor" or parameter.grad is None:
                continue
            both = [self.state_of(parameter), self.state_of(parameter.grad)]
            others = [self.state_of(tensor) for optimizer in optimizers for tensor in tensors_in(optimizer.state.get(parameter, {}))]
            known = [state for state in (*both, *others) if state is not None]
            leave = None not in both and not any(state.is_handed_out for state in known)
            leave = leave and all(is_free(storage._cdata) for state in known if (storage := state.storage()) is not None)
            for move in (self.evict, self.fetch) if leave else (self.fetch,):
                failures = [failure for state in known if (failure := _failure_of(move, state)) is not None]
                error = error or next(iter(failures), None)
                if not failures:
                    break
        return error

    def _back_on_device(self, waiting: _Waiting) -> None:
        tensors = waiting.alive()
        if not tensors:
            return
        whole = torch.empty(waiting.bytes, dtype=torch.uint8, device=waiting.device)
        storage, copy = storage_under(whole), waiting.copy
        # Its own tensor, the storage's own object, and the tensors that leave it now.
        if torch._C._storage_Use_Count(storage_under(copy.tensor)._cdata) > 2 + len(tensors):
            with _disable_current_modes():  # such as what tensor.cpu() gave, which the program takes for a copy
                copy = self._store.host_copy(storage)
                copy.tensor.copy_(waiting.copy.tensor)
        # From here on nothing fails: the tensors have lost their contents until the state has a home.
        for tensor in tensors:
            tensor.data = view_of(storage, tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset())
        state = self._add(storage, ("", 0), waiting.bytes)
        state.copy, state.is_current, state.is_evicted = copy, True, True
        self._here.remove(storage._cdata)
        self.not_here += 1
        storage.resize_(0)

    def _to_host(self, state: _State, tensors: list[torch.Tensor]) -> None:
        state.copy.synchronize()
        host = storage_under(state.copy.tensor)
        with _disable_current_modes():
            for tensor in tensors:
                tensor.data = view_of(host, tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset())
        self._waiting.append(_Waiting(state, tensors))

    def _know(self, role: Role, tensor: torch.Tensor) -> None:
        known = self._by_key.get(storage_under(tensor)._cdata) if is_plain(tensor) else None
        if known is not None and known.storage() is storage_under(tensor):
            if known.role == ("", 0):
                known.role = role
            self._by_role.setdefault(role, known)
        elif self._may_leave(tensor):
            self._add(storage_under(tensor), role, storage_under(tensor).nbytes())

    def _may_leave(self, tensor: torch.Tensor) -> bool:
        if not is_plain(tensor) or storage_under(tensor).nbytes() < max(self._min_bytes, 1):
            return False
        storage = storage_under(tensor)
        is_shared = storage.device.type == "cpu" and storage.is_shared()  # other processes have it, and it can not be filled again
        return covers_storage(tensor) and storage.resizable() and not is_shared and self._store.accepts(tensor)

    def _add(self, storage: torch.UntypedStorage, role: Role, count: int) -> _State:
        state = _State(storage, role, count)
        key = storage._cdata
        if storage.device.type == "cuda":
            current = torch.cuda.current_stream(storage.device)
            if self._streams.setdefault(storage.device, current) != current:
                state.others.add(current)
        self._by_key[key] = self._by_role[role] = state
        self._here.add(key, state)
        finalizer = weakref.finalize(storage, self._ended, key, state)
        finalizer.atexit = False
        if self.noticed is not None:
            self.noticed(storage)
        return state

    def _ended(self, key: int, state: _State) -> None:
        if self._by_key.get(key) is state:
            self.not_here -= state.is_evicted or state.is_coming
            del self._by_key[key]
            self._here.remove(key)

    def _accumulated(self, parameter: torch.Tensor) -> None:
        if parameter.grad is None:
            return
        self._know(("grad", id(parameter)), parameter.grad)
        if self.host is not None:
            self.host.note_accumulated(parameter)
            state = self.state_of(parameter.grad) if self.host.is_chosen(parameter) else None
            if state is not None:
                with _disable_current_modes():
                    self.evict(state)

    def _refuse_to_save(self, *_: Any) -> None:
        if self.not_here:
            raise RuntimeError(
                "thermocline.torch.fit: state_dict() inside of the fitted step would miss what is in host memory; call it between steps"
            )

    def look(self) -> None:
        """Optimizers make their state in the first step."""
        count = sum(len(source.state) for source in self._sources if isinstance(source, torch.optim.Optimizer))
        if count != self._looked_at:
            self._looked_at = count
            for role, tensor in self.tensors():
                self._know(role, tensor)

    def role_of(self, storage: torch.UntypedStorage) -> Role | None:
        state = self._by_key.get(storage._cdata)
        return state.role if state is not None and state.storage() is storage else None

    def state_of(self, tensor: torch.Tensor) -> _State | None:
        return self._by_key.get(storage_under(tensor)._cdata) if is_plain(tensor) else None

    def of_role(self, role: Role) -> _State | None:
        return self._by_role.get(role)

    def adopt(self, storage: torch.UntypedStorage) -> _State:
        """Takes over a storage that the recorded step showed to become a gradient."""
        known = self._by_key.get(storage._cdata)
        return known if known is not None else self._add(storage, ("", 0), storage.nbytes())

    def keep(self, kept: Kept) -> None:
        """Autograd holds the tensor itself."""
        key = storage_under(kept.tensor)._cdata if is_plain(kept.tensor) else 0
        if key in self._by_key:
            self._kept.append((key, weakref.ref(kept)))

    @property
    def may_need(self) -> bool:
        """Whether an operator may find that a state is not ready for it."""
        return self.not_here > 0 or any(torch.cuda.current_stream(device) != own for device, own in self._streams.items())

    def need(self, values: Any) -> None:
        """An operator is about to take these arguments."""
        if self.may_need:
            self.need_storages([storage_under(t) for t in tensors_in(values) if t.layout is torch.strided])
            for value in values[0] if isinstance(values, tuple) and values and isinstance(values[0], tuple) else ():
                if isinstance(value, torch.UntypedStorage):
                    self.need_storages([value])

    def need_storages(self, storages: list[torch.UntypedStorage]) -> None:
        for storage in storages if self.may_need else ():
            state = self._by_key.get(storage._cdata)
            if state is not None:
                self.fetch(state)
                self._use_here(state, storage)

    def _use_here(self, state: _State, storage: torch.UntypedStorage) -> None:
        current = torch.cuda.current_stream(state.device) if state.device in self._streams else None
        if current is not None and current != self._streams[state.device]:
            if state.copy is not None:
                state.copy.finish_prefetch()
            use_on(storage, current)
            state.others.add(current)

    def _told(self, tensor: torch.Tensor, is_handed_out: bool) -> None:
        """Somebody is about to read the tensor's memory without an operator."""
        try:
            state = self._by_key.get(storage_under(tensor)._cdata)
        except NotImplementedError:  # It has none: it is sparse, or torch.func's around another tensor, of whose reads we are told.
            return
        if state is None:
            return
        with _disable_current_modes():
            self.fetch(state)
            self._use_here(state, storage_under(tensor))
        state.is_handed_out |= is_handed_out

    def ran(self, used: list[torch.UntypedStorage], changed: list[torch.UntypedStorage]) -> None:
        """An operator has used these, and changed these."""
        for storage in changed:
            if (state := self._by_key.get(storage._cdata)) is not None:
                state.is_current = False
        if self.noticed is not None:
            self.look()
        if self.room is None:
            return
        keys = {storage._cdata for storage in used}
        self._here.used(keys)
        room = self.room()
        for key, state in self._here.by_age() if self._here.bytes > room else ():
            if self._here.bytes <= room:
                break
            if key not in keys and not state.is_handed_out:
                self.evict(state)

    def evict(self, state: _State) -> None:
        storage = state.storage()
        if storage is None or state.is_evicted or state.is_handed_out:
            return
        if state.is_coming:
            self.fetch(state)
        if state.copy is None:
            with _disable_current_modes():
                state.copy = self._store.host_copy(storage)
        with self._on_own_stream(state) as stream:
            for other in state.others:
                stream.wait_stream(other)
            if not state.is_current:
                state.copy.copy_out(storage)
                state.is_current = True
                self.evictions += 1
                self.evicted_bytes += state.bytes
            storage.resize_(0)
        state.others.clear()
        state.is_evicted = True
        self.not_here += 1
        self._here.remove(storage._cdata)

    def begin_fetch(self, state: _State) -> None:
        storage = state.storage()
        if storage is None or not state.is_evicted:
            return
        if state.job is not None:
            wait([state.job])
            state.job = None
        with self._on_own_stream(state):
            storage.resize_(state.bytes)
            state.copy.prefetch(storage)
        state.is_evicted, state.is_coming = False, True
        self._here.add(storage._cdata, state)
        self.fetches += 1
        self.fetched_bytes += state.bytes

    def fetch(self, state: _State) -> None:
        self.begin_fetch(state)
        if state.is_coming:
            with self._on_own_stream(state):
                state.copy.finish_prefetch()
            state.is_coming = False
            self.not_here -= 1

    @contextmanager
    def _on_own_stream(self, state: _State) -> Iterator[torch.cuda.Stream | None]:
        stream = self._streams.get(state.device)
        with torch.cuda.stream(stream) if stream is not None else nullcontext():
            yield stream


class _Outside:
    """Before a step of an optimizer: one that runs outside of the fitted step would mix tensors in host memory and on the device."""

    def __init__(self, states: States) -> None:
        self._states = weakref.ref(states)

    def __call__(self, *_: Any) -> None:
        states = self._states()
        if states is not None and states.is_any_waiting:
            raise RuntimeError(
                "thermocline.torch.fit: the optimizer's step has to run inside of the fitted step, because some of its tensors are in host "
                "memory between steps"
            )


class _Along:
    """With cpu_step, before a step of any optimizer, because `states` need not name it: what it keeps of a parameter goes where that is now. A
    parameter that somebody holds stays on the device, and before that it may have been in host memory."""

    def __init__(self, states: States) -> None:
        self._states = weakref.ref(states)

    def __call__(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        states = self._states()
        for group in optimizer.param_groups if states is not None else ():
            # As in load_state_dict() of PyTorch's optimizers, whose kernels take this one from the CPU.
            stays = () if group.get("capturable") or group.get("fused") else ("step",)
            for parameter in group["params"]:
                kept = optimizer.state.get(parameter, {}) if parameter.grad is not None else {}
                elsewhere = [key for key in kept if key not in stays and any(t.device != parameter.device for t in tensors_in(kept[key]))]
                for key in elsewhere if elsewhere and states.names(parameter) else ():
                    device = parameter.device
                    kept[key] = mapped(kept[key], lambda leaf, to=device: leaf.to(to) if isinstance(leaf, torch.Tensor) else leaf)


def _failure_of(move: Callable[[_State], None], state: _State) -> BaseException | None:
    try:
        move(state)
    except BaseException as failure:
        return failure
    return None


def _with_gradient(tensor: torch.Tensor) -> Iterator[tuple[Role, torch.Tensor]]:
    yield ("tensor", id(tensor)), tensor
    if tensor.is_leaf and tensor.grad is not None:
        yield ("grad", id(tensor)), tensor.grad
