# SPDX-License-Identifier: Apache-2.0
"""How close to the bound the learned policy comes on models that no trace in bench/traces is of, device `reference`: rows
for docs/offload.md.

    python other_models.py THERMOCLINE_COMMAND

Needs torch and torchvision, no GPU.
"""

from __future__ import annotations

import os
import sys
import tempfile

import torch
from published import Classifier, Command, record

# Name and batch; transformers and their like by AdamW.
MODELS = {
    "densenet121": (64, "sgd"),
    "efficientnet_b0": (64, "sgd"),
    "mobilenet_v3_large": (128, "sgd"),
    "convnext_tiny": (64, "adamw"),
    "swin_t": (64, "adamw"),
    "vit_b_16": (64, "adamw"),
}
BUDGETS = ("80%", "60%", "40%")


def adamw(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, foreach=False)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    command = Command(sys.argv[1])
    print("| model, batch | " + " | ".join(BUDGETS) + " |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.jsonl.gz")
        for name, (batch, optimizer) in MODELS.items():
            record(Classifier(name), batch, trace, adamw if optimizer == "adamw" else None)
            cells = []
            for budget in BUDGETS:
                result = command.replay(trace, "reference", budget, steps=12)
                done = result["outcome"] == "ok"
                cells.append(f"{result['steady_step_ms'] / result['bound_ms']:.2f}" if done else "out of memory")
            print(f"| {name}, {batch} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
