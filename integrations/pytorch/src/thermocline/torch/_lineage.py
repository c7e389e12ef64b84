# SPDX-License-Identifier: Apache-2.0
"""The lineage of a value (the contents of one storage in one version): the operator that made it, and the values that this operator read.

A value that somebody *holds* can be had at any time: it is anchored (its storage is kept), or its operator may run again and everything
that this reads is held in turn. Operators are remembered without tensors, so a remembered operator keeps nothing alive by itself.

Not thread-safe: the execution has a lock.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from ._operators import (
    Facts,
    fresh_storages,
    mapped,
    storage_of,
    storages_in,
    tensors_in,
    written_arguments,
)
from ._saved import Evicted

# Beyond so many operators in a row a value is anchored, if it is still there.
_DEEPEST = 200


class Argument:
    """A tensor among the arguments of an operator: a view of a value's storage."""

    __slots__ = ("dtype", "offset", "size", "stride", "value")

    def __init__(self, value: Value, tensor: torch.Tensor) -> None:
        self.value = value
        self.dtype, self.size, self.stride, self.offset = tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset()

    def of(self, storage: torch.UntypedStorage) -> torch.Tensor:
        return view_of(storage, self.dtype, self.size, self.stride, self.offset)


def view_of(storage: torch.UntypedStorage, dtype: torch.dtype, size: Any, stride: Any, offset: int) -> torch.Tensor:
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, size, stride)


