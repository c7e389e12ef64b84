# SPDX-License-Identifier: Apache-2.0
"""The models of ./dev gpu in tiny sizes on the CPU: each way to save memory that is there gives the same bits, and one that
is not says so."""

import argparse
import os
import shutil
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

COMMAND = os.environ.get("THERMOCLINE_TEST_COMMAND", "")
if COMMAND:
    os.environ["PATH"] = os.path.dirname(COMMAND) + os.pathsep + os.environ["PATH"]


def run(model: str, mode: str, steps: int = 3, **options) -> dict:
    options = {"managed_library": "", "leave_bytes": 0, "budget": 1 << 40, "profile": "reference", "part": 1.0, **options}
    arguments = argparse.Namespace(model=model, mode=mode, size="tiny", device="cpu", steps=steps, **options)
    try:
        return {"available": True, **models.train(arguments)}
    except models.NotAvailable as error:
        return {"available": False, "reason": str(error)}


def require(holds: bool, what: object) -> None:
    if not holds:
        raise AssertionError(what)


def parameters(model) -> int:
    return sum(p.numel() for p in model.parameters())


def check_planned(model: str) -> None:
    """fit() in less than a whole step needs, and the budget of PyTorch's compiler."""
    plain = run(model, "plain", 5)
    compiled = run(model, "memory_budget", 5, part=0.5)
    require(compiled["losses"] == plain["losses"], (model, "memory_budget", plain, compiled))
    if shutil.which("thermocline") is None:
        print("there is no command to plan with: without fit()")
        return
    whole = run(model, "fit", 5)
    require(whole["losses"] == plain["losses"] and whole["promised"]["dropped"] == 0, (model, whole))
    less = run(model, "fit", 5, budget=whole["promised"]["whole_peak_bytes"] * 9 // 10)
    require(less["losses"] == plain["losses"] and less["weights"] == plain["weights"], (model, plain, less))
    told = less["promised"]
    require(told["dropped"] > 0 and told["as_recorded"] and told["peak_bytes"] <= told["budget_bytes"], (model, told))


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
        check_planned(model)
    for mode in ("managed", "plugin", "offload"):
        absent = run("gpt2", mode)
        require(absent["available"] is False and absent["reason"], absent)


if __name__ == "__main__":
    main()
