# SPDX-License-Identifier: Apache-2.0
"""Which module of a model is at work, for the names of what it makes."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch


class ModuleStack:
    """Follows forward through the modules of one model while it is entered."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._names = {id(module): name for name, module in model.named_modules()}
        self._stack: list[str] = []
        self._hooks: list[Any] = []

    def tag(self) -> str:
        """`activation layers.0.attn` inside of forward, of the model itself `activation`; `temporary` elsewhere."""
        if not self._stack:
            return "temporary"
        return f"activation {self._stack[-1]}".rstrip()

    def __enter__(self) -> ModuleStack:
        hooks = torch.nn.modules.module
        self._hooks = [
            hooks.register_module_forward_pre_hook(self._begin),
            hooks.register_module_forward_hook(self._end, always_call=True),
        ]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for hook in self._hooks:
            hook.remove()

    def _begin(self, module: torch.nn.Module, _inputs: Any) -> None:
        if id(module) in self._names:
            self._stack.append(self._names[id(module)])

    def _end(self, module: torch.nn.Module, _inputs: Any, _outputs: Any) -> None:
        if id(module) in self._names and self._stack:
            self._stack.pop()
