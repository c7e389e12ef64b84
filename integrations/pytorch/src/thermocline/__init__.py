# SPDX-License-Identifier: Apache-2.0
"""Thermocline from Python: what the library in this process does, and what it is told.

The library comes into a process by preload (``thermocline run -- python train.py``). Where it is not there, every
function here says so by ``NotLoadedError``; ``is_loaded()`` asks first. Nothing here needs PyTorch;
``thermocline.torch`` does.
"""

from ._library import (
    NotLoadedError,
    ThermoclineError,
    is_active,
    is_loaded,
    on_out_of_memory,
    pin,
    reset_peaks,
    statistics,
    step,
    trim,
    version,
)

__all__ = [
    "NotLoadedError",
    "ThermoclineError",
    "is_active",
    "is_loaded",
    "on_out_of_memory",
    "pin",
    "reset_peaks",
    "statistics",
    "step",
    "trim",
    "version",
]
