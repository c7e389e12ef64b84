# SPDX-License-Identifier: Apache-2.0
"""Thermocline for PyTorch: traces of training steps, made without a GPU."""

from ._recording import Recording, record, recording
from ._trace import TraceWriter

__all__ = ["Recording", "TraceWriter", "record", "recording"]
