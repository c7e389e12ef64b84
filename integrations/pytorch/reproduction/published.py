# SPDX-License-Identifier: Apache-2.0
"""Published tables of other systems, on the simulated device: records each model at the published batch size with
thermocline.torch, and replays it under the published memory.

    python published.py THERMOCLINE_COMMAND RESULT.json [overhead|batch|memory [MODEL]]

Needs torch and torchvision, no GPU. Sources stand beside the figures. RESULT.json is bench/results/published.json, from which scripts/tables.py
makes the tables of docs/reproduction.md; one part alone, or its rows of one model, leaves the others there as they are.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
import torch
import torchvision
import thermocline.torch as tt

GB = 10**9
GIB = 2**30

# Whether rows of this model are asked for.
Models = Callable[[str], bool]

# MONeT (Shah et al., ICLR 2021), repository README: P100 16 GB, PyTorch 1.5.1. Memory in GB -> overhead in percent.
OVERHEAD = {
    "resnet50": (184, {10.01: 3.22, 9.01: 4.68, 8.01: 5.56, 6.99: 7.28, 6.00: 9.31, 4.99: 11.95}),
    "googlenet": (320, {9.98: 7.13, 8.99: 7.87, 8.01: 8.44, 7.02: 9.71, 6.01: 12.14, 4.99: 15.77}),
    "mobilenet_v2": (272, {10.02: 2.40, 9.01: 3.10, 8.02: 4.77, 7.01: 5.53, 6.01: 7.55, 5.01: 8.72}),
    "vgg16": (176, {9.71: -5.30, 8.66: -4.64, 7.88: -2.18, 6.82: 1.99, 5.90: 5.44, 5.51: 9.11}),
    "unet": (11, {10.01: -4.10, 9.01: -2.07, 8.02: -0.09, 7.00: 1.39, 6.01: 4.95, 5.01: 11.51}),
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

# How much longer an image may take in the largest batch with copies and recomputing than in the largest batch that fits.
LONGEST_PER_IMAGE = 1.3


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


class Unet(torch.nn.Module):
    """The U-Net of MONeT's rows: 64 to 512 channels, four levels, images of 416 x 608, one class. It is widened by average pooling of the
    coarser level, as its authors do, because their system has no bilinear interpolation."""

    def __init__(self) -> None:
        super().__init__()
        widths = [64, 128, 256, 512, 512]
        with torch.device("meta"):
            self.down = torch.nn.ModuleList(self.twice(before, after) for before, after in zip([3, *widths], widths, strict=False))
            self.up = torch.nn.ModuleList(
                self.twice(2 * width, max(width // 2, 64), width) for width in reversed(widths[:-1])
            )  # fmt: skip
            self.head = torch.nn.Conv2d(64, 1, 1)

    @staticmethod
    def twice(before: int, after: int, between: int | None = None) -> torch.nn.Sequential:
        layers: list[torch.nn.Module] = []
        for width in (between or after, after):
            layers += [torch.nn.Conv2d(before, width, 3, padding=1), torch.nn.BatchNorm2d(width), torch.nn.ReLU(inplace=True)]
            before = width
        return torch.nn.Sequential(*layers)

    def forward(self, images: torch.Tensor, _labels: torch.Tensor) -> torch.Tensor:
        levels = [self.down[0](images)]
        for block in self.down[1:]:
            levels.append(block(torch.nn.functional.max_pool2d(levels[-1], 2)))
        wide = levels.pop()
        for block in self.up:
            fine = levels.pop()
            wide = block(torch.cat([fine, torch.nn.functional.adaptive_avg_pool2d(wide, fine.shape[2:])], dim=1))
        return self.head(wide)


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
        slices=True,
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

    def replay_joint(self, trace: str, device: str, budget: int) -> dict[str, Any]:
        """Copies planned together with recomputing; in 16 steps the plan is in force, and pages are assigned by it. Operators are computed in
        parts only where they do not fit whole; then the result has `split`."""
        terms = ("--device", device, "--budget", str(budget), "--exact", "--recompute", "auto", "--steps", "16")
        whole = self("replay", trace, *terms)
        return whole if whole["outcome"] == "ok" else self("replay", trace, *terms, "--split", "auto")

    def joint_bound(self, trace: str, device: str, budget: int) -> float | None:
        row = self("bound", trace, "--device", device, "--budget", str(budget), "--joint")["rows"][0]
        return row.get("joint_bound_ms") or row.get("bound_ms")


def percent_over(milliseconds: float | None, whole: float) -> float | None:
    return None if milliseconds is None else round(100 * (milliseconds / whole - 1), 1)


def record_unet(batch: int, path: str) -> None:
    images, labels = (torch.empty(batch, channels, 416, 608, device="meta") for channels in (3, 1))
    entropy = torch.nn.functional.binary_cross_entropy_with_logits
    tt.record(Unet(), (images, labels), path, loss=lambda outputs, _images, labels: entropy(outputs, labels), optimizer=momentum, slices=True)


def in_parts(result: dict[str, Any]) -> bool:
    return any(operator["parts"] > 1 for operator in result["split"] or [])


def overheads(command: Command, trace: str, models: Models) -> Iterator[dict[str, Any]]:
    for name, (batch, rows) in OVERHEAD.items():
        if not models(name):
            continue
        if name == "unet":
            record_unet(batch, trace)
        else:
            record(Classifier(name), batch, trace)
        for gigabytes, published in rows.items():
            budget = int(gigabytes * GB)
            result, joint = command.replay(trace, "p100-16g", budget), command.replay_joint(trace, "p100-16g", budget)
            whole = result["compute_step_ms"]
            yield {
                "model": name,
                "batch": batch,
                "memory_gb": gigabytes,
                "published_percent": published,
                "percent": percent_over(result["steady_step_ms"] if result["outcome"] == "ok" else None, whole),
                "bound_percent": percent_over(result["bound_ms"] or None, whole),
                "joint_percent": percent_over(joint["steady_step_ms"] if joint["outcome"] == "ok" else None, whole),
                "joint_bound_percent": percent_over(command.joint_bound(trace, "p100-16g", budget), whole),
                "joint_in_parts": in_parts(joint),
                "joint_races": joint["races"],
                "peak_live_bytes": result["peak_live_bytes"],
            }


def largest(fits: Callable[[int], bool], low: int) -> int:
    """The largest batch that fits; `low` does. Within 2 %."""
    high = 2 * low
    while fits(high):
        low, high = high, 2 * high
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def batches(command: Command, trace: str, models: Models) -> Iterator[dict[str, Any]]:
    for source, device, memory, name, without, with_swapping in BATCH:
        if not models(name):
            continue

        def fits(batch: int, policy: str, name: str = name, device: str = device, memory: int = memory) -> bool:
            record(Classifier(name), batch, trace)
            return command.replay(trace, device, memory, policy)["outcome"] == "ok"

        def per_image(batch: int, name: str = name, device: str = device, memory: int = memory) -> float:
            """Milliseconds, with copies and recomputing; infinite where it does not fit."""
            record(Classifier(name), batch, trace)
            result = command.replay_joint(trace, device, memory)
            return result["steady_step_ms"] / batch if result["outcome"] == "ok" else math.inf

        plain = largest(lambda batch: fits(batch, "none"), 16)
        record(Classifier(name), plain, trace)
        allowed = LONGEST_PER_IMAGE * command.replay(trace, device, memory, "none")["compute_step_ms"] / plain
        joint = largest(lambda batch: per_image(batch) <= allowed, plain)
        swapped = largest(lambda batch: fits(batch, "learned"), plain)
        record(Classifier(name), swapped, trace)
        result = command.replay(trace, device, memory)
        yield {
            "source": source,
            "device": device,
            "model": name,
            "published": [without, with_swapping],
            "largest_batch": [plain, swapped],
            "largest_joint_batch": joint,
            "step_over_compute": round(result["steady_step_ms"] / result["compute_step_ms"], 2),
        }


def memories(command: Command, trace: str, models: Models) -> Iterator[dict[str, Any]]:
    for name, batch, without, with_swapping in MEMORY:
        if not models(name):
            continue
        record(Classifier(name), batch, trace)
        steps = []
        for megabytes in (with_swapping, with_swapping // 2):
            result = command.replay(trace, "m40-12g", megabytes << 20)
            ran = result["outcome"] == "ok"
            steps.append(round(result["steady_step_ms"] / result["compute_step_ms"], 2) if ran else None)
        least = command("tune", trace, "--device", "m40-12g", "--budget", "50%", "--no-curve")["least_budget_bytes"]
        yield {
            "model": name,
            "batch": batch,
            "published_mb": [without, with_swapping],
            "peak_bytes": result["peak_live_bytes"],
            "step_over_compute": steps,
            "least_bytes": least,
        }


PARTS: dict[str, Callable[[Command, str, Models], Iterator[dict[str, Any]]]] = {"overhead": overheads, "batch": batches, "memory": memories}


def joined(before: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of before, each that was measured anew replaced."""

    def name(row: dict[str, Any]) -> tuple:
        return tuple(row.get(key) for key in ("source", "device", "model", "memory_gb"))

    new = {name(row): row for row in rows}
    return [new.pop(name(row), row) for row in before] + list(new.values())


def main() -> None:
    if len(sys.argv) not in (3, 4, 5) or (len(sys.argv) > 3 and sys.argv[3] not in PARTS):
        sys.exit(__doc__)
    result = pathlib.Path(sys.argv[2])
    about = {
        "schema": "thermocline-reproduction/1",
        "how": "python integrations/pytorch/reproduction/published.py build/release/bin/thermocline RESULT.json",
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
    }
    parts = json.loads(result.read_text())["parts"] if result.exists() else {}
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        trace, command = os.path.join(folder, "trace.jsonl.gz"), Command(sys.argv[1])
        for name in sys.argv[3:4] or PARTS:
            rows = []
            for row in PARTS[name](command, trace, lambda model: model in (sys.argv[4:] or [model])):
                print(name, json.dumps(row), flush=True)
                rows.append(row | {"commit": commit})
            parts[name] = {"rows": joined(parts[name]["rows"], rows) if sys.argv[4:] else rows}
            result.write_text(json.dumps(about | {"parts": parts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
