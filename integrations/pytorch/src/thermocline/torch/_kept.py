# SPDX-License-Identifier: Apache-2.0
"""A saved tensor that stays where it is. PyTorch itself does not look for changes in place where there are hooks; this does."""

from __future__ import annotations

import torch

_NO_VERSION = -1
_make_subclass = torch.Tensor._make_subclass


def _detached(tensor: torch.Tensor) -> torch.Tensor:
    """With the same version counter. Of a plain tensor without asking dispatch modes, which costs more than the rest of a save."""
    return _make_subclass(torch.Tensor, tensor) if type(tensor) is torch.Tensor else tensor.detach()


def modified_in(context: str) -> str:
    """The words of the error that plain PyTorch raises, and where it happened."""
    return (
        "a tensor that is needed for the gradient has been modified by an inplace operation after it was saved "
        f"(inside thermocline.torch.{context}); torch.autograd.set_detect_anomaly(True) shows which"
    )


class Kept:
    """Stands for the tensor in autograd."""

    __slots__ = ("__weakref__", "modified", "tensor", "version")

    def __init__(self, tensor: torch.Tensor, modified: str) -> None:
        """modified: the words of the error where somebody changes the tensor."""
        # A result that is saved for its own operator would hold that operator, and this nobody frees: a cycle through C++.
        self.tensor = tensor if tensor.grad_fn is None else _detached(tensor)
        self.version = _NO_VERSION if tensor.is_inference() else tensor._version
        self.modified = modified

    def unpack(self) -> torch.Tensor:
        """Raises RuntimeError where somebody changed it after it was saved."""
        tensor = self.tensor
        if self.version != _NO_VERSION and tensor._version != self.version:
            raise RuntimeError(self.modified)
        return tensor
