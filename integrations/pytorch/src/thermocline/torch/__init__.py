# SPDX-License-Identifier: Apache-2.0
"""Thermocline for PyTorch: the library as its allocator, saved tensors in host memory, traces made without a GPU."""

from ._compile_budget import CompileBudget, compile_budget
from ._extension import build_extension
from ._fit import DoesNotFitError, Fit, fit
from ._offload import offload
from ._peak import PeakBytes
from ._plugin import allocator, enable, is_enabled, pool
from ._recording import Recording, recording, step
from ._stores import LibraryStore, PinnedStore
from ._trace import TraceWriter
from ._trainers import lightning_callback, transformers_callback
from ._training import record

__all__ = [
    "CompileBudget",
    "DoesNotFitError",
    "Fit",
    "LibraryStore",
    "PeakBytes",
    "PinnedStore",
    "Recording",
    "TraceWriter",
    "allocator",
    "build_extension",
    "compile_budget",
    "enable",
    "fit",
    "is_enabled",
    "lightning_callback",
    "offload",
    "pool",
    "record",
    "recording",
    "step",
    "transformers_callback",
]
