# SPDX-License-Identifier: Apache-2.0
"""Published tables of other systems, on the simulated device: records each model at the published batch size with
thermocline.torch, replays it under the published memory, and prints rows of Markdown for docs/reproduction.md.

    python published.py THERMOCLINE_COMMAND [overhead|batch|memory]

Needs torch and torchvision, no GPU. Sources stand beside the figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
import torch
import torchvision
import thermocline.torch as tt

GB = 10**9
GIB = 2**30

# MONeT (Shah et al., ICLR 2021), repository README: P100 16 GB, PyTorch 1.5.1. Memory in GB -> overhead in percent.
OVERHEAD = {
    "resnet50": (184, {10.01: 3.22, 9.01: 4.68, 8.01: 5.56, 6.99: 7.28, 6.00: 9.31, 4.99: 11.95}),
    "googlenet": (320, {9.98: 7.13, 8.01: 8.44, 6.01: 12.14, 4.99: 15.77}),
    "mobilenet_v2": (272, {10.02: 2.40, 8.02: 4.77, 6.01: 7.55, 5.01: 8.72}),
    "vgg16": (176, {9.71: -5.30, 7.88: -2.18, 5.90: 5.44, 5.51: 9.11}),
}

# Largest batch without and with swapping. Meng et al. (ML Systems Workshop at NIPS 2017), Table 1: M40 12 GB, TensorFlow. Capuchin (Peng et
# al., ASPLOS 2020), graph mode: P100 16 GB, TensorFlow 1.11; with recomputation.
BATCH = [
    ("Meng", "m40-12g", 12 * GIB, "resnet50", 144, 664),
    ("Meng", "m40-12g", 12 * GIB, "inception_v3@224", 208, 548),
    ("Capuchin", "p100-16g", 16 * GIB, "resnet50", 190, 1014),
    ("Capuchin", "p100-16g", 16 * GIB, "vgg16", 228, 350),
    ("Capuchin", "p100-16g", 16 * GIB, "resnet152", 86, 798),
    ("Capuchin", "p100-16g", 16 * GIB, "inception_v3", 160, 716),
]

# Meng et al., Table 1 (b): memory of a step of 32 images without and with swapping, in MB. What their ResNet-1001 and ResNet-2000 for images
# of this size are made of is not said.
MEMORY = [("resnet101", 32, 5815, 2660), ("resnet200", 32, 10662, 3052)]


class Classifier(torch.nn.Module):
    """Images and labels to a model without auxiliary heads; NAME@PIXELS for images of another size."""

    def __init__(self, name: str) -> None:
        super().__init__()
        name, _, pixels = name.partition("@")
        options = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
        self.pixels = int(pixels) if pixels else 299 if name == "inception_v3" else 224
        with torch.device("meta"):
            if name == "resnet200":
                self.model = torchvision.models.resnet.ResNet(torchvision.models.resnet.Bottleneck, [3, 24, 36, 3])
            else:
                self.model = getattr(torchvision.models, name)(**options)

    def forward(self, images: torch.Tensor, _labels: torch.Tensor) -> torch.Tensor:
        return self.model(images)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def record(model: Classifier, batch: int, path: str, optimizer: Callable[..., Any] | None = None) -> None:
    """Training steps on images of 224 x 224 (Inception-V3: 299), by SGD with momentum where nothing else is said."""
    images = torch.empty(batch, 3, model.pixels, model.pixels, device="meta")
    labels = torch.empty(batch, dtype=torch.long, device="meta")
    tt.record(
        model,
        (images, labels),
        path,
        loss=lambda outputs, _images, labels: torch.nn.functional.cross_entropy(outputs, labels),
        optimizer=optimizer or momentum,
    )


class Command:
    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, *arguments: str) -> dict[str, Any]:
        done = subprocess.run([self._path, *arguments, "--json"], capture_output=True, text=True, check=False)
        if not done.stdout:
            sys.exit(f"published.py: {' '.join(arguments)}: {done.stderr}")
        return json.loads(done.stdout)

    def replay(self, trace: str, device: str, budget: int | str, policy: str = "learned", steps: int = 6) -> dict[str, Any]:
        terms = ("--device", device, "--budget", str(budget), "--policy", policy, "--steps", str(steps))
        return self("replay", trace, *terms)


def print_overheads(command: Command, trace: str) -> None:
    print("| model, batch | memory | MONeT | Thermocline | no swapping is faster than |\n| --- | --- | --- | --- | --- |")
    for name, (batch, rows) in OVERHEAD.items():
        record(Classifier(name), batch, trace)
        for gigabytes, published in rows.items():
            result = command.replay(trace, "p100-16g", int(gigabytes * GB))
            whole = result["compute_step_ms"]
            ours = "out of memory"
            if result["outcome"] == "ok":
                ours = f"{100 * (result['steady_step_ms'] / whole - 1):+.1f} %"
            bound = f"{100 * (result['bound_ms'] / whole - 1):+.1f} %" if result["bound_ms"] else "-"
            print(f"| {name}, {batch} | {gigabytes} GB | {published:+.1f} % | {ours} | {bound} |", flush=True)


def largest(fits: Callable[[int], bool], low: int) -> int:
    """The largest batch that fits; `low` does. Within 2 %."""
    high = 2 * low
    while fits(high):
        low, high = high, 2 * high
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def print_batches(command: Command, trace: str) -> None:
    print("| source, device | model | published: without, with | Thermocline: without, with | step over all in memory at that batch |")
    print("| --- | --- | --- | --- | --- |")
    for source, device, memory, name, without, with_swapping in BATCH:

        def fits(batch: int, policy: str, name: str = name, device: str = device, memory: int = memory) -> bool:
            record(Classifier(name), batch, trace)
            return command.replay(trace, device, memory, policy)["outcome"] == "ok"

        plain = largest(lambda batch: fits(batch, "none"), 16)
        swapped = largest(lambda batch: fits(batch, "learned"), plain)
        record(Classifier(name), swapped, trace)
        result = command.replay(trace, device, memory)
        ratio = result["steady_step_ms"] / result["compute_step_ms"]
        print(
            f"| {source}, {device} | {name} | {without}, {with_swapping} ({with_swapping / without:.1f} x) "
            f"| {plain}, {swapped} ({swapped / plain:.1f} x) | {ratio:.2f} |",
            flush=True,
        )


def print_memory(command: Command, trace: str) -> None:
    print("| model, batch | published: without, with | held at most | a step with the published memory | with half of it | least memory |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, batch, without, with_swapping in MEMORY:
        record(Classifier(name), batch, trace)
        steps = []
        for megabytes in (with_swapping, with_swapping // 2):
            result = command.replay(trace, "m40-12g", megabytes << 20)
            ran = result["outcome"] == "ok"
            steps.append(f"{result['steady_step_ms'] / result['compute_step_ms']:.2f} x" if ran else "out of memory")
        least = command("tune", trace, "--device", "m40-12g", "--budget", "50%", "--no-curve")["least_budget_bytes"]
        print(
            f"| {name}, {batch} | {without}, {with_swapping} MB | {result['peak_live_bytes'] >> 20} MiB | {steps[0]} | {steps[1]} | {least >> 20} MiB |",
            flush=True,
        )


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    wanted = sys.argv[2] if len(sys.argv) == 3 else ""
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.jsonl.gz")
        command = Command(sys.argv[1])
        if wanted in ("", "overhead"):
            print_overheads(command, trace)
        if wanted in ("", "batch"):
            print_batches(command, trace)
        if wanted in ("", "memory"):
            print_memory(command, trace)


if __name__ == "__main__":
    main()
