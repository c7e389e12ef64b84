# SPDX-License-Identifier: Apache-2.0
"""Records one real step for the planner: every operator with what it reads and writes, when storages begin and end, what autograd saves and
asks for again, and until when the program itself holds what was saved."""

from __future__ import annotations

import time
import weakref
from bisect import bisect_left
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from ._kept import Kept, modified_in
from ._lineage import view_of
from ._operators import (
    DETACH,
    Facts,
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
from ._regions import may_overlap, region_of
from ._saved import Evicted, Store
from ._states import Role, States, needs_contents

# The execution keeps copies of state that a step changes in place, such as a running mean, up to this size.
ASIDE_BYTES = 64 << 10

# Work of one core in a microsecond, roughly: it matters only that arithmetic costs more there than copies do. Every operator costs a
# little more. Times by the clock of a first step would differ from run to run, and with them the plans.
_CPU_FLOPS, _CPU_BYTES, _CPU_MICROSECONDS = 20_000, 10_000, 2

MODIFIED = modified_in("fit")

# FSDP gathers parameters into storages that it empties and fills again behind PyTorch's operators: what reads them must not run at another time.
_GATHERS = ("fsdp", "c10d", "_c10d_functional")
GATHERED = "it reads what a collective filled, such as parameters that FSDP gathers and gives up again"


def cpu_microseconds(flops: int, moved_bytes: int) -> float:
    return _CPU_MICROSECONDS + flops / _CPU_FLOPS + moved_bytes / _CPU_BYTES


Version = tuple[int, int]  # a storage's number, and how many operators of the step have written it


@dataclass
class Operator:
    """One that does more than make a view or memory without contents."""

    ordinal: int  # among everything that was dispatched
    name: str
    reads: list[int]
    writes: list[int]  # numbers of storages: arguments that it changes, then results
    flops: int
    moved_bytes: int
    refusal: str  # why it must not run again
    microseconds: float  # 0: as the planner's device profile has it
    copies: list[int] = field(default_factory=list)  # ordinals of clones whose results it reads in place of what it changes


@dataclass
class Saved:
    """A version that autograd saved."""

    saves: int = 0  # of this version, those aside that went on to a later one
    unpacked_at: list[int] = field(default_factory=list)  # ordinals of the operators that are dispatched next


@dataclass
class StepRecord:
    """The record of one step. Bytes are of storages."""

    functions: list[Any] = field(default_factory=list)  # everything dispatched, by ordinal
    operators: list[Operator] = field(default_factory=list)
    # ("alloc", number), ("free", number), ("op", place), in order
    events: list[tuple[str, int]] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    before: list[int] = field(default_factory=list)  # storages that the step found
    results: list[int] = field(default_factory=list)  # storages that their operators made
    writers: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))  # place, index in its writes
    saved: dict[Version, Saved] = field(default_factory=dict)
    # Versions with saves that the next version has unchanged, because its operator wrote other parts of the storage: these count as its.
    carried: set[Version] = field(default_factory=set)
    held_until: dict[int, int] = field(default_factory=dict)  # by storage: place of an operator
    alive: dict[int, weakref.ref[torch.UntypedStorage]] = field(default_factory=dict)
    roles: dict[int, Role] = field(default_factory=dict)  # of storages that may wait in host memory between uses
    state_bytes: int = 0  # of all such, when the step began

    @property
    def before_bytes(self) -> int:
        return sum(self.sizes[number] for number in self.before)

    def alive_bytes(self) -> int:
        """The bytes that are alive now, of storages that the step knew."""
        return sum(self.sizes[number] for number, storage in self.alive.items() if storage() is not None)

    @cached_property
    def state_wanted_later(self) -> list[tuple[Version, int, int]]:
        """Where small state that the step found is changed or freed, and an operator may want the old contents when it runs again: the
        old version, the place of the operator that changes it, and the index among what that writes; -1: freed after the operator."""
        latest = self._latest_wish()
        freed = self._places_of_frees()
        found = []
        for number in self.before:
            if self.sizes[number] > ASIDE_BYTES:
                continue
            ends = list(self.writers.get(number, ()))
            if freed.get(number, -1) >= 0:
                ends.append((freed[number], -1))
            for version, (place, index) in enumerate(ends):
                if latest.get((number, version), 0) > self.operators[place].ordinal:
                    found.append(((number, version), place, index))
        return found

    def _places_of_frees(self) -> dict[int, int]:
        """By storage: the operator after which it was freed."""
        places, place = {}, -1
        for kind, number in self.events:
            if kind == "op":
                place = number
            elif kind == "free":
                places[number] = place
        return places

    def version_at(self, number: int, place: int) -> int:
        """The version that the operator at that place finds in the storage."""
        return bisect_left(self.writers.get(number, []), (place,))

    def _latest_wish(self) -> dict[Version, int]:
        """By version: the ordinal before which backward last asks for it, or for what is made from it."""
        latest = {version: max(saved.unpacked_at, default=0) for version, saved in self.saved.items()}
        for place in reversed(range(len(self.operators))):
            operator = self.operators[place]
            wish = max((latest.get((number, self.version_at(number, place) + 1), 0) for number in operator.writes), default=0)
            for number in operator.reads if wish else ():
                read = (number, self.version_at(number, place))
                latest[read] = max(latest.get(read, 0), wish)
        return latest

    def refusals(self) -> dict[str, str]:
        """By operator that must not run again, and has results that somebody saved: why."""
        found: dict[str, str] = {}
        for number, version in self.saved:
            if version == 0:
                continue
            operator = self.operators[self.writers[number][version - 1][0]]
            if operator.refusal:
                found[operator.name] = operator.refusal
        return found


