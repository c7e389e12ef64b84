# SPDX-License-Identifier: Apache-2.0
"""record(): training steps of a model on the meta device, as a trace."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from ._alternatives import AttentionAlternatives
from ._autocast import no_autocast
from ._modules import ModuleStack
from ._recording import Recording, recording_into


def loss_of_outputs(outputs: Any, *_inputs: Any, **_keywords: Any) -> torch.Tensor:
    """The outputs' own loss, which Hugging Face's models have where labels are given, else the sum of all outputs."""
    own = getattr(outputs, "loss", None)
    if isinstance(own, torch.Tensor) and own.numel() == 1:
        return own
    floating = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
    if not floating:
        raise ValueError("the model's outputs have no floating point tensor; give a loss")
    return sum((tensor.sum() for tensor in floating[1:]), floating[0].sum())


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, torch.Tensor):
        return (inputs,), {}
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), {}
    if isinstance(inputs, Mapping) and all(isinstance(name, str) for name in inputs):
        return (), dict(inputs)
    raise TypeError(
        "inputs: the arguments of one forward pass as a tuple or a list, a dict by their names, or a tensor that is the only one;"
        f" not {type(inputs).__name__}"
    )


def _check(model: Any, optimizer: Any, path: Any, steps: int) -> None:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model: a torch.nn.Module is needed, not {type(model).__name__}")
    if optimizer is not None and not callable(optimizer):
        made = f"lambda parameters: torch.optim.{type(optimizer).__name__}(parameters, ...)"
        raise TypeError(f"optimizer: what makes one of the copy's parameters, such as {made}; not an optimizer that has been made")
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"the trace can not be written to {os.fspath(path)}: there is no folder {folder}")
    if steps < 1:
        raise ValueError(f"steps: at least one is needed, not {steps}")


def _on_meta(model: torch.nn.Module) -> torch.nn.Module:
    """A copy without contents. What modules share, such as tied weights, they share there, too."""
    shapes: dict[int, Any] = {}
    for parameter in model.parameters():
        shape = torch.empty_like(parameter, device="meta", requires_grad=False)
        shapes[id(parameter)] = torch.nn.Parameter(shape, requires_grad=parameter.requires_grad)
    for buffer in model.buffers():
        shapes[id(buffer)] = torch.empty_like(buffer, device="meta")
    return copy.deepcopy(model, shapes)


def record(
    model: torch.nn.Module,
    inputs: Any,
    path: str | os.PathLike[str],
    *,
    loss: Callable[..., torch.Tensor] = loss_of_outputs,
    optimizer: Callable[..., torch.optim.Optimizer] | None = None,
    steps: int = 4,
    alternatives: bool = False,
    slices: bool = False,
) -> None:
    """Records training steps of a model on shapes alone: no GPU is needed, and the model is not changed.

    model: any module; a copy of it on the meta device is trained. Code that looks at values (`.item()`, `if tensor:`) runs there where
    they follow from shapes alone (positions, masks made of them), and raises RuntimeError where they depend on inputs or weights.
    torch.autocast raises: it has no effect there.
    inputs: the arguments of one forward pass, a tuple or list with tensors in any nesting, a dict by their names, or the only one;
    uploaded anew in each step.
    loss: of (outputs, *inputs) a scalar, or of (outputs, **inputs) where they are a dict; the outputs' own `loss` where it is not given, else
    the sum of all outputs.
    optimizer: of the parameters an optimizer, such as ``lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)``; none: gradients
    are made and let go.
    steps: the first makes the optimizer's state; from the third on they are equal.
    alternatives: whether all ways of scaled_dot_product_attention are written (flash, efficient, math), so that `thermocline replay
    --alternatives` has a choice.
    slices: whether operators are marked that may be computed in parts of the batch, so that `thermocline replay --split` can do so.
    """
    _check(model, optimizer, path, steps)
    arguments, keywords = _arguments(inputs)
    twin = _on_meta(model)
    twin.train()
    shapes = tree_map_only(torch.Tensor, lambda tensor: tensor.detach().to("meta"), (arguments, keywords))
    trainer = optimizer(twin.parameters()) if optimizer is not None else None
    header = {"model": type(model).__name__, "device": "meta", "steps": steps}
    with ModuleStack(twin) as modules, no_autocast(), recording_into(path, header, device="meta", naming=modules, slices=slices, take_attention=AttentionAlternatives if alternatives else None) as mode:
        for name, state in [*twin.named_parameters(), *twin.named_buffers()]:
            mode.name(state, f"parameter {name}")
        for _ in range(steps):
            _train_step(mode, twin, shapes, loss, trainer)
            mode.step()


def _train_step(
    mode: Recording,
    model: torch.nn.Module,
    shapes: tuple[tuple[Any, ...], dict[str, Any]],
    loss: Callable[..., torch.Tensor],
    optimizer: torch.optim.Optimizer | None,
) -> None:
    arguments, keywords = tree_map_only(torch.Tensor, torch.empty_like, shapes)
    mode.input((arguments, keywords))
    loss(model(*arguments, **keywords), *arguments, **keywords).backward()
    for name, parameter in model.named_parameters():
        mode.name(parameter.grad, f"gradient {name}")
    if optimizer is not None:
        optimizer.step()
        for name, parameter in model.named_parameters():
            mode.name(optimizer.state.get(parameter), f"optimizer {name}")
    model.zero_grad(set_to_none=True)
