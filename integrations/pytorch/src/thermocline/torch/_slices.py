# SPDX-License-Identifier: Apache-2.0
"""Which operators may be split over their first dimension (docs/recording.md, operators that may be split), and which of their operands are split
with them. Known by name, arguments, shapes and strides; an operator that is not known, or whose operands do not lie in memory as is needed,
has no mark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

# As many as the trace format allows.
_MOST_SLICES = 1024


@dataclass(frozen=True)
class Slices:
    count: int
    storages: frozenset[int]  # ids of those that are split


@dataclass(frozen=True)
class _Rule:
    """Positions of the arguments and of the results that are split. Whole results accumulate: `sums`."""

    arguments: tuple[int, ...]
    results: tuple[int, ...] = (0,)
    sums: tuple[int, ...] = ()
    holds: Callable[[tuple], bool] = lambda arguments: True
    # Each slice of the result can be computed from whole arguments.
    alone: bool = False


def _not_over_rows(dimension_at: int) -> Callable[[tuple], bool]:
    return lambda arguments: arguments[dimension_at] % max(arguments[0].dim(), 1) != 0


def _normalizes_within_rows(shape_at: int, of: int) -> Callable[[tuple], bool]:
    return lambda arguments: len(arguments[shape_at]) < arguments[of].dim()


def _is_batch_of(dimensions: int, at: int = 0) -> Callable[[tuple], bool]:
    """Pools take one image without a batch, too."""
    return lambda arguments: arguments[at].dim() == dimensions


def _joins_other_dimensions(arguments: tuple) -> bool:
    tensors = arguments[0]
    return (arguments[1] if len(arguments) > 1 else 0) % max(tensors[0].dim(), 1) != 0


# Batch norm is not here: in training each image depends on all.
_RULES = {
    "aten::mm": _Rule((0,), alone=True),
    "aten::addmm": _Rule((1,), holds=lambda arguments: arguments[0].dim() < 2, alone=True),
    "aten::bmm": _Rule((0, 1), alone=True),
    "aten::cat": _Rule((0,), holds=_joins_other_dimensions, alone=True),
    "aten::convolution": _Rule((0,), holds=lambda arguments: arguments[0].dim() == arguments[1].dim()),
    "aten::convolution_backward": _Rule((0, 1), (0,), (1, 2), lambda arguments: arguments[1].dim() == arguments[2].dim()),
    "aten::_softmax": _Rule((0,), holds=_not_over_rows(1)),
    "aten::_log_softmax": _Rule((0,), holds=_not_over_rows(1)),
    "aten::_softmax_backward_data": _Rule((0, 1), holds=_not_over_rows(2)),
    "aten::_log_softmax_backward_data": _Rule((0, 1), holds=_not_over_rows(2)),
    "aten::native_layer_norm": _Rule((0,), (0, 1, 2), holds=_normalizes_within_rows(1, 0)),
    "aten::native_layer_norm_backward": _Rule((0, 1, 3, 4), (0,), (1, 2), _normalizes_within_rows(2, 1)),
    "aten::max_pool2d_with_indices": _Rule((0,), (0, 1), holds=_is_batch_of(4)),
    "aten::max_pool2d_with_indices_backward": _Rule((0, 1, 7), holds=_is_batch_of(4)),
    "aten::nll_loss_backward": _Rule((1, 2), holds=lambda arguments: arguments[1].dim() == 2 and arguments[4] != 0),
}


def slices_of(
    function: torch._ops.OpOverload, arguments: tuple, keywords: dict[str, Any], out: Any, changed: Iterable[torch.Tensor]
) -> Slices | None:
    results = out if isinstance(out, (tuple, list)) else (out,)
    if keywords.get("out") is not None:
        return None
    if torch.Tag.pointwise in function.tags:
        found = _pointwise(function, arguments, keywords, results, changed)
    else:
        found = _by_rule(function._schema.name, arguments, keywords, results, changed)
        if found is None or _divided(*found) is None:
            found = _alone(function._schema.name, arguments, keywords, results, changed)
    return None if found is None else _divided(*found)


def _pointwise(
    function: torch._ops.OpOverload, arguments: tuple, keywords: dict[str, Any], results: Iterable[Any], changed: Iterable[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
    if torch.Tag.nondeterministic_seeded in function.tags:
        return None
    written = [*_tensors(results), *changed]
    if not written or any(tensor.dim() == 0 for tensor in written):
        return None
    shape = written[0].shape
    if any(tensor.shape != shape for tensor in written):
        return None
    split, whole = list(written), []
    for tensor in _tensors((arguments, keywords)):
        if tensor.shape == shape:
            split.append(tensor)
        elif tensor.dim() < len(shape) or tensor.shape[0] == 1 < shape[0]:
            whole.append(tensor)  # broadcast over the rows
        else:
            return None
    return split, whole


def _by_rule(
    name: str, arguments: tuple, keywords: dict[str, Any], results: tuple, changed: Iterable[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
    rule = _RULES.get(name)
    if rule is None or any(True for _ in changed) or any(True for _ in _tensors(keywords)) or len(arguments) <= max(rule.arguments):
        return None
    if not rule.holds(arguments):
        return None
    split = [tensor for at in rule.arguments for tensor in _tensors(arguments[at])]
    whole = [tensor for at, one in enumerate(arguments) if at not in rule.arguments for tensor in _tensors(one)]
    for at, result in enumerate(results):
        if isinstance(result, torch.Tensor):
            if at in rule.results:
                split.append(result)
            elif at in rule.sums:
                whole.append(result)
            else:
                return None
    return split, whole


def _alone(
    name: str, arguments: tuple, keywords: dict[str, Any], results: tuple, changed: Iterable[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
    """The result over its first dimension that is longer than 1, with all arguments whole."""
    rule = _RULES.get(name)
    if rule is None or not rule.alone or any(True for _ in changed) or len(results) != 1:
        return None
    result = results[0]
    if not isinstance(result, torch.Tensor) or not _lies_in_rows(result):
        return None
    ones = next((at for at, size in enumerate(result.shape) if size != 1), 0)
    return [result[(0,) * ones]], list(_tensors((arguments, keywords)))


def _divided(split: list[torch.Tensor], whole: list[torch.Tensor]) -> Slices | None:
    if not split or not all(isinstance(tensor, torch.Tensor) and _lies_in_rows(tensor) for tensor in split):
        return None
    rows = split[0].shape[0]
    if any(tensor.shape[0] != rows for tensor in split):
        return None
    storages = {id(tensor.untyped_storage()) for tensor in split}
    # A buffer in two roles, one of which needs all of it.
    if any(id(tensor.untyped_storage()) in storages for tensor in whole):
        return None
    count = next(n for n in range(min(rows, _MOST_SLICES), 0, -1) if rows % n == 0)
    return Slices(count, frozenset(storages)) if count > 1 else None


def _lies_in_rows(tensor: torch.Tensor) -> bool:
    """Whether the rows are equal ranges of all of the storage, one behind the other."""
    if tensor.dim() == 0 or tensor.numel() == 0 or tensor.storage_offset() != 0:
        return False
    if tensor.numel() * tensor.element_size() != tensor.untyped_storage().nbytes():
        return False
    row = tensor.numel() // tensor.shape[0]
    if tensor.shape[0] > 1 and tensor.stride(0) != row:
        return False
    # Within a row everything is dense: the last element of the first row is its last in memory.
    return sum((size - 1) * stride for size, stride in zip(tensor.shape[1:], tensor.stride()[1:])) == row - 1


def _tensors(nested: Any) -> Iterator[torch.Tensor]:
    if isinstance(nested, torch.Tensor):
        yield nested
    elif isinstance(nested, (tuple, list)):
        for each in nested:
            yield from _tensors(each)
    elif isinstance(nested, dict):
        yield from _tensors(list(nested.values()))
