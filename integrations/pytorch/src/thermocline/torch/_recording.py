# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch allocates and computes, as a trace that `thermocline replay`, `bound`, `tune` and `estimate` read.

Operators are seen where PyTorch dispatches them, below autograd, so backward and optimizer are there as well. A buffer
is a storage: it ends when nothing refers to it any more, the autograd graph included, which is PyTorch's own moment of
giving memory back. On the *meta* device tensors have shapes and no contents: a step of any model is recorded in a
second, on a machine without a GPU.

What is counted: floating point operations by torch.utils.flop_counter (matrix multiplies, convolutions, attention; 0 for
all others), and the bytes of every tensor that an operator reads or writes.

What a trace from the meta device does not have: workspaces and algorithms of cuDNN and cuBLAS, kernels that a GPU would
fuse (foreach optimizers), measured times, other streams. Attention is fused as on a GPU (_attention.py). record() writes what
a buffer is into its tag: `parameter NAME`, `gradient NAME`, `optimizer NAME` (of the parameter), `input`, `activation MODULE` for what
forward makes, `temporary` for the rest.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from .. import _library
from ._attention import Watch, fused_attention
from ._known_values import KnownValues
from ._slices import slices_of
from ._trace import TraceWriter


class Named(Protocol):
    """Says what is being allocated."""

    def tag(self) -> str: ...


