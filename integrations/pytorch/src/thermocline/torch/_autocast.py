# SPDX-License-Identifier: Apache-2.0
"""torch.autocast on meta tensors: PyTorch has none, and switches it off with a warning where there is no GPU. A recording would be one of
float32 then, and say nothing: no_autocast() refuses instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_WORDS = (
    "torch.autocast has no effect on meta tensors, so this would record a step of {}: convert the model instead "
    "(model.bfloat16(), inputs too), which is what holds memory"
)


@contextmanager
def no_autocast() -> Iterator[None]:
    """Raises where the program makes an autocast context that is to have an effect."""
    kind = torch.amp.autocast_mode.autocast
    begin = kind.__init__

    def refuse(self: Any, device_type: str, dtype: Any = None, enabled: bool = True, *rest: Any, **options: Any) -> None:
        if enabled:
            raise RuntimeError(_WORDS.format(torch.get_default_dtype()))
        begin(self, device_type, dtype, enabled, *rest, **options)

    kind.__init__ = refuse
    try:
        if any(torch.is_autocast_enabled(device) for device in ("cuda", "cpu")):
            raise RuntimeError(_WORDS.format(torch.get_default_dtype()))
        yield
    finally:
        kind.__init__ = begin
