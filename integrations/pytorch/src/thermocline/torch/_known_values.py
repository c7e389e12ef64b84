# SPDX-License-Identifier: Apache-2.0
"""Contents of tensors that follow from shapes alone, for programs on the meta device."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

# Masks and positions are small; more is not computed twice.
_MOST_ELEMENTS = 1 << 18
_READ = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default)


def _tensors(values: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _is_plain(function: torch._ops.OpOverload) -> bool:
    """It computes contents and does nothing else, as far as is known: operators from elsewhere may, and collectives do."""
    return function.namespace in ("aten", "prims") and not function._schema.name.startswith(("aten::empty", "aten::new_empty"))


class KnownValues:
    """Computes beside the meta device, on the CPU, what follows from shapes: positions by torch.arange, masks made of them.

    Models look at such values (`if mask.all():`) to choose the way on: Hugging Face's do in each forward pass. Contents of inputs, parameters
    and random numbers, and what is made of them, are not known.

    Invariant: a tensor that is known has the contents that it would have on a device. So what is changed by something unknown is forgotten
    with all views of its storage.
    """

    def __init__(self) -> None:
        self._known: dict[int, WeakTensorKeyDictionary] = {}  # by id of the live storage: its tensors, with their contents

    def answer(self, function: torch._ops.OpOverload, args: tuple) -> Any:
        """The value that the operator reads out of its tensors (`.item()`, `torch.equal`); None: it reads nothing, or not from the meta device.

        Raises RuntimeError where the value is not known.
        """
        if function not in _READ or all(tensor.device.type != "meta" for tensor in _tensors(args)):
            return None
        contents = [self._contents(tensor) for tensor in _tensors(args)]
        if any(content is None for content in contents):
            raise RuntimeError(
                "thermocline.torch.record: the model reads a value (.item(), `if tensor:`) that depends on the contents of its inputs or"
                " weights, and a recording on shapes has none; fit() and recording() record steps on real tensors"
            )
        return function(*contents)

    def follow(
        self, function: torch._ops.OpOverload, args: tuple, keywords: dict[str, Any], out: Any, changed: list[torch.Tensor]
    ) -> None:
        """The operator has run on the meta device and has made `out`, or changed some of its arguments."""
        results = _tensors(out)
        made = [*results, *changed]
        # Else it would run twice on the program's own tensors, or send something twice.
        is_on_meta = bool(made) and all(tensor.device.type == "meta" for tensor in made)
        is_known = is_on_meta and self._may_be_known(function, args, keywords, made)
        contents = self._computed(function, args, keywords) if is_known else None
        if contents is None:
            for tensor in changed:
                self._known.pop(id(tensor.untyped_storage()), None)
            return
        for result, content in zip(results, contents, strict=True):
            self._remember(result, content)

    def _contents(self, tensor: torch.Tensor) -> torch.Tensor | None:
        if tensor.device.type != "meta":
            return tensor
        of_storage = self._known.get(id(tensor.untyped_storage()))
        return None if of_storage is None else of_storage.get(tensor)

    def _may_be_known(
        self, function: torch._ops.OpOverload, args: tuple, keywords: dict[str, Any], made: list[torch.Tensor]
    ) -> bool:
        if torch.Tag.nondeterministic_seeded in function.tags or not _is_plain(function):
            return False
        if any(tensor.numel() > _MOST_ELEMENTS for tensor in made):
            return False
        return all(self._contents(tensor) is not None for tensor in _tensors((args, keywords)))

    def _computed(self, function: torch._ops.OpOverload, args: tuple, keywords: dict[str, Any]) -> list[torch.Tensor] | None:
        given = tree_map_only(torch.Tensor, self._contents, (args, keywords))
        positional, named = tree_map_only(torch.device, lambda _device: torch.device("cpu"), given)
        try:
            return _tensors(function(*positional, **named))
        except (RuntimeError, IndexError, NotImplementedError):
            return None  # what fails for these contents fails on a device, too, and is not for a recording to say

    def _remember(self, tensor: torch.Tensor, content: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if id(storage) not in self._known:
            self._known[id(storage)] = WeakTensorKeyDictionary()
            weakref.finalize(storage, self._known.pop, id(storage), None).atexit = False
        self._known[id(storage)][tensor] = content