class Operator:
    """One that has run, and may run again."""

    __slots__ = ("args", "facts", "function", "grad", "inputs", "kwargs", "random")

    def __init__(
        self,
        function: Any,
        facts: Facts,
        args: tuple,
        kwargs: dict[str, Any],
        value_of: Callable[[torch.Tensor], Value],
        random: RandomState | None,
    ) -> None:
        """value_of: the value that a tensor is a view of, before the operator runs."""
        inputs: dict[int, Value] = {}

        def describe(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            if storage_of(leaf) is None:
                return leaf  # nothing is in it
            value = value_of(leaf)
            inputs[id(value)] = value
            return Argument(value, leaf)

        self.function = function
        self.facts = facts
        self.args = mapped(args, describe)
        self.kwargs = mapped(kwargs, describe)
        self.inputs = list(inputs.values())
        self.random = random
        self.grad = torch.is_grad_enabled()  # some kernels ask, such as oneDNN's recurrent layers

    def run(self, storages: dict[Value, torch.UntypedStorage]) -> list[torch.UntypedStorage]:
        """Once more, on these storages; what it changes has to be nobody else's. What it writes: arguments, then results."""

        def fill(leaf: Any) -> Any:
            return leaf.of(storages[leaf.value]) if isinstance(leaf, Argument) else leaf

        args, kwargs = mapped(self.args, fill), mapped(self.kwargs, fill)
        # Below autograd, as when it ran first: whatever the mode is, no graph is made.
        with torch._C._AutoDispatchBelowAutograd(), torch.set_grad_enabled(self.grad), self.random or nullcontext():
            out = self.function(*args, **kwargs)
        changed = {s._cdata: s for s in map(storage_of, written_arguments(self.facts, args, kwargs)) if s is not None}
        return [*changed.values(), *fresh_storages(out, storages_in((args, kwargs)))]

    def changes(self) -> set[int]:
        """Ids of the inputs that it changes."""
        found: list[Any] = [self.args[i] if i < len(self.args) else self.kwargs.get(name) for i, name in self.facts.writes]
        if self.facts.norm and len(self.args) > 5 and self.args[5]:
            found += [self.args[i] for i in self.facts.norm]
        changed: set[int] = set()
        mapped(found, lambda leaf: changed.add(id(leaf.value)) if isinstance(leaf, Argument) else None)
        return changed


Ready = Callable[[list[torch.UntypedStorage]], None]
Run = Callable[[Operator, dict["Value", torch.UntypedStorage]], list[torch.UntypedStorage]]


class RandomState:
    """The state of a generator before an operator drew from it. A `with` block restores that state, and the later one at its end."""

    __slots__ = ("_before", "_generator", "_state")

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        self._state = generator.get_state().numpy().tobytes()
        self._before = b""

    def __enter__(self) -> None:
        self._before = self._generator.get_state().numpy().tobytes()
        self._set(self._state)

    def __exit__(self, *error: object) -> None:
        self._set(self._before)

    def _set(self, state: bytes) -> None:
        self._generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def generator_of(args: tuple, kwargs: dict[str, Any]) -> torch.Generator:
    """The one that the operator draws from."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Generator):
            return value
    tensors = tensors_in((args, kwargs))
    device = tensors[0].device if tensors else torch.device(kwargs.get("device") or "cpu")
    if device.type == "cuda":
        index = device.index if device.index is not None else torch.cuda.current_device()
        return torch.cuda.default_generators[index]
    return torch.default_generator


class Blank:
    """In place of contents that are overwritten whole: memory of that size."""

    __slots__ = ("_bytes", "_device")

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._bytes = storage.nbytes()
        self._device = storage.device

    def clone(self) -> torch.UntypedStorage:
        return torch.empty(self._bytes, dtype=torch.uint8, device=self._device).untyped_storage()


class Value:
    """Contents of a storage."""

    __slots__ = (
        "__weakref__", "anchor", "copy", "entry", "holds", "holds_inputs", "storage_ref", "index", "kept", "operator", "pinned",
        "planned",
    )  # fmt: skip

    def __init__(self, storage: torch.UntypedStorage, operator: Operator | None = None, index: int = 0) -> None:
        self.storage_ref: weakref.ref[torch.UntypedStorage] | None = weakref.ref(storage)  # None: overwritten there
        self.operator = operator  # None: what nobody can make again
        self.index = index  # among what the operator writes
        self.holds = 0
        self.holds_inputs = False
        self.copy: Evicted | None = None  # what a store keeps of it
        self.anchor: torch.UntypedStorage | None = None
        self.pinned = False  # the anchor stays when nobody holds the value
        self.kept = False  # autograd has it
        self.planned: Any = None
        self.entry: Any = None

    def storage(self) -> torch.UntypedStorage | None:
        """Where the contents are, if they are anywhere."""
        if self.anchor is not None:
            return self.anchor
        return self.storage_ref() if self.storage_ref is not None else None

    def hold(self, depth: int = 0) -> bool:
        """From now on the value can be had, until let_go(). False: it can not, and nothing has changed."""
        if self.holds > 0 or self.anchor is not None or self.copy is not None:
            self.holds += 1
            return True
        storage = self.storage()
        if not (storage is not None and (self.kept or self.operator is None)):
            if self.operator is not None and depth < _DEEPEST and self._hold_inputs(depth):
                self.holds = 1
                return True
            if storage is None:
                return False
        self.anchor = storage
        self.holds = 1
        return True

    def _hold_inputs(self, depth: int) -> bool:
        held: list[Value] = []
        for value in self.operator.inputs:
            if not value.hold(depth + 1):
                for other in held:
                    other.let_go()
                return False
            held.append(value)
        self.holds_inputs = True
        return True

    def let_go(self) -> None:
        open_ = [self]
        while open_:
            value = open_.pop()
            value.holds -= 1
            if value.holds > 0:
                continue
            if value.holds_inputs:
                value.holds_inputs = False
                open_ += value.operator.inputs
            if not value.pinned and value.anchor is not None and value.storage_ref is not None and value.storage_ref() is value.anchor:
                value.anchor = None

    def pin(self, storage: torch.UntypedStorage) -> None:
        """Small contents of unknown origin, such as a constant of the program, which may end before anybody holds the value."""
        self.anchor = storage
        self.pinned = True

    def before_overwriting(self) -> None:
        """The storage gets other contents. Whoever holds the value can still have it afterwards."""
        storage = self.storage()
        if self.pinned and self.holds == 0:
            self.anchor = None
        self.pinned = False
        if self.holds > 0 and self.anchor is not None and self.storage_ref is not None and self.anchor is self.storage_ref():
            self.anchor = None
            if self.copy is None and (self.operator is None or not self._hold_inputs(0)):
                self.anchor = storage.clone()
        self.storage_ref = None


def make(targets: list[Value], run: Run, ready: Ready) -> dict[Value, torch.UntypedStorage]:
    """The targets, which somebody holds: from where they are, else by running what makes them again, in an order in which nothing is made
    twice and nothing stays longer than its last reader. run: runs an operator on storages. ready: fills
    those of them that are empty.

    Raises RuntimeError where a value can not be had, which a hold rules out.
    """
    order = _order(targets)
    uses: dict[Value, int] = dict.fromkeys(targets, 1)
    for operator in order:
        for value in operator.inputs:
            uses[value] = uses.get(value, 0) + 1
    made: dict[Value, torch.UntypedStorage] = {}
    wanted: dict[tuple[int, int], list[Value]] = {}
    for value in uses:
        if value.operator is not None:
            wanted.setdefault((id(value.operator), value.index), []).append(value)
    for operator in order:
        storages = {value: _found(value, made) for value in operator.inputs}
        ready([storage for storage in storages.values() if not isinstance(storage, Blank)])
        changed = operator.changes()
        for value in operator.inputs:
            shared = value not in made or uses[value] > 1
            if value.copy is not None and storages[value] is not value.storage():
                value.copy.release()
            elif id(value) in changed and shared:
                storages[value] = storages[value].clone()
            uses[value] -= 1
            if uses[value] == 0:
                made.pop(value, None)
        for index, storage in enumerate(run(operator, storages)):
            for value in wanted.get((id(operator), index), ()):
                if uses[value] > 0 and value.storage() is None:
                    made[value] = storage
        del storages
    found = {value: made[value] if value in made else value.storage() for value in targets}
    for value, storage in found.items():
        if storage is None:
            raise RuntimeError(f"thermocline.torch.fit: {value.operator.facts.name} has other results when it runs again")
    return found


def _found(value: Value, made: dict[Value, torch.UntypedStorage]) -> torch.UntypedStorage:
    """An empty storage, which counts as false, is a state that waits in host memory: it is filled later."""
    storage = made[value] if value in made else value.storage()
    return storage if storage is not None else value.copy.fetch()


def _order(targets: list[Value]) -> list[Operator]:
    """The operators that have to run, each behind those whose results it reads."""
    order: list[Operator] = []
    done: set[int] = set()
    open_ = [(value, False) for value in reversed(targets)]
    while open_:
        value, inputs_done = open_.pop()
        if value.storage() is not None or value.copy is not None:
            continue
        operator = value.operator
        if operator is None:
            raise RuntimeError("thermocline.torch.fit: a dropped value can not be made again; this is a defect of the library")
        if id(operator) in done:
            continue
        if inputs_done:
            done.add(id(operator))
            order.append(operator)
        else:
            open_.append((value, True))
            # As the planner has it (RecipeBuilder::make): what the operator changes is made last, so that it waits for nothing.
            changed = operator.changes()
            inputs = sorted(operator.inputs, key=lambda other: id(other) in changed)
            open_ += [(other, False) for other in reversed(inputs)]
    return order
