# SPDX-License-Identifier: Apache-2.0
"""Thermocline from Python: what the library in this process does, and what it is told.

The library comes into a process by preload (``thermocline run -- python train.py``), or by ``load()``, which opens the
one that this package carries. Where it is not there, every function here says so by ``NotLoadedError``;
``is_loaded()`` asks first. Nothing here needs PyTorch;
``thermocline.torch`` does.
"""

from ._library import (
    NotFoundError,
    NotLoadedError,
    ThermoclineError,
    prefetch,
    is_active,
    is_loaded,
    load,
    on_out_of_memory,
    path,
    pin,
    reset_peaks,
    sees_operations,
    evict,
    sleep,
    statistics,
    step,
    tag,
    tag_buffer,
    trim,
    version,
    wake,
)

__all__ = [
    "NotFoundError",
    "NotLoadedError",
    "ThermoclineError",
    "prefetch",
    "is_active",
    "is_loaded",
    "load",
    "on_out_of_memory",
    "path",
    "pin",
    "reset_peaks",
    "sees_operations",
    "evict",
    "sleep",
    "statistics",
    "step",
    "tag",
    "tag_buffer",
    "trim",
    "version",
    "wake",
]