def _written(function: torch._ops.OpOverload, arguments: tuple, keywords: dict[str, Any]) -> list[torch.Tensor]:
    """The arguments that the operator's schema says it changes."""
    tensors: list[torch.Tensor] = []
    for i, declared in enumerate(function._schema.arguments):
        if declared.alias_info is None or not declared.alias_info.is_write:
            continue
        value = arguments[i] if i < len(arguments) else keywords.get(declared.name)
        tensors += [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return tensors


def _tensors(values: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _bytes_of(tensor: torch.Tensor) -> int:
    # An expanded tensor has more elements than its storage has room for.
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


class Recording(TorchDispatchMode):
    """Writes down what is dispatched on this thread while it is entered. See recording()."""

    def __init__(self, writer: TraceWriter, *, device: str | None = None, naming: Named | None = None, slices: bool = False) -> None:
        """device: only memory of this type of device is recorded. naming: asked for the tag of what is allocated. slices: operators that
        may be split are marked."""
        super().__init__()
        self._writer = writer
        self._device = device
        self._naming = naming
        self._slices = slices
        self._numbers: dict[int, int] = {}  # id of a live storage -> its buffer
        self._ended = False
        self._values = KnownValues()

    @property
    def writer(self) -> TraceWriter:
        return self._writer

    def number(self, tensor: torch.Tensor) -> int:
        """The number of the tensor's buffer, which must be recorded."""
        found = self._number(tensor, "")
        assert found is not None
        return found

    def step(self) -> None:
        """A training step ends here."""
        self._writer.step()

    def name(self, tensors: Any, tag: str) -> None:
        """Names the buffers of tensors, in any nesting, by their role in the program: buffers that have been or are allocated in this step."""
        for number in self._buffers_of(_tensors(tensors), tag):
            self._writer.tag(number, tag)

    def input(self, tensors: Any) -> None:
        """Records uploads for the step: tensors, in any nesting, whose contents are now there."""
        found = [tensor for tensor in _tensors(tensors) if self._is_recorded(tensor)]
        writes = self._buffers_of(found)
        self.name(found, "input")
        if writes:
            self._writer.operator("upload", [], writes, 0, sum(map(_bytes_of, found)))

    def end(self) -> None:
        """Frees that come later are not written any more."""
        self._ended = True

    def __torch_dispatch__(
        self, function: torch._ops.OpOverload, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        keywords = kwargs or {}
        answer = self._values.answer(function, args)
        if answer is not None:
            return answer
        reads = _tensors((args, keywords))
        changed = _written(function, args, keywords)
        # Before the operator runs: a buffer that it reads was there before those that it makes, and they are allocated in that order.
        read_buffers = self._buffers_of(reads)
        out = function(*args, **keywords)
        results = _tensors(out)
        self._values.follow(function, args, keywords, out, changed)
        known = {id(tensor.untyped_storage()) for tensor in reads}
        made = [tensor for tensor in results if id(tensor.untyped_storage()) not in known]
        writes = self._buffers_of([*changed, *made])
        if not writes or self._is_allocation(function):
            return out  # a view, or memory without contents
        # An argument named `out` is written and not read.
        only_written = self._buffers_of(_tensors(keywords.get("out", ())))
        slices = slices_of(function, args, keywords, out, changed) if self._slices else None
        self._writer.operator(
            function._schema.name.split("::")[-1],
            [buffer for buffer in read_buffers if buffer not in only_written],
            writes,
            self._flops(function, args, keywords, out),
            sum(map(_bytes_of, self._distinct(filter(self._is_recorded, [*reads, *made])))),
            slices=slices.count if slices is not None else 0,
            split=[] if slices is None else self._buffers_of([t for t in [*reads, *changed, *made] if id(t.untyped_storage()) in slices.storages]),
        )
        return out

    def _is_recorded(self, tensor: torch.Tensor) -> bool:
        return self._device is None or tensor.device.type == self._device

    @staticmethod
    def _is_allocation(function: torch._ops.OpOverload) -> bool:
        return function._schema.name in ("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty")

    @staticmethod
    def _distinct(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        return list({id(tensor.untyped_storage()): tensor for tensor in tensors}.values())

    @staticmethod
    def _flops(function: torch._ops.OpOverload, args: tuple, keywords: dict[str, Any], out: Any) -> int:
        count = flop_registry.get(function._overloadpacket)
        return int(count(*args, **keywords, out_val=out)) if count is not None else 0

    def _buffers_of(self, tensors: list[torch.Tensor], tag: str = "") -> list[int]:
        """Distinct, in order; storages without bytes are no buffers. tag: of those that are new."""
        return list(dict.fromkeys(n for n in (self._number(tensor, tag) for tensor in tensors) if n is not None))

    def _number(self, tensor: torch.Tensor, tag: str) -> int | None:
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0 or not self._is_recorded(tensor):
            return None
        key = id(storage)  # PyTorch keeps the one object as long as the storage lives
        if key not in self._numbers:
            if not tag and self._naming is not None:
                tag = self._naming.tag()
            self._numbers[key] = self._writer.allocate(storage.nbytes(), tag)
            weakref.finalize(storage, self._free, key).atexit = False
        return self._numbers[key]

    def _free(self, key: int) -> None:
        number = self._numbers.pop(key)
        if not self._ended:
            self._writer.free(number)


_entered: list[Recording] = []


def step() -> None:
    """A training step ends here: for the library, which plans with fewer steps where it is told, and for a recording
    that is under way. Where there is neither, nothing happens."""
    if _library.is_active():
        _library.step()
    for mode in _entered:
        mode.step()


@contextmanager
def recording(path: str | os.PathLike[str], **header: Any) -> Iterator[Recording]:
    """Everything that PyTorch does on this thread inside the context becomes the trace `path`, whatever the device.

    Call ``step()`` of what is yielded where a step ends; state that was made before is taken in at its first use. Further
    keywords go to the trace's first line. Where the block raises, no file is left.
    """
    with recording_into(path, header) as mode:
        yield mode


@contextmanager
def recording_into(
    path: str | os.PathLike[str], header: dict[str, Any], *, take_attention: Callable[[Recording], Watch] | None = None, **options: Any
) -> Iterator[Recording]:
    writer = TraceWriter(path, {"source": f"torch {torch.__version__}", **header})
    mode = Recording(writer, **options)
    try:
        _entered.append(mode)
        with mode, fused_attention(*([take_attention(mode)] if take_attention is not None else [])):
            yield mode
    except BaseException:
        mode.end()
        writer.discard()
        raise
    finally:
        _entered.remove(mode)
    mode.end()
    writer.close()