class _Save:
    """Stands for the tensor in autograd; `alias` holds the storage for backward, so that the program's own hold is known."""

    __slots__ = ("__weakref__", "alias", "count", "layout", "number", "region", "version")

    def __init__(self, tensor: torch.Tensor, number: int, version: int) -> None:
        self.alias: torch.Tensor | None = tensor.detach()  # counts changes in place with the original; None: in a store
        self.layout = (tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset())
        self.count = tensor._version
        self.number = number
        self.version = version  # how many operators of the step had written the storage
        self.region = region_of(tensor)


@dataclass
class _Copy:
    """A storage with the contents of another one."""

    number: int
    version: int
    of_version: int
    ordinal: int  # of the operator that made it


class Recorder(TorchDispatchMode):
    """``with Recorder(): step()``; then `record` has it. For one thread at a time."""

    def __init__(
        self,
        *,
        measure: bool,
        known: StepRecord | None = None,
        states: States | None = None,
        most_bytes: int | None = None,
        store: Store | None = None,
        min_bytes: int = 0,
    ) -> None:
        """measure: operators are timed. known: a step before; what is left of it counts as there before this one. most_bytes: states leave,
        and with a store what autograd has saved, where the step would need more. min_bytes: what is smaller stays."""
        super().__init__()
        self.record = StepRecord()
        self._states = states
        self._store = store if most_bytes is not None else None
        self._most_bytes = most_bytes or 0
        self._min_bytes = min_bytes
        self._evicted: dict[int, Evicted] = {}  # by storage that autograd has saved: where its contents are meanwhile
        self._live_bytes = 0  # of what is no state
        self._most_made = 0  # bytes, by one operator
        if states is not None:
            self.record.state_bytes = states.bytes_of_all()
            states.noticed = self._note_state
            if states.host is not None:
                states.host.place = lambda: len(self.record.operators)
            states.room = None if most_bytes is None else lambda: most_bytes - self._live_bytes
        self._measure = measure
        self._numbers: dict[int, int] = {}  # by _cdata of a live storage
        self._finalizers: list[weakref.finalize] = []
        self._saves: dict[int, weakref.WeakSet[_Save]] = {}  # by storage
        self._open: dict[int, list[weakref.ref[_Save]]] = {}  # by storage: saved, and backward has not asked for it yet
        self._found: set[int] = set()  # storages of before the step: who holds them does not matter
        self._watched: set[int] = set()  # saved storages that somebody held when it was last looked
        # Storages that backward took: a node of backward may hold them beyond its last operator that reads them.
        self._taken: set[int] = set()
        self._gathered: set[int] = set()  # storages that collectives filled
        self._copies: dict[int, _Copy] = {}  # by storage: the last whole copy of it
        self._quiet = False
        self._ended = False
        self._unpacked: list[int] = []  # storages that backward took since the last operator
        for storage in known.alive.values() if known is not None else ():
            if (alive := storage()) is not None:
                self._number(alive, before=True)
        self._hooks = saved_tensors_hooks(self._pack, self._unpack)

    def __enter__(self) -> Recorder:
        super().__enter__()
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hooks.__exit__(*error)
        super().__exit__(*error)
        if self._states is not None:
            self._states.look()
        self._forget_dead_graphs()
        self._ended = True
        for finalizer in self._finalizers:
            finalizer.detach()

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if self._quiet or function is DETACH:
            return function(*args, **kwargs)
        record, states = self.record, self._states
        if states is not None and needs_contents(function):
            with self._own():
                states.need((args, kwargs))
        held, taken = self._look_who_holds(), self._look_what_backward_holds()
        facts = facts_of(function)
        read = self._known(storages_in((args, kwargs)), before=True)
        arguments = [t for t in written_arguments(facts, args, kwargs) if storage_of(t) is not None]
        changed = self._known(storages_in(arguments), before=True)
        blank = {self._numbers[key] for key in overwritten(facts, arguments)}
        if self._store is not None:
            self._make_room(max(self._most_made, sum(record.sizes[number] for number, _ in read)))
        ordinal = len(record.functions)
        record.functions.append(function)
        out, microseconds = self._timed(function, args, kwargs)
        fresh = self._known(fresh_storages(out, [storage for _, storage in read]), before=False)
        self._most_made = max(self._most_made, sum(storage.nbytes() for _, storage in fresh))
        if states is not None:
            with self._own():
                states.ran([storage for _, storage in (*read, *fresh)], [storage for _, storage in changed])
        is_use = any(n in record.roles for n, _ in read) and needs_contents(function)  # of a state, such as a view that counts its bytes
        self._note_holds(held, is_operator=bool(changed or fresh or is_use))
        if facts.allocates or not (changed or fresh or is_use):
            return out
        record.results += [number for number, _ in fresh]
        written = [number for number, _ in (*changed, *fresh)]
        to_change = [number for number, _ in changed if number not in blank and not facts.refusal]
        copies = self._copies_of(to_change, {number for number, _ in read})
        for index, number in enumerate(written):
            record.writers[number].append((len(record.operators), index))
        for number, storage in changed:
            self._carry(number, [t for t in arguments if storage_of(t) is storage])
        flops = self._flops(function, args, kwargs, out)
        refusal = self._refusal_of(facts, read, [*changed, *fresh], tensors_in((args, kwargs, out)))
        self._note_copy(function, args, out, ordinal)
        numbers = [number for number, _ in read] + self._unpacked
        self._unpacked = []
        moved_bytes = sum(record.sizes[n] for n in dict.fromkeys([*numbers, *written]))
        reads = [copies[n].number if n in copies else n for n in numbers]
        if not self._measure and all(storage.device.type == "cpu" for _, storage in (*changed, *fresh)):
            microseconds = cpu_microseconds(flops, moved_bytes)
        record.events.append(("op", len(record.operators)))
        record.operators.append(
            Operator(
                ordinal=ordinal,
                name=facts.name.split("::")[-1],
                reads=list(dict.fromkeys(n for n in (*reads, *taken) if n not in blank)),
                writes=list(dict.fromkeys(written)),
                flops=flops,
                moved_bytes=moved_bytes,
                refusal=refusal,
                microseconds=microseconds,
                copies=[copy.ordinal for copy in copies.values()],
            )
        )
        return out

    def _timed(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, float]:
        """Calls the function. Returns its result, and microseconds if these are measured."""
        begun = time.perf_counter() if self._measure else 0.0
        out = function(*args, **kwargs)
        return out, (time.perf_counter() - begun) * 1e6 if self._measure else 0.0

    def _note_copy(self, function: Any, args: tuple, out: Any, ordinal: int) -> None:
        source = copied_whole(function, args, out)
        if source is not None:
            number, of = self._numbers[storage_under(out)._cdata], self._numbers[storage_under(source)._cdata]
            writers = self.record.writers
            self._copies[of] = _Copy(number, len(writers[number]), len(writers.get(of, ())), ordinal)

    def _copies_of(self, changed: list[int], arguments: set[int]) -> dict[int, _Copy]:
        """By storage that is about to be changed: a copy of it that backward has anyway, so that the change can be made again of that. No copy
        that is an argument, too: the operator would read what it writes."""
        found = {}
        for number in changed:
            copy, writers = self._copies.get(number), self.record.writers
            if copy is None or copy.of_version != len(writers.get(number, ())) or copy.version != len(writers[copy.number]):
                continue
            if (copy.number, copy.version) in self.record.saved and copy.number not in arguments and self.record.alive[copy.number]() is not None:
                found[number] = copy
        return found

    def _refusal_of(self, facts: Facts, read: list[Any], written: list[Any], operands: list[torch.Tensor]) -> str:
        """Why it must not run again; "": it may. read, written: numbers and storages."""
        if facts.name.split("::")[0] in _GATHERS:
            self._gathered.update(number for number, _ in written)
        if facts.refusal or not written:
            return facts.refusal or "it makes nothing"
        if not all(map(is_plain, operands)):
            return "an operand is not a plain tensor"
        return GATHERED if any(number in self._gathered for number, _ in read) else ""

    @staticmethod
    def _flops(function: Any, args: tuple, kwargs: dict[str, Any], out: Any) -> int:
        count = flop_registry.get(function._overloadpacket)
        return int(count(*args, **kwargs, out_val=out)) if count is not None else 0

    def _known(self, storages: list[torch.UntypedStorage], *, before: bool) -> list[tuple[int, torch.UntypedStorage]]:
        return [(self._number(storage, before=before), storage) for storage in storages]

    def _make_room(self, needed: int) -> None:
        """Evicts tensors that autograd has saved and nobody else holds, the oldest first, until `needed` bytes more are within the budget. How much an
        operator will make is not known: it is guessed as the bytes that it reads, or as much as another one has made."""
        with self._own():
            self._store.release_copied()
            self._forget_dead_graphs()
            for number in list(self._open):
                if self._live_bytes + needed <= self._most_bytes:
                    break
                if number not in self._evicted and self._may_leave(number):
                    self._evict(number)

    def _forget_dead_graphs(self) -> None:
        for number in [number for number in self._evicted if not self._saves[number]]:
            del self._evicted[number]
            self.record.events.append(("free", number))

    def _may_leave(self, number: int) -> bool:
        saves = self._open_saves(number)
        return (
            bool(saves)
            and len(saves) == len(self._saves[number])
            and number not in self._watched
            and number not in self._found
            and number not in self.record.roles
            and self.record.sizes[number] >= self._min_bytes
            and not self._is_held(number)
            and all(save.alias._version == save.count for save in saves)
            and self._store.accepts(saves[0].alias)
        )

    def _evict(self, number: int) -> None:
        saves = self._open_saves(number)
        storage = storage_under(saves[0].alias)
        # From here on the storage is the store's: that it is freed is no event of the step.
        del self._numbers[storage._cdata]
        self._live_bytes -= storage.nbytes()
        self._evicted[number] = self._store.evict(view_of(storage, torch.uint8, (storage.nbytes(),), (1,), 0))
        for save in saves:
            save.alias = None

    def _fetch_saved(self, number: int) -> None:
        evicted = self._evicted.pop(number)
        storage = evicted.fetch()
        evicted.release()
        self._register(number, storage)
        for save in self._saves[number]:
            save.alias = view_of(storage, *save.layout)
            save.count = save.alias._version

    def _number(self, storage: torch.UntypedStorage, *, before: bool) -> int:
        number = self._numbers.get(storage._cdata)
        if number is None:
            number = len(self.record.sizes)
            self.record.sizes[number] = storage.nbytes()
            if before:
                self.record.before.append(number)
                self._found.add(number)
            else:
                self.record.events.append(("alloc", number))
            self._register(number, storage)
            self._note_role(number, storage)
        return number

    def _register(self, number: int, storage: torch.UntypedStorage) -> None:
        self._numbers[storage._cdata] = number
        self.record.alive[number] = weakref.ref(storage)
        self._live_bytes += storage.nbytes()
        finalizer = weakref.finalize(storage, self._free, storage._cdata)
        finalizer.atexit = False
        self._finalizers.append(finalizer)

    def _free(self, key: int) -> None:
        number = self._numbers.pop(key, None)
        if number is None:
            return
        self._live_bytes -= self.record.sizes[number] if number not in self.record.roles else 0
        if number in self._unpacked:  # its reader left no trace, because it made nothing
            self._unpacked.remove(number)
        if not self._ended:
            self.record.events.append(("free", number))

    def _note_role(self, number: int, storage: torch.UntypedStorage) -> None:
        role = self._states.role_of(storage) if self._states is not None else None
        if role is not None and number not in self.record.roles:
            self.record.roles[number] = role
            if number not in self.record.before:  # until now nobody looked for views of it
                self.record.held_until[number] = len(self.record.operators)
            self._live_bytes -= self.record.sizes[number]

    def _note_state(self, storage: torch.UntypedStorage) -> None:
        number = self._numbers.get(storage._cdata)
        if number is not None:
            self._note_role(number, storage)

    @contextmanager
    def _own(self) -> Any:
        """Within it, dispatched operators are the library's own."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def _open_saves(self, number: int) -> list[_Save]:
        return [save for save in (reference() for reference in self._open.get(number, ())) if save is not None]

    def _carry(self, number: int, written: list[torch.Tensor]) -> None:
        """The storage has just been written there: saves of other parts of it are now of the new version."""
        saved, version = self.record.saved, len(self.record.writers[number])
        regions = [region_of(tensor) for tensor in written]
        for save in self._open_saves(number):
            if save.version != version - 1 or any(may_overlap(save.region, region) for region in regions):
                continue
            old = saved[number, save.version]
            old.saves -= 1
            if old.saves == 0:
                del saved[number, save.version]
            self.record.carried.add((number, save.version))
            save.version = version
            saved.setdefault((number, version), Saved()).saves += 1

    def _look_who_holds(self) -> list[int]:
        """The saved storages that the program has held since they were saved."""
        for number in sorted(self._watched):
            if not self._is_held(number):  # nor can the program get hold of it again
                self._watched.discard(number)
        return sorted(self._watched)

    def _look_what_backward_holds(self) -> list[int]:
        """The storages that a node of backward holds: they stay while the next operator runs, which counts as a reader."""
        for number in sorted(self._taken):
            if not self._is_held(number):
                self._taken.discard(number)
        return sorted(self._taken)

    def _note_holds(self, held: list[int], *, is_operator: bool) -> None:
        """Until which operator the program holds these. A view needs no memory: what is held while it is made may leave before the next
        operator."""
        place = len(self.record.operators)
        for number in held:
            self.record.held_until[number] = place if is_operator else max(self.record.held_until.get(number, 0), place - 1)

    def _is_held(self, number: int) -> bool:
        """Whether somebody holds the storage beside the saves: it has a reference of its Python object, one for each save, and those of who
        holds it. Where no save is left, nobody else keeps it alive."""
        if number in self._evicted:
            return False
        save = next(iter(self._saves[number]), None)
        if save is None:
            return self.record.alive[number]() is not None
        return torch._C._storage_Use_Count(storage_under(save.alias)._cdata) > 1 + len(self._saves[number])

    def _pack(self, tensor: torch.Tensor) -> Any:
        storage = storage_of(tensor) if is_plain(tensor) else None
        if storage is None or (tensor.is_leaf and tensor.requires_grad):
            kept = Kept(tensor, MODIFIED)
            if self._states is not None:
                self._states.keep(kept)
            return kept
        self._quiet = True
        try:
            number = self._number(storage, before=True)
            save = _Save(tensor, number, len(self.record.writers[number]))
            self.record.saved.setdefault((number, save.version), Saved()).saves += 1
            self._saves.setdefault(number, weakref.WeakSet()).add(save)
            self._open.setdefault(number, []).append(weakref.ref(save))
            if number not in self._found:
                self._watched.add(number)
            return save
        finally:
            self._quiet = False

    def _unpack(self, save: Any) -> torch.Tensor:
        if isinstance(save, Kept):
            return save.unpack()
        if save.alias is None:
            with self._own():
                self._fetch_saved(save.number)
        if save.alias._version != save.count:
            raise RuntimeError(MODIFIED)
        self.record.saved[save.number, save.version].unpacked_at.append(len(self.record.functions))
        self._open.pop(save.number, None)
        if not self._is_held(save.number):
            self._watched.discard(save.number)
        if not self._ended:
            self._unpacked.append(save.number)
            if save.number not in self._watched and save.number not in self._found:
                self._taken.add(save.number)
        self._quiet = True
        try:
            return save.alias.detach()  # counts changes in place with the original
        finally:
            self._quiet = False
