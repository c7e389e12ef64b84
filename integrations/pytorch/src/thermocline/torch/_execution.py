# SPDX-License-Identifier: Apache-2.0
"""Runs a plan in eager mode. A dispatch mode counts operators and remembers those that may have to run again; hooks of saved tensors keep,
drop or offload by what the plan says of the value. Lineage is taken from the arguments that are really passed, never from the plan, so a
program that does something else than was recorded gets other memory and the same bits.

From the first operator on that is not the recorded one nothing more is dropped in that step: what autograd saves is offloaded, where there
is a store for it, or kept.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from ._dynamo import can_skip, skip
from ._kept import Kept, modified_in
from ._lineage import Blank, Operator, RandomState, Value, generator_of, make, view_of
from ._moving import Moving
from ._operators import (
    DETACH,
    PLAIN,
    copied_whole,
    facts_of,
    fresh_storages,
    is_plain,
    overwritten,
    storage_of,
    storages_in,
    tensors_in,
    written_arguments,
)
from ._reads import storage_under
from ._regions import Region, may_overlap, region_of
from ._saved import Evicted, Store
from ._states import States, needs_contents
from ._step_plan import StepPlan
from ._step_plan import Value as Planned
from ._streams import Made, use_here
from ._table import Writes

_NO_TABLE: list[Any] = []
_STRIDED = torch.strided
_detach = DETACH._op
MODIFIED = modified_in("fit")
LOST = (
    "thermocline.torch.fit: the step ended with an error, and what it had dropped until then is not made again: its graph can not be used any more"
)


class Counts:
    """Counts of one step. Bytes are of storages."""

    def __init__(self) -> None:
        self.dropped = self.dropped_bytes = 0
        self.offloaded = self.offloaded_bytes = 0
        self.reran: dict[str, int] = {}  # by operator
        self.not_droppable = 0  # planned so, and kept, because not everything that makes them again is there
        self.diverged_at: int | None = None  # ordinal of the first operator that was not the recorded one
        self.restored = 0  # of graphs that outlived the step

    @property
    def reran_operators(self) -> int:
        return sum(self.reran.values())


class _Entry:
    """A planned value that autograd has saved."""

    __slots__ = (
        "__weakref__", "evicted", "execution", "gap", "held", "holds_value", "is_lost", "made", "modified", "saves", "value", "waiting",
    )  # fmt: skip

    def __init__(self, execution: Execution, value: Value) -> None:
        self.execution = execution
        self.value = value
        self.gap = -1
        self.held: torch.UntypedStorage | None = None
        self.holds_value = False
        self.is_lost = False  # with the step's end
        self.made: Made | None = None  # what is held, if it has been made again or fetched
        self.evicted: Evicted | None = None
        self.waiting = 0  # saves that backward has not asked for
        self.saves: weakref.WeakSet[_Save] = weakref.WeakSet()
        self.modified = False

    def evict(self, gap: int, how: str) -> None:
        """Lets go of the contents; they stay where they can not be had again."""
        self.gap = gap
        storage = self.held if self.held is not None else self.value.storage()
        if storage is None:
            return
        counts = self.execution.counts
        if how == "offload" and self.execution.store is not None:
            if self.evicted is None:
                counts.offloaded += 1
                counts.offloaded_bytes += storage.nbytes()
                with self.execution.quiet():
                    self.evicted = self.value.copy = self.execution.store.evict(view_of(storage, torch.uint8, (storage.nbytes(),), (1,), 0))
        elif not self.holds_value:
            self.holds_value = self.value.hold()
            if not self.holds_value:
                counts.not_droppable += 1
                self.held = storage
                return
            counts.dropped += 1
            counts.dropped_bytes += storage.nbytes()
        self.held = None

    def part_with(self, written: list[Region]) -> list[_Save]:
        """Takes out the saves that a change of these parts of the storage leaves as they are."""
        found = [save for save in self.saves if not any(may_overlap(save.region(), region) for region in written)]
        for save in found:
            self.saves.discard(save)
            self.waiting -= not save.taken
        return found

    def adopt(self, saves: list[_Save]) -> None:
        """Saves of an earlier version, whose parts of the storage are the same in this one."""
        for save in saves:
            save.entry = self
            self.saves.add(save)
            self.waiting += not save.taken

    def is_there(self) -> bool:
        return self.held is not None or self.value.storage() is not None

    def restored(self, storage: torch.UntypedStorage) -> None:
        self.held = storage
        self.made = Made(storage)
        if self.value.storage_ref is None or self.value.storage_ref() is not storage:
            self.execution.moved(self.value, storage)

    def release(self) -> None:
        """Backward has everything it waited for; a second one may come."""
        if self.evicted is not None:
            self.held = None
            self.evicted.release()
        elif self.holds_value:
            self.held = None

    def __del__(self) -> None:
        if self.holds_value:
            with self.execution.lock:
                self.value.let_go()


class _Save:
    """Stands for the tensor in autograd."""

    __slots__ = ("__weakref__", "dtype", "entry", "offset", "size", "stride", "taken")

    def __init__(self, entry: _Entry, tensor: torch.Tensor) -> None:
        self.entry = entry
        self.dtype, self.size, self.stride, self.offset = tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset()
        self.taken = False
        entry.adopt([self])

    def region(self) -> Region:
        return Region.of(self.dtype.itemsize, self.size, self.stride, self.offset)

    def take(self) -> None:
        if not self.taken:
            self.taken = True
            self.entry.waiting -= 1
            if self.entry.waiting == 0:
                self.entry.release()

    def __del__(self) -> None:
        with self.entry.execution.lock:
            self.take()


class Execution(TorchDispatchMode):
    """One step under a plan: ``with Execution(plan, store): step()``. Entered once. Backward may run on autograd's threads."""

    def __init__(self, plan: StepPlan, table: list[Any], store: Store | None, min_bytes: int, states: States | None = None) -> None:
        """table: of make_table(). states: have been entered."""
        super().__init__()
        self.counts = Counts()
        self.store = store
        self.lock = threading.RLock()
        self._plan = plan
        self._table = table
        self._at = 0
        self._quiet = False
        self._keeps_others = store is None and states is None  # of what is not in self._values nothing has to be known
        self._min_bytes = min_bytes
        self._values: dict[int, Value] = {}  # by _cdata of the storage
        self._entries: dict[tuple[int, int], weakref.ref[_Entry]] = {}  # by the plan's key
        self._live_entries: weakref.WeakSet[_Entry] = weakref.WeakSet()
        self._copies: dict[int, tuple[weakref.ref[torch.UntypedStorage], Value]] = {}  # by _cdata of the storage that has the same contents
        self._hooks = saved_tensors_hooks(self._pack, self._unpack)
        self._states = states
        self._moving = Moving(plan, states) if states is not None and plan.moves is not None else None

    def __enter__(self) -> Execution:
        if self._moving is not None:
            self._moving.begin()
        if self._states is not None and self._states.host is not None:
            self._states.host.is_wanted, self._states.host.changes = self._is_held, self._changed_elsewhere
        super().__enter__()
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hooks.__exit__(*error)
        super().__exit__(*error)
        self._table = _NO_TABLE
        try:
            if error[0] is None:  # else memory may be what is short
                self._fetch()
        finally:
            self._let_go()
            self._values.clear()
            self._copies.clear()
            if self.store is not None:
                self.store.release_copied()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether PyTorch wraps __torch_dispatch__() in what keeps Dynamo out, at the price of a microsecond an operator."""
        return not can_skip()

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        at = self._at
        try:
            usual = self._table[at]
        except IndexError:
            usual = None
        if usual is function or (usual is not None and self._changes_nothing_known(usual, function, args)):
            self._at = at + 1
            if self._states is not None and self._states.may_need:
                self._need(function, args, kwargs)
            # Not function(): that is a function of Python around this one.
            return function._op(*args, **kwargs) if kwargs else function._op(*args)
        if function is DETACH:
            return _detach(*args)
        return self._unusual(function, args, kwargs or {})

    def _changes_nothing_known(self, usual: Any, function: Any, args: tuple) -> bool:
        """usual: what the table has there. Whether the operator is that one, and writes tensors of which nobody has to know."""
        if type(usual) is not Writes or usual.function is not function or self._states is not None:
            return False
        for position in usual.positions:
            tensor = args[position] if position < len(args) else self
            if tensor is None:
                continue
            if type(tensor) not in PLAIN or tensor.layout is not _STRIDED:
                return False
            key = storage_under(tensor)._cdata
            if key in self._values or key in self._copies:
                return False
        return True

    def _unusual(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if self._quiet:
            return function(*args, **kwargs)
        at = self._at
        functions = self._plan.functions
        if self.counts.diverged_at is None:
            if at >= len(functions) or functions[at] is not function:
                self.counts.diverged_at = at
                self._table = _NO_TABLE
                if self._moving is not None:
                    self._moving.give_up()
            else:
                self._at = at + 1
        planned = self.counts.diverged_at is None
        with self.lock:
            if self._states is not None:
                self._need(function, args, kwargs)
            out = self._run(at if planned and at in self._plan.recorded else None, function, args, kwargs)
            if self._states is not None:
                self._used(function, args, kwargs, out, at if planned else None)
            if planned:
                self._note_copy(at, function, args, out)
                self._after(at)
        return out

    def _note_copy(self, at: int, function: Any, args: tuple, out: Any) -> None:
        source = copied_whole(function, args, out) if at in self._plan.copies else None
        if source is None:
            return
        storage = storage_under(out)
        value = self.value_at(storage)
        if value is None:
            value = self._values[storage._cdata] = Value(storage)
        self._copies[storage_under(source)._cdata] = (weakref.ref(storage_under(source)), value)

    def _copy_of(self, storage: torch.UntypedStorage) -> Value | None:
        """A value with the contents that the storage has now."""
        reference, value = self._copies.get(storage._cdata, (None, None))
        if reference is None or reference() is not storage or value.storage_ref is None:
            return None
        copy = value.storage_ref()
        return value if copy is not None and self.value_at(copy) is value else None

    def _need(self, function: Any, args: tuple, kwargs: dict[str, Any] | None) -> None:
        if needs_contents(function):
            with self.quiet():
                self._states.need((args, kwargs))

    def _used(self, function: Any, args: tuple, kwargs: dict[str, Any], out: Any, at: int | None) -> None:
        read = storages_in((args, kwargs))
        changed = storages_in(written_arguments(facts_of(function), args, kwargs))
        with self.quiet():
            if self._moving is not None and at is not None:
                self._moving.made(at, [*changed, *fresh_storages(out, read)])
            self._states.ran(read, changed)

    def _run(self, at: int | None, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """at: where it stands in the plan, if it is to be remembered."""
        facts = facts_of(function)
        arguments = [t for t in written_arguments(facts, args, kwargs) if storage_of(t) is not None]
        changed = {storage_under(t)._cdata: storage_under(t) for t in arguments}
        operator = None
        if at is not None and not facts.refusal and all(map(is_plain, tensors_in((args, kwargs)))):
            with self.quiet():
                operator = self._remember(at, function, facts, args, kwargs, arguments)
        unchanged = {key: self._overwritten(storage, arguments) for key, storage in changed.items()}
        read = storages_in((args, kwargs))
        out = function(*args, **kwargs)
        for key in changed:
            self._copies.pop(key, None)
        if at is None:
            for key, storage in changed.items():
                self._values.pop(key, None)
                self._carry(storage, unchanged[key])
            return out
        written = [*changed.values(), *fresh_storages(out, read)]
        planned = self._plan.values.get(at, {})
        for index, storage in enumerate(written):
            value = self._values[storage._cdata] = Value(storage, operator, index)
            value.planned = planned.get(index)
            self._carry(storage, unchanged.get(storage._cdata, ()))
        return out

    def _remember(
        self, at: int, function: Any, facts: Any, args: tuple, kwargs: dict[str, Any], changed: list[torch.Tensor]
    ) -> Operator:
        random = None
        if facts.random:
            random = RandomState(generator_of(args, kwargs))
        whole = overwritten(facts, changed)
        indices = self._plan.aside.get(at, ())
        keys = dict.fromkeys(storage_under(t)._cdata for t in changed)
        aside = {key for index, key in enumerate(keys) if index in indices}
        arguments = {storage._cdata for storage in storages_in((args, kwargs))}

        pinned = self._plan.pinned.get(at, ())
        found: dict[int, None] = {}

        def value_of(tensor: torch.Tensor) -> Value:
            storage = storage_under(tensor)
            key = storage._cdata
            if key in whole and any(tensor is t for t in changed):
                blank = Value(storage)
                blank.storage_ref = None
                blank.anchor = Blank(storage)
                return blank
            value = self._copy_of(storage) if key in keys else None
            if value is not None and value.storage_ref()._cdata in arguments:
                value = None  # the operator would read what it writes
            if value is not None:  # that one stays as it is
                storage = value.storage_ref()
                key = storage._cdata
            else:
                value = self.value_at(storage)
            if value is None:
                value = self._values[key] = Value(storage)
            if key in aside and value.operator is None and value.anchor is None:
                value.anchor = storage.clone()
            found.setdefault(key)
            if list(found).index(key) in pinned and value.operator is None and value.anchor is None:
                value.pin(storage)
            return value

        return Operator(function, facts, args, kwargs, value_of, random)

    def value_at(self, storage: torch.UntypedStorage) -> Value | None:
        value = self._values.get(storage._cdata)
        if value is None or value.storage_ref is None or value.storage_ref() is not storage:
            return None  # an address comes again for another storage
        return value

    def _is_held(self, storage: torch.UntypedStorage) -> bool:
        value = self.value_at(storage)
        return value is not None and (value.holds > 0 or value.anchor is not None)

    def _changed_elsewhere(self, storage: torch.UntypedStorage) -> None:
        """The storage gets other contents. A value that is not held can not be had any more."""
        self._copies.pop(storage._cdata, None)
        if (value := self.value_at(storage)) is not None:
            value.before_overwriting()
            del self._values[storage._cdata]

    def moved(self, value: Value, storage: torch.UntypedStorage) -> None:
        """The value's contents are there from now on."""
        value.storage_ref = weakref.ref(storage)
        self._values[storage._cdata] = value

    def _overwritten(self, storage: torch.UntypedStorage, arguments: list[torch.Tensor]) -> list[_Save]:
        """The storage is about to be written where these arguments are views of it. Saves of other parts of it, for _carry()."""
        value = self.value_at(storage)
        if value is None:
            return []
        entry = value.entry() if value.entry is not None else None
        unchanged: list[_Save] = []
        if entry is not None and entry.held is storage and entry.waiting > 0:
            unchanged = entry.part_with([region_of(t) for t in arguments if storage_under(t) is storage])
            entry.modified = entry.waiting > 0
        with self.quiet():
            value.before_overwriting()
        return unchanged

    def _carry(self, storage: torch.UntypedStorage, saves: list[_Save]) -> None:
        """The storage was written elsewhere: earlier saves now mean its new value."""
        if not saves:
            return
        value = self.value_at(storage)
        if value is None:
            value = self._values[storage._cdata] = Value(storage)
        if value.planned is not None:
            self._entry_of(value, storage).adopt(saves)
            return
        entry = _Entry(self, value)
        value.entry = weakref.ref(entry)
        entry.held = storage
        entry.adopt(saves)

    def _after(self, at: int) -> None:
        if self._moving is not None:
            with self.quiet():
                self._moving.after_operator(at)
        for key, gap in self._plan.begins.get(at, ()):
            entry = self._entry_at(key)
            if entry is not None:  # also if backward had it: a graph that is retained asks again
                entry.evict(gap, entry.value.planned.gaps[gap].how)
        for key in self._plan.prefetches.get(at, ()):
            entry = self._entry_at(key)
            if entry is not None and entry.evicted is not None and not entry.is_there():
                with self.quiet():
                    entry.evicted.prefetch()

    def _entry_at(self, key: tuple[int, int]) -> _Entry | None:
        reference = self._entries.get(key)
        return reference() if reference is not None else None

    def _pack(self, tensor: torch.Tensor) -> Any:
        if self._keeps_others and type(tensor) in PLAIN and tensor.layout is _STRIDED and storage_under(tensor)._cdata not in self._values:
            return Kept(tensor, MODIFIED)
        with self.lock:
            if self.store is not None:
                self.store.release_copied()
            storage = storage_of(tensor) if is_plain(tensor) else None
            value = self.value_at(storage) if storage is not None else None
            if value is not None and value.planned is not None:
                self._use_here(storage)
                return _Save(self._entry_of(value, storage), tensor)
            if self.counts.diverged_at is not None and self._may_evict(tensor, storage):
                self._use_here(storage)
                return _Save(self._plain_entry(value, storage), tensor)
            if value is not None:
                value.kept = True
            kept = Kept(tensor, MODIFIED)
            if self._states is not None:
                self._states.keep(kept)
            return kept

    def _use_here(self, storage: torch.UntypedStorage) -> None:
        """The graph does not keep it until backward."""
        with self.quiet():
            use_here(storage)

    def _entry_of(self, value: Value, storage: torch.UntypedStorage) -> _Entry:
        entry = value.entry() if value.entry is not None else None
        if entry is None:
            entry = _Entry(self, value)
            planned: Planned = value.planned
            value.entry = weakref.ref(entry)
            self._entries[planned.key] = weakref.ref(entry)
            self._live_entries.add(entry)
            if planned.kept_first or self.counts.diverged_at is not None:
                entry.held = storage
            else:
                entry.evict(0, planned.gaps[0].how)
        return entry

    def _may_evict(self, tensor: torch.Tensor, storage: torch.UntypedStorage | None) -> bool:
        base = tensor if tensor._base is None else tensor._base
        return (
            self.store is not None
            and storage is not None
            and storage.nbytes() >= self._min_bytes
            and not (base.is_leaf and base.requires_grad)
            and not (self._states is not None and self._states.role_of(storage) is not None)
            and self.store.accepts(tensor)
        )

    def _plain_entry(self, value: Value | None, storage: torch.UntypedStorage) -> _Entry:
        """For what no plan knows: it is offloaded."""
        if value is None:
            value = self._values[storage._cdata] = Value(storage)
        entry = value.entry() if value.entry is not None else None
        if entry is None:
            entry = _Entry(self, value)
            value.entry = weakref.ref(entry)
            self._live_entries.add(entry)
            entry.evict(0, "offload")
        return entry

    def _unpack(self, save: Any) -> torch.Tensor:
        if isinstance(save, Kept):
            return save.unpack()
        with self.lock:
            entry = save.entry
            if entry.modified or entry.is_lost:
                raise RuntimeError(MODIFIED if entry.modified else LOST)
            was_held = entry.held is not None
            self._restore(entry)
            with self.quiet():
                if was_held and entry.made is not None:
                    entry.made.use_here(entry.held)
                tensor = view_of(entry.held, save.dtype, save.size, save.stride, save.offset)
            save.take()
            return tensor

    def _restore(self, entry: _Entry) -> None:
        if entry.held is not None:
            return
        if entry.is_there():
            entry.restored(entry.value.storage())
        elif entry.evicted is not None:
            with self.quiet():
                entry.restored(entry.evicted.fetch())
        else:
            self._make(entry)

    def _make(self, entry: _Entry) -> None:
        entries = []
        planned = entry.value.planned
        for key in self._plan.together.get(planned.key, {}).get(entry.gap, ()):
            other = self._entry_at(key)
            if other is entry or (other is not None and other.holds_value and not other.is_there()):
                entries.append(other)
        if entry not in entries:
            entries.append(entry)

        def run(operator: Operator, storages: dict[Value, torch.UntypedStorage]) -> list[torch.UntypedStorage]:
            self.counts.reran[operator.facts.name] = self.counts.reran.get(operator.facts.name, 0) + 1
            written = operator.run(storages)
            if self._moving is not None:
                self._moving.after_rerun()
            return written

        ready = self._states.need_storages if self._states is not None else lambda storages: None
        with self.quiet(), torch._C._DisableAutocast():
            made = make([one.value for one in entries], run, ready)
        for one in entries:
            one.restored(made[one.value])

    def _fetch(self) -> None:
        """Changes in place are not seen any more, so nothing may depend on others' contents."""
        with self.lock:
            for entry in list(self._live_entries):
                if entry.holds_value:
                    self._restore(entry)
                    self.counts.restored += 1

    def _let_go(self) -> None:
        with self.lock:
            for entry in list(self._live_entries):
                if entry.holds_value:
                    if entry.held is None:
                        entry.held = entry.value.storage()
                    entry.is_lost = entry.held is None and entry.evicted is None
                    entry.holds_value = False
                    entry.value.let_go()

    @contextmanager
    def quiet(self) -> Any:
        """Within it, dispatched operators are the library's own."""
        before, self._quiet = self._quiet, True
        table, self._table = self._table, _NO_TABLE
        try:
            yield
        finally:
            self._quiet = before
            self._table = table


if can_skip():
    skip(Execution.__torch_dispatch__)
