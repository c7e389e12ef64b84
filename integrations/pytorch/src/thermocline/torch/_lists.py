# SPDX-License-Identifier: Apache-2.0
"""Optimizers that take all parameters in one operator (`foreach`, PyTorch's default on GPUs): everything would have to be on the device at
once. Within a step whose states move they take one parameter after the other, which is PyTorch's own other way."""

from __future__ import annotations

from typing import Any

import torch


class OneByOne:
    """Between begin() and end(). Between steps the optimizers' groups are the program's."""

    def __init__(self, optimizers: list[torch.optim.Optimizer]) -> None:
        self._optimizers = optimizers
        self._before: list[tuple[dict[str, Any], Any]] = []
        self._hooks: list[Any] = []
        self.changed: set[str] = set()  # optimizers that would have worked on lists

    def begin(self) -> None:
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:  # a checkpoint that was loaded has its own
                if "foreach" in group and group["foreach"] is not False and not group.get("fused"):
                    self._before.append((group, group["foreach"]))
                    if group["foreach"] or any(parameter.is_cuda for parameter in group["params"]):
                        self.changed.add(type(optimizer).__name__)
                    group["foreach"] = False
            self._hooks.append(optimizer.register_state_dict_post_hook(self._as_the_program_has_it))

    def _as_the_program_has_it(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        """Corrects a state dict that is made within the step: its groups are copies, in the optimizer's order."""
        for group, saved in zip(optimizer.param_groups, state["param_groups"], strict=True):
            for changed, foreach in self._before:
                if changed is group:
                    saved["foreach"] = foreach

    def end(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for group, foreach in self._before:
            group["foreach"] = foreach
        self._before.clear()
