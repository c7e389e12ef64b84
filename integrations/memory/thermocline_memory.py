# SPDX-License-Identifier: Apache-2.0
"""Device memory of the library by number, for the adaptors beside this folder: include/thermocline/thermocline.h, the part
for frameworks. Needs the package `thermocline`, and the library in the process: `thermocline run -- python ...`."""

from __future__ import annotations

import ctypes

from thermocline import _library

_Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_Free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)


def allocate(size: int, device: int, stream: int) -> int:
    """The address; 0 where the library refuses, and for nothing at all."""
    return _Allocate(("thermocline_allocate", _library.load()))(size, device, stream) or 0


def free(address: int, device: int, stream: int) -> None:
    """Behind what the stream was given so far."""
    _Free(("thermocline_free", _library.load()))(address, 0, device, stream)


def require_library() -> None:
    _library.load()
