# SPDX-License-Identifier: Apache-2.0
"""Brings the extension (torch/extension.cc) into a program that knows nothing of this package. PyTorch itself calls begin() at the end of
`import torch`, wherever this package is installed: it is an entry point of the group `torch.backends`, which PyTorch loads from
2.5 on (TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps it from that)."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

from . import _library

# `thermocline run` sets it, unless it is told --no-frameworks or the user has chosen an allocator of PyTorch's.
_ASKED = "PYTORCH_NO_CUDA_MEMORY_CACHING"


def _say(text: str) -> None:
    print(f"thermocline: {text}", file=sys.stderr, flush=True)


def begin() -> None:
    """With the extension PyTorch's counters, snapshots and torch.OutOfMemoryError are as ever. Nothing where the library is not preloaded or
    `run` was told to leave frameworks alone; one line where it can not be. Never raises: the program imports PyTorch."""
    if os.environ.get(_ASKED, "0") in ("", "0") or not _library.sees_operations():
        return
    try:
        import torch

        if torch.version.cuda is None:
            return
        from .torch._plugin import bring_in_extension

        if shutil.which(shlex.split(os.environ.get("CXX", "c++"))[0]) is None:
            raise RuntimeError("there is no C++ compiler to build the extension with")
        bring_in_extension(before_building=lambda: _say("building the extension for this PyTorch, once (a minute or two)"))
    except Exception as error:  # noqa: BLE001
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        _say(f"PyTorch's memory statistics stay 0, and out of memory is a RuntimeError: {reason}")
