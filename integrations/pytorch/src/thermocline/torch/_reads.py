# SPDX-License-Identifier: Apache-2.0
"""Reads of a tensor's memory that are no operators of PyTorch, such as numpy(): while somebody watches, they are told first.

The methods of torch.Tensor are replaced meanwhile. A mode for functions would be PyTorch's own way; but where one is on, modules that look
for it (transformers in eval mode) take other kernels, whose bits are others.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

Told = Callable[[torch.Tensor, bool], None]

# Their results have the address, and are used later. All other ways call one of these: __array__, storage(), pickling,
# __cuda_array_interface__, share_memory_(), launches of Triton.
_HAND_OUT = ("numpy", "data_ptr", "const_data_ptr", "mutable_data_ptr", "untyped_storage", "__dlpack__")
# They are done with the memory when they return.
_CHANGE = ("apply_", "map_", "map2_")
_READ = ("tolist", "__repr__")  # printing turns modes off that would see its operators

_watchers: list[Told] = []
_originals: list[tuple[Any, str, Any]] = []  # None: the class had none of its own
_lock = threading.Lock()

# For the library itself: what it asks is no read.
storage_under: Callable[[torch.Tensor], torch.UntypedStorage] = torch._C.TensorBase.untyped_storage


def watch(told: Told) -> None:
    """told: is called with the tensor, and whether its memory is in others' hands from now on."""
    with _lock:
        _watchers.append(told)
        if len(_watchers) == 1:
            _replace()


def unwatch(told: Told) -> None:
    with _lock:
        _watchers.remove(told)
        while not _watchers and _originals:
            owner, name, original = _originals.pop()
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


def _replace() -> None:
    for names, hands_out in ((_HAND_OUT, True), (_CHANGE, True), (_READ, False)):
        for name in names:
            if hasattr(torch.Tensor, name):
                _wrap(torch.Tensor, name, hands_out=hands_out)
    for module in (torch, torch.utils.dlpack):
        _wrap(module, "to_dlpack", hands_out=True)


def _wrap(owner: Any, name: str, *, hands_out: bool) -> None:
    function = getattr(owner, name)
    _originals.append((owner, name, owner.__dict__.get(name)))

    @functools.wraps(function)
    def telling(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        for value in (tensor, *args):
            for told in tuple(_watchers) if isinstance(value, torch.Tensor) else ():
                told(value, hands_out)
        return function(tensor, *args, **kwargs)

    setattr(owner, name, telling)
