# SPDX-License-Identifier: Apache-2.0
"""One forward and backward pass of a module on real tensors, recorded and undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ._states import States
from ._step_record import Recorder, StepRecord
from ._training import loss_of_outputs


def trial(
    model: torch.nn.Module,
    inputs: tuple[Any, ...],
    keywords: dict[str, Any],
    loss: Callable[..., torch.Tensor] | None,
    recorder: Callable[[], Recorder],
    states: States | None,
) -> StepRecord:
    """Gradients, buffers and the random state are as before. recorder: makes one, when the states are entered. Raises RuntimeError where the
    module changed something else in place, and TypeError or ValueError for a loss that is none."""
    with _undone(model):
        buffers = {buffer.untyped_storage()._cdata for buffer in model.buffers()}
        with _entered(states):
            entered = recorder()
            with entered:
                outputs = model(*inputs, **keywords)
                _checked(loss(outputs, *inputs, **keywords) if loss is not None else loss_of_outputs(outputs, *inputs)).backward()
        _check(entered.record, buffers)
    return entered.record


@contextmanager
def _entered(states: States | None) -> Iterator[None]:
    if states is not None:
        states.enter()
    try:
        yield
    finally:
        if states is not None:
            states.exit()


def _checked(loss: Any) -> torch.Tensor:
    """Raises TypeError and ValueError where it can not go backward."""
    if not isinstance(loss, torch.Tensor):
        raise TypeError(f"loss: it has to return a tensor with one number, not {type(loss).__name__}")
    if loss.numel() != 1:
        raise ValueError(f"loss: one number is needed, and it returned a tensor of shape {tuple(loss.shape)}; take its mean or sum")
    if not loss.requires_grad:
        raise ValueError("loss: it depends on no parameter that requires a gradient")
    return loss


def _check(record: StepRecord, buffers: set[int]) -> None:
    for number in record.before:
        storage = record.alive[number]()
        if not record.writers.get(number) or storage is None or storage._cdata in buffers:
            continue
        operator = record.operators[record.writers[number][0][0]]
        raise RuntimeError(
            f"thermocline.torch.fit: forward or backward changes a tensor of {record.sizes[number]} bytes that is not the module's "
            f"(operator {operator.name}), so that a trial can not be undone: give no inputs, and the first real step is recorded"
        )


@contextmanager
def _undone(model: torch.nn.Module) -> Iterator[None]:
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    for parameter, _ in gradients:
        parameter.grad = None
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, contents in buffers:
                buffer.copy_(contents)
