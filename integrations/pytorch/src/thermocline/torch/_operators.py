# SPDX-License-Identifier: Apache-2.0
"""Facts about PyTorch's operators as they are dispatched below autograd: what they write, whether they draw random numbers, and
whether running one again on the same inputs gives the same bits and changes nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from ._reads import storage_under

# An operator that has neither of these tags or names is a function of its arguments.
_OURS = ("aten", "prims", "torchvision")
# Contents are undefined, or come from outside.
_ONCE = {
    "aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided", "aten::empty_permuted",
    "aten::set_", "aten::resize_", "aten::resize_as_", "aten::record_stream", "aten::_local_scalar_dense", "aten::from_file",
    "aten::_cudnn_init_dropout_state",
}  # fmt: skip
_ALLOCATES = {name for name in _ONCE if "empty" in name}
# Their schemas do not say that they write these arguments while training (argument 5).
_NORMS = {"aten::native_batch_norm": (3, 4), "aten::cudnn_batch_norm": (3, 4), "aten::miopen_batch_norm": (3, 4)}
# The old contents do not matter where the whole storage is written.
_OVERWRITES = {
    "aten::fill_", "aten::zero_", "aten::copy_", "aten::normal_", "aten::uniform_", "aten::bernoulli_", "aten::random_",
    "aten::exponential_", "aten::log_normal_", "aten::cauchy_", "aten::geometric_",
}  # fmt: skip
PLAIN = (torch.Tensor, torch.nn.Parameter)
DETACH = torch.ops.aten.detach.default
_CLONE = torch.ops.aten.clone.default


@dataclass(frozen=True)
class Facts:
    """Facts about one overload."""

    name: str
    writes: tuple[tuple[int, str], ...]  # arguments that the schema says it changes: position and keyword
    norm: tuple[int, ...]  # arguments that it changes while it trains
    random: bool
    allocates: bool
    overwrites: bool
    refusal: str  # why it may not run again; "": it may


_facts: dict[Any, Facts] = {}


def facts_of(function: torch._ops.OpOverload) -> Facts:
    """Thread-safe: two threads that come at once find the same."""
    known = _facts.get(function)
    if known is None:
        known = _facts[function] = _find(function)
    return known


def _find(function: torch._ops.OpOverload) -> Facts:
    schema = function._schema
    name = schema.name
    writes = tuple(
        (i, argument.name)
        for i, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    refusal = ""
    if name.split("::")[0] not in _OURS:
        refusal = "it is not PyTorch's own"
    elif name in _ONCE:
        refusal = "its result is not a function of its arguments"
    return Facts(
        name=name,
        writes=writes,
        norm=_NORMS.get(name, ()),
        random=torch.Tag.nondeterministic_seeded in function.tags,
        allocates=name in _ALLOCATES,
        overwrites=name in _OVERWRITES,
        refusal=refusal,
    )


def tensors_in(values: Any) -> list[torch.Tensor]:
    """In any nesting of tuples, lists and dictionaries, in order."""
    found: list[torch.Tensor] = []
    _collect(values, found)
    return found


def _collect(value: Any, found: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nesting with change(leaf) in place of every leaf."""
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(item, change) for item in value) if type(value) in (tuple, list) else change(value)
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return change(value)


def is_plain(tensor: torch.Tensor) -> bool:
    """Nothing but a view of bytes: dtype, sizes, strides and an offset say everything."""
    return (
        type(tensor) in PLAIN
        and tensor.layout is torch.strided
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not tensor.is_quantized
        and not tensor.is_nested
    )


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """None where there is none, as with sparse tensors, or nothing is in it."""
    if tensor.layout is not torch.strided:
        return None
    storage = storage_under(tensor)
    return storage if storage.nbytes() else None


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The plain tensors that one without a storage of its own consists of: a sparse one, or a wrapper such as a jagged nested one."""
    if hasattr(tensor, "__tensor_flatten__"):
        return [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def storages_in(values: Any) -> list[torch.UntypedStorage]:
    """The storages of all tensors in any nesting, each once, in order; sparse tensors and wrappers have those of their parts."""
    found: dict[int, torch.UntypedStorage] = {}
    for tensor in tensors_in(values):
        for part in (tensor,) if type(tensor) in PLAIN and tensor.layout is torch.strided else _parts(tensor) or (tensor,):
            storage = storage_of(part)
            if storage is not None:
                found.setdefault(storage._cdata, storage)
    return list(found.values())


def written_arguments(facts: Facts, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The arguments that the operator changes, in order."""
    found: list[torch.Tensor] = []
    for position, name in facts.writes:
        _collect(args[position] if position < len(args) else kwargs.get(name), found)
    if facts.norm and len(args) > 5 and args[5]:
        for position in facts.norm:
            _collect(args[position], found)
    return found


def covers_storage(tensor: torch.Tensor) -> bool:
    """Whether its elements are all bytes of its storage, each once."""
    if tensor.numel() * tensor.element_size() != storage_under(tensor).nbytes():
        return False
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.size(), strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def overwritten(facts: Facts, changed: list[torch.Tensor]) -> set[int]:
    """The _cdata of the storages that the operator changes and whose old contents do not matter."""
    return {storage_under(t)._cdata for t in changed if facts.overwrites and covers_storage(t)}


def copied_whole(function: Any, args: tuple, out: Any) -> torch.Tensor | None:
    """The tensor whose storage has, byte for byte, what the storage of `out` has, because the operator made `out` of it; None: there is none.
    Autograd copies so what an operator in place is about to change and backward needs."""
    if function is not _CLONE:
        return None
    source = args[0]
    if not (is_plain(source) and is_plain(out)) or storage_of(source) is None or storage_of(out) is None:
        return None
    same = source.dtype == out.dtype and source.size() == out.size() and source.stride() == out.stride()
    return source if same and covers_storage(source) and covers_storage(out) else None


def fresh_storages(out: Any, known: Iterable[torch.UntypedStorage]) -> list[torch.UntypedStorage]:
    """The storages of results that are none of `known`, each once, in order."""
    seen = {storage._cdata for storage in known}
    return [storage for storage in storages_in(out) if storage._cdata not in seen]
