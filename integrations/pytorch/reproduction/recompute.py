# SPDX-License-Identifier: Apache-2.0
"""Published recomputation on the simulated device, beside the joint plan. Records each model with thermocline.torch,
plans it (Chen) or replays it with --exact (Gruslys) under the published memory, writes the figures and prints rows of Markdown for docs/reproduction.md.

    python recompute.py THERMOCLINE_COMMAND RESULT.json [chen|gruslys]

Needs torch, no GPU. Takes some minutes.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
import torch
import thermocline.torch as tt

GIB = 2**30

# Chen et al., Training deep nets with sublinear memory cost, 2016, section 5: a residual net of 1,000 layers on ImageNet needs 7 GB instead
# of 48 (taken as GiB), with 30 % more time. How its blocks are distributed is not said: five times those of ResNet-200 make 992 layers.
CHEN = {"blocks": (15, 120, 180, 15), "batch": 32, "memory": 7 * GIB, "without": 48 * GIB, "slower": 0.30, "device": "titan-x-12g"}
# Gruslys et al., Memory-efficient backpropagation through time, NIPS 2016, abstract: sequences of 1,000 steps, 95 % of the memory saved, a third
# more time.
GRUSLYS = {"steps": 1000, "part": 0.05, "slower": 0.33, "batch": 1024, "width": 1024, "device": "reference"}


class Bottleneck(torch.nn.Module):
    """The block of ResNet-50 and deeper ones, with the stride in the second convolution."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width
        layers = []
        for inputs, outputs, kernel, step in ((before, width, 1, 1), (width, width, 3, stride), (width, after, 1, 1)):
            layers += [torch.nn.Conv2d(inputs, outputs, kernel, step, kernel // 2, bias=False), torch.nn.BatchNorm2d(outputs)]
            layers += [torch.nn.ReLU(inplace=True)] if outputs != after or kernel != 1 else []
        self.layers = torch.nn.Sequential(*layers)
        self.shortcut = None
        if stride != 1 or before != after:
            self.shortcut = torch.nn.Sequential(torch.nn.Conv2d(before, after, 1, stride, bias=False), torch.nn.BatchNorm2d(after))
        self.relu = torch.nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.layers(x) + (x if self.shortcut is None else self.shortcut(x)))


class ResidualNet(torch.nn.Module):
    def __init__(self, blocks: tuple[int, ...]) -> None:
        super().__init__()
        layers: list[torch.nn.Module] = [torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(64), torch.nn.ReLU(inplace=True)]
        layers.append(torch.nn.MaxPool2d(3, 2, 1))
        before = 64
        for stage, count in enumerate(blocks):
            for block in range(count):
                layers.append(Bottleneck(before, 64 << stage, 2 if stage > 0 and block == 0 else 1))
                before = 256 << stage
        layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(before, 1000)]
        self.layers = torch.nn.Sequential(*layers)

    def forward(self, images: torch.Tensor, _labels: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


class Recurrent(torch.nn.Module):
    """A plain recurrent net. Its inputs are narrow: the paper counts states."""

    INPUTS = 1

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = torch.nn.RNNCell(self.INPUTS, width)

    def forward(self, inputs: torch.Tensor, _labels: torch.Tensor) -> torch.Tensor:
        state = None
        for one in inputs:
            state = self.cell(one, state)
        assert state is not None
        return state


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def record_chen(path: str) -> None:
    with torch.device("meta"):
        model = ResidualNet(CHEN["blocks"])
        images, labels = torch.empty(CHEN["batch"], 3, 224, 224), torch.empty(CHEN["batch"], dtype=torch.long)
    loss = lambda outputs, _images, labels: torch.nn.functional.cross_entropy(outputs, labels)
    tt.record(model, (images, labels), path, loss=loss, optimizer=sgd)


def record_gruslys(path: str) -> None:
    with torch.device("meta"):
        model = Recurrent(GRUSLYS["width"])
        inputs = torch.empty(GRUSLYS["steps"], GRUSLYS["batch"], Recurrent.INPUTS)
        labels = torch.empty(GRUSLYS["batch"], GRUSLYS["width"])
    loss = lambda outputs, _inputs, labels: torch.nn.functional.mse_loss(outputs, labels)
    tt.record(model, (inputs, labels), path, loss=loss, optimizer=sgd)


class Command:
    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, *arguments: str) -> dict[str, Any]:
        done = subprocess.run([self._path, *arguments, "--json"], capture_output=True, text=True, check=False)
        if not done.stdout:
            sys.exit(f"recompute.py: {' '.join(arguments)}: {done.stderr}")
        return json.loads(done.stdout)

    def compare(self, trace: str, device: str, budget: int, policies: list[str], steps: int = 6) -> list[dict[str, Any]]:
        terms = ("--exact", "--device", device, "--budget", str(budget), "--steps", str(steps))
        return self("replay", trace, *terms, "--compare", *policies)["runs"]


