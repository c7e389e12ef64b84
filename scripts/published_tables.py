# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/reproduction.md: what others have published, beside what was found here (scripts/tables.py)."""

from __future__ import annotations

from collections.abc import Callable

from table_cells import fixed, results, table

MODELS = {
    "resnet50": "ResNet-50",
    "resnet101": "ResNet-101",
    "resnet152": "ResNet-152",
    "resnet200": "ResNet-200",
    "googlenet": "GoogLeNet",
    "mobilenet_v2": "MobileNetV2",
    "vgg16": "VGG-16",
    "unet": "U-Net",
    "inception_v3": "Inception-V3, 299 x 299",
    "inception_v3@224": "Inception-V3, 224 x 224",
}


def published(part: str) -> list[dict]:
    return results("published")["parts"][part]["rows"]


def published_batch() -> str:
    def batches(pair: list[int]) -> str:
        return f"{pair[0]}, {pair[1]} ({pair[1] / pair[0]:.1f} x)"

    def cells(row: dict) -> list[str]:
        plain, joint = row["largest_batch"][0], row["largest_joint_batch"]
        ours = [batches(row["largest_batch"]), fixed(row["step_over_compute"], 2), f"{joint} ({joint / plain:.1f} x)"]
        return [f"{row['source']}, {row['device']}", MODELS[row["model"]], batches(row["published"]), *ours]

    copies = ["simulated: without, with copies", "step over all in memory at that batch"]
    head = ["source, device", "model", "published: without, with", *copies, "copies and recomputing, at most 1.3 x the time an image"]
    return table(head, [cells(row) for row in published("batch")])


def published_memory() -> str:
    def cells(row: dict) -> list[str]:
        steps = ["does not fit" if over is None else f"{over:.2f} x" for over in row["step_over_compute"]]
        without, with_swapping = row["published_mb"]
        peak, least = (f"{round(row[key] / 2**20):,} MiB" for key in ("peak_bytes", "least_bytes"))
        return [MODELS[row["model"]], f"{without:,}, {with_swapping:,} MB", peak, *steps, least]

    head = ["model", "published: without, with", "peak", "step over unlimited in the published memory", "in half of it", "least memory"]
    return table(head, [cells(row) for row in published("memory")])


def published_overhead() -> str:
    def percent(value: float | None) -> str:
        return "does not fit" if value is None else f"{value + 0.0:+.1f} %"

    def cells(row: dict) -> list[str]:
        bounds = ["-" if row[key] is None else percent(row[key]) for key in ("bound_percent", "joint_bound_percent")]
        parts = ", in parts" if row.get("joint_in_parts") else ""
        ours = [percent(row["percent"]), percent(row["joint_percent"]) + parts]
        return [f"{MODELS[row['model']]}, {row['batch']}", f"{row['memory_gb']} GB", percent(row["published_percent"]), *ours, *bounds]

    head = ["model, batch", "memory", "MONeT", "copies alone", "recomputing and copies", "no copying is faster than", "nothing of both is faster than"]
    return table(head, [cells(row) for row in published("overhead")])


def published_recompute() -> str:
    """Published figures beside what bench/results/recompute_published.json has: the text of a row, and what was published."""
    texts = {
        "residual net, 992 layers": ("Chen et al., 2016", "residual net of 992 layers (15, 120, 180, 15 bottlenecks), 32 images", " (published: 48, 7 GB)", "30 %"),
        "recurrent net, 1,000 steps": ("Gruslys et al., 2016", "recurrent net, 1,000 steps, states of 4 MiB", ": 5 % of the states and what one operator needs", "33 %"),
    }

    def cost(one: dict) -> str:
        if one["over_compute"] is not None:
            return f"{one['policy']}: {100 * (one['over_compute'] - 1):.1f} %"
        found = one.get("found_bytes")
        return f"{one['policy']}: " + (f"needs {found / 2**30:.1f} GiB" if found else "no plan")

    def cells(row: dict) -> list[str]:
        source, model, of_memory, slower = texts[row["name"]]
        budget = row["budget_bytes"] / 2**30
        memory = f"{row['peak_bytes'] / 2**30:.1f}, {budget:.0f} GiB" if budget >= 1 else f"{row['peak_bytes'] / 2**30:.1f}, {budget:.2f} GiB"
        return [f"{source}, {row['device']}, as {row['how']}", model, memory + of_memory, slower, "; ".join(map(cost, row["results"]))]

    head = ["source, device", "model", "memory without, with", "published", "policy: slower by"]
    return table(head, [cells(row) for row in results("recompute_published")["rows"]])


TABLES: dict[str, Callable[[], str]] = {
    "published-batch": published_batch,
    "published-memory": published_memory,
    "published-overhead": published_overhead,
    "published-recompute": published_recompute,
}
