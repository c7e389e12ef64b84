# SPDX-License-Identifier: Apache-2.0
"""Thermocline for PyTorch: the library as its allocator, saved tensors in host memory, traces made without a GPU."""

from ._extension import build_extension
from ._fit import DoesNotFitError, Fit, fit
from ._offload import offload
from ._peak import PeakBytes
from ._places import Copies, Hints
from ._plugin import allocator, enable, is_enabled, pool
from ._recording import Recording, recording, step
from ._trace import TraceWriter
from ._training import record

__all__ = [
    "Copies",
    "DoesNotFitError",
    "Fit",
    "Hints",
    "PeakBytes",
    "Recording",
    "TraceWriter",
    "allocator",
    "build_extension",
    "enable",
    "fit",
    "is_enabled",
    "offload",
    "pool",
    "record",
    "recording",
    "step",
]