def result_of(run: dict[str, Any]) -> dict[str, Any]:
    planned = run["outcome"] == "ok" and run["learned_after_steps"] is not None and run["predicted_step_ms"] is not None
    if run["races"] or (run["outcome"] == "ok" and run["peak_device_bytes"] > run["budget_bytes"]):
        sys.exit(f"recompute.py: {run['name']}: a race, or more than the budget")
    return {
        "policy": run["name"],
        "step_ms": round(run["steady_step_ms"], 2) if planned else None,
        "over_compute": round(run["steady_step_ms"] / run["compute_step_ms"], 3) if planned else None,
        "recomputed_operations": run["steps"][-1]["recomputed_operations"] if planned else None,
        "peak_device_bytes": run["peak_device_bytes"] if planned else None,
        "checksum": run["checksum"],
    }


def before_and_peak(trace: str) -> tuple[int, int]:
    """Bytes that the program holds when its last step begins, and its peak."""
    sizes: dict[int, int] = {}
    live = peak = 0
    at_marks = []
    with gzip.open(trace, "rt", encoding="utf-8") as file:
        for event in map(json.loads, file):
            kind = event.get("e")
            if kind == "alloc":
                sizes[event["b"]] = event["n"]
                live += event["n"]
                peak = max(peak, live)
            elif kind == "free":
                live -= sizes[event["b"]]
            elif kind == "step":
                at_marks.append(live)
    return at_marks[-2], peak


def row(name: str, command: Command, trace: str, device: str, budget: int, policies: list[str]) -> dict[str, Any]:
    kept, peak = before_and_peak(trace)
    runs = command.compare(trace, device, budget, policies)
    results = [result_of(run) for run in runs]
    if len({one["checksum"] for one in results if one["checksum"]}) != 1:
        sys.exit(f"recompute.py: {name}: the policies differ in what they compute")
    out = {"name": name, "device": device, "how": "replayed", "kept_bytes": kept, "peak_bytes": peak, "budget_bytes": budget}
    out["compute_ms"] = round(runs[0]["compute_step_ms"], 2)
    for one in results:
        del one["checksum"]
        cost = "no plan" if one["over_compute"] is None else f"{100 * (one['over_compute'] - 1):+.1f} %"
        print(f"| {name} | {peak / GIB:.1f} GiB | {budget / GIB:.2f} GiB | {one['policy']} | {cost} |", flush=True)
    return out | {"results": results}


def planned_row(name: str, command: Command, trace: str, device: str, budget: int, policies: list[str]) -> dict[str, Any]:
    """As the planner expects it, in the bytes that the program asked for: the published figures know no pages either."""
    results = []
    for policy in policies:
        plan = command("plan", trace, "--device", device, "--budget", str(budget), "--plans", policy)
        over = round(plan["step_ms"] / plan["compute_ms"], 3) if plan["fits"] else None
        cost = f"no plan; there is one for {plan['found_bytes'] / GIB:.1f} GiB" if over is None else f"{100 * (over - 1):+.1f} %"
        results.append({"policy": policy, "over_compute": over, "peak_bytes": plan.get("peak_bytes"), "found_bytes": plan["found_bytes"]})
        print(f"| {name} | {plan['whole_peak_bytes'] / GIB:.1f} GiB | {budget / GIB:.2f} GiB | {policy} | {cost} |", flush=True)
    whole = {"peak_bytes": plan["whole_peak_bytes"], "compute_ms": round(plan["compute_ms"], 2)}
    return {"name": name, "device": device, "how": "planned", "budget_bytes": budget} | whole | {"results": results}


def main() -> None:
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    wanted = sys.argv[3] if len(sys.argv) == 4 else ""
    command, rows = Command(sys.argv[1]), []
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.jsonl.gz")
        if wanted in ("", "chen"):
            record_chen(trace)
            rows.append(planned_row("residual net, 992 layers", command, trace, CHEN["device"], CHEN["memory"], ["sqrt", "checkpoint-all", "checkmate", "joint"]))
        if wanted in ("", "gruslys"):
            record_gruslys(trace)
            kept, peak = before_and_peak(trace)
            # The paper counts states alone: what one operator needs comes on top.
            least = command("plan", trace, "--budget", "100%peak")["least_bytes"]
            budget = least + int(GRUSLYS["part"] * (peak - kept))
            rows.append(row("recurrent net, 1,000 steps", command, trace, GRUSLYS["device"], budget, ["gruslys", "sqrt", "checkmate", "joint"]))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump({"schema": "thermocline-reproduction-recompute/1", "rows": rows}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
