# SPDX-License-Identifier: Apache-2.0
"""Other kernels for the same operator, which thermocline.torch.fit does not choose: attention's and optimizers', on CPU tensors. Bits against the
ones that PyTorch takes by itself, bytes saved for backward, and the most bytes alive. Writes one JSON object:

    python bench/fit_implementations.py > bench/results/pytorch_implementations.json

Bytes are exact; how many numbers differ depends on the processor. Needs PyTorch.
"""

from __future__ import annotations

import json
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integrations", "pytorch", "src"))
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

import thermocline.torch as tt  # noqa: E402

torch.set_num_threads(1)
OPTIMIZERS = {
    "SGD with momentum": lambda parameters, **how: torch.optim.SGD(parameters, 0.01, momentum=0.9, **how),
    "Adam": lambda parameters, **how: torch.optim.Adam(parameters, 0.01, **how),
    "AdamW": lambda parameters, **how: torch.optim.AdamW(parameters, 0.01, **how),
}


def attention(backend: SDPBackend) -> tuple[list[torch.Tensor], dict[str, object]]:
    torch.manual_seed(0)
    inputs = [torch.randn(2, 4, 256, 32, requires_grad=True) for _ in range(3)]
    given = {t.untyped_storage()._cdata for t in inputs}
    saved: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in given:
            saved[storage._cdata] = storage.nbytes()
        return tensor

    with tt.PeakBytes(*inputs) as peak, sdpa_kernel(backend), torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = scaled_dot_product_attention(*inputs, is_causal=True)
        out.square().sum().backward()
    row = {"backend": backend.name, "saved_bytes": sum(saved.values()), "peak_bytes": peak.most}
    return [out.detach(), *[t.grad for t in inputs]], row


def differences(ours: list[torch.Tensor], usual: list[torch.Tensor]) -> dict[str, object]:
    pairs = list(zip(ours, usual, strict=True))
    return {
        "numbers": sum(a.numel() for a in usual),
        "numbers_differ": sum(int((a != b).sum()) for a, b in pairs),
        "largest_difference": max(float((a - b).abs().max()) for a, b in pairs),
    }


def optimized(make, **how: bool) -> list[torch.Tensor]:
    torch.manual_seed(1)
    parameters = [torch.nn.Parameter(torch.randn(64, 64)) for _ in range(4)]
    optimizer = make(parameters, **how)
    for _ in range(5):
        for parameter in parameters:
            parameter.grad = torch.randn(64, 64)
        optimizer.step()
    return [parameter.detach() for parameter in parameters]


def main() -> None:
    usual, flash = attention(SDPBackend.FLASH_ATTENTION)
    matrices, math = attention(SDPBackend.MATH)
    rows = [
        {"optimizer": name, "how": how, **differences(optimized(make, **{how: True}), optimized(make))}
        for name, make in OPTIMIZERS.items()
        for how in ("foreach", "fused")
    ]
    result = {
        "schema": "thermocline-pytorch-implementations/1",
        "command": "python bench/fit_implementations.py > bench/results/pytorch_implementations.json",
        "torch": torch.__version__,
        "attention": [flash, {**math, **differences(matrices, usual)}],
        "optimizers": rows,
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
