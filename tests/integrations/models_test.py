# SPDX-License-Identifier: Apache-2.0
"""The models of ./dev gpu in tiny sizes on the CPU: each way to save memory that is there gives the same bits, and one that
is not says so."""

import argparse
import os
import sys

try:
    import torch
except ImportError:
    print("skipped: this Python has no PyTorch")
    sys.exit(77)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "bench", "gpu"))
sys.path.insert(0, os.path.join(ROOT, "integrations", "pytorch", "src"))
import models


def run(model: str, mode: str) -> dict:
    arguments = argparse.Namespace(
        model=model, mode=mode, size="tiny", device="cpu", steps=3, managed_library="", leave_bytes=0
    )
    try:
        return {"available": True, **models.train(arguments)}
    except models.NotAvailable as error:
        return {"available": False, "reason": str(error)}


def require(holds: bool, what: object) -> None:
    if not holds:
        raise AssertionError(what)


def parameters(model) -> int:
    return sum(p.numel() for p in model.parameters())


def main() -> None:
    torch.set_num_threads(1)
    # As published: torchvision's resnet50; 124M of GPT-2; U-Net with padding and batch norm.
    require(parameters(models.ResNet()) == 25_557_032, "ResNet-50")
    require(parameters(models.Gpt2()) == 124_439_808, "GPT-2")
    require(31_000_000 < parameters(models.UNet()) < 31_100_000, parameters(models.UNet()))
    for model in ("resnet50", "gpt2", "unet"):
        plain = run(model, "plain")
        require(plain["available"] and len(plain["losses"]) == 3 and len(set(plain["losses"])) == 3, plain)
        require(plain["losses"] == run(model, "plain")["losses"], "the same twice")
        for mode in ("save_on_cpu", "checkpoint"):
            other = run(model, mode)
            require(other["losses"] == plain["losses"], (model, mode, plain, other))
            # A block that runs twice counts its batch twice in the running averages of batch norm.
            if mode != "checkpoint":
                require(other["weights"] == plain["weights"], (model, mode))
    for mode in ("managed", "plugin", "offload"):
        absent = run("gpt2", mode)
        require(absent["available"] is False and absent["reason"], absent)


if __name__ == "__main__":
    main()
