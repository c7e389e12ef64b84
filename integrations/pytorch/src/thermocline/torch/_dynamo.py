# SPDX-License-Identifier: Apache-2.0
"""Keeps Dynamo out of functions that run for each operator. PyTorch wraps `__torch_dispatch__()` of a mode for that, which costs more than the
function itself; here Dynamo is told once that it skips the code, and what that calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
except ImportError:
    set_code_exec_strategy = None


def can_skip() -> bool:
    """Whether this PyTorch can be told."""
    return set_code_exec_strategy is not None


def skip(function: Callable[..., Any]) -> None:
    set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
