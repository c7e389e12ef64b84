# SPDX-License-Identifier: Apache-2.0
"""Writes all ways of attention into a trace (docs/recording.md, alternatives of operators): what PyTorch takes, and beside it, marked, the
operators and buffers of every other way, forward and backward.

The other ways run on shapes, too, on the same inputs: what they make stands for what was made already. What the way that was taken keeps
(its inputs, its result, statistics of rows) is kept in all of them, so that the others may need less than the trace says.
"""

from __future__ import annotations

from typing import Any

import torch

from ._attention import Ways
from ._recording import Recording

Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class AttentionAlternatives:
    """The arguments of fused_attention()."""

    def __init__(self, mode: Recording) -> None:
        self._mode = mode

    def __call__(self, ways: Ways, inputs: Inputs) -> torch.Tensor:
        names = list(ways)
        if len(names) < 2:
            return ways[names[0]](*inputs)
        writer = self._mode.writer
        choice = writer.choice("attention", names)
        with writer.alternative(choice, names[0], buffers=False) as taken:
            out = ways[names[0]](*inputs)
        others = {}
        for name in names[1:]:
            leaves = tuple(tensor.detach().requires_grad_(tensor.requires_grad) for tensor in inputs)
            with writer.alternative(choice, name, buffers=True) as operators:
                other = ways[name](*leaves)
            self._stands_for(other, out)
            self._write_the_same(taken, operators)
            if other.requires_grad:
                others[name] = (other, leaves)
        if out.grad_fn is not None:
            _Backward(self, choice, names[0], others).follow(out.grad_fn)
        return out

    def _stands_for(self, made: torch.Tensor, real: torch.Tensor) -> None:
        self._mode.writer.rename(self._mode.number(made), self._mode.number(real))

    def _write_the_same(self, taken: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
        """All alternatives write the same of what is there in each of them, such as the statistics of rows that only fused ones need. What
        is gone by now belongs to the one that was taken."""
        written = {buffer for event in other for buffer in event["w"]}
        missing = [buffer for event in taken for buffer in event["w"] if buffer not in written]
        other[-1]["w"] += [buffer for buffer in missing if not self._mode.writer.mark_freed(buffer, taken[0])]


class _Backward:
    """The backward pass of one attention."""

    def __init__(self, of: AttentionAlternatives, choice: int, taken: str, others: dict[str, tuple[torch.Tensor, Inputs]]) -> None:
        self._of = of
        self._writer = of._mode.writer
        self._choice = choice
        self._taken = taken
        self._others = others
        self._scope: Any = None
        self._operators: list[dict[str, Any]] = []

    def follow(self, node: torch.autograd.graph.Node) -> None:
        node.register_prehook(self._before)
        node.register_hook(self._after)

    def _before(self, _gradients: Any) -> None:
        self._scope = self._writer.alternative(self._choice, self._taken, buffers=False)
        self._operators = self._scope.__enter__()

    def _after(self, made: tuple[torch.Tensor | None, ...], gradients: tuple[torch.Tensor, ...]) -> None:
        self._scope.__exit__(None, None, None)
        for name, (other, leaves) in self._others.items():
            wanted = [i for i, leaf in enumerate(leaves) if leaf.requires_grad]
            with self._writer.alternative(self._choice, name, buffers=True) as operators:
                found = torch.autograd.grad(other, [leaves[i] for i in wanted], gradients[0])
            for i, gradient in zip(wanted, found, strict=True):
                if made[i] is not None:
                    self._of._stands_for(gradient, made[i])
            self._of._write_the_same(self._operators, operators)
        self._others.clear()
