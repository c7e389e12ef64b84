# SPDX-License-Identifier: Apache-2.0
"""A saved tensor that stays where it is. PyTorch itself does not look for changes in place where there are hooks; this does."""

from __future__ import annotations

import torch

MODIFIED = (
    "a tensor that is needed for the gradient has been modified by an inplace operation after it was saved "
    "(inside thermocline.torch.fit); torch.autograd.set_detect_anomaly(True) shows which"
)


class Kept:
    """What autograd holds in place of the tensor."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.version = tensor._version if not tensor.is_inference() else 0

    def unpack(self) -> torch.Tensor:
        """Raises RuntimeError where somebody changed it after it was saved."""
        tensor = self.tensor
        if not tensor.is_inference() and tensor._version != self.version:
            raise RuntimeError(MODIFIED)
        return tensor
