# SPDX-License-Identifier: Apache-2.0
"""Results, rows and cells, for the tables of scripts/tables.py."""

from __future__ import annotations

import json
import pathlib

RESULTS = pathlib.Path("bench/results")

TITLES = {
    "resnet50_b64": "ResNet-50, batch 64",
    "gpt2_b8": "GPT-2 124M, batch 8",
    "unet3d_b1_128": "3D U-Net, 128^3",
    "cifar_resnet1001_b64": "ResNet-1001 (CIFAR), batch 64",
    "nmt_b128_t50": "LSTM translation, 50 tokens",
    "nmt_varlen_b128": "LSTM translation, varying",
    "vgg16_b32": "VGG-16, batch 32",
    "densenet121_b64": "DenseNet-121, batch 64",
    "googlenet_b64": "GoogLeNet, batch 64",
    "unet_b8": "U-Net 2D, batch 8",
    "vgg16_b64": "VGG-16, batch 64",
    "llama7b_decode_b1": "Llama-like 7B, a token",
    "llama7b_decode_b32": "Llama-like 7B, a token of 32 sequences",
    "llama7b_prefill_2048": "Llama-like 7B, a prompt of 2,048 tokens",
    "sdxl_unet_b2": "SDXL U-Net, a step",
    "mixture_64x8_decode": "Mixture of 64 experts, a token",
    "two_models_decode": "Two models in turn, a token",
}


def results(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def in_order(rows: list[dict]) -> list[str]:
    """The workloads of the rows, in the order of TITLES."""
    return [name for name in TITLES if any(row["workload"] == name for row in rows)]


def percents(rows: list[dict]) -> list[int]:
    return sorted({row["budget_percent"] for row in rows}, reverse=True)


def fixed(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def false_directions() -> str:
    found = results("false_directions")
    rows = [
        ["kernels", found["kernels"]],
        ["of these not judged: they leave their buffers, or the executor refuses them", found["not_run"]],
        ["whose accesses are said to be known", found["known"]],
        ["buffers that are said to be read, written, both", f"{found['said_read']:,}, {found['said_written']:,}, {found['said_both']:,}"],
        ["**said of a kernel, and wrong**", f"**{found['false_claims']}**"],
        ["written ranges that are proven, and are exact", found["exact_ranges"]],
        ["pointers of which it is proven that nothing in front of them is accessed", found["proven_begins"]],
        ["buffers that a launch only read", found["only_read"]],
        ["of these said to be only read", found["found_only_read"]],
        *([f"not said: {why}", count] for why, count in sorted(found["not_found"].items(), key=lambda one: -one[1])),
    ]
    return table(["", "count"], [[name, f"{count:,}" if isinstance(count, int) else count] for name, count in rows])


def digests() -> str:
    def relative(row: dict, knowledge: str, steps: str) -> str:
        return f"{row[knowledge][steps] / row['exact'][steps]:.3f}"

    def cells(row: dict) -> list[str]:
        traffic = [f"{row['exact'][steps] / 2**30:.1f} GiB" for steps in ("first_bytes", "last_bytes")]
        first, last = ([relative(row, knowledge, steps) for knowledge in ("digests", "neither")] for steps in ("first_bytes", "last_bytes"))
        times = " / ".join(f"{row[knowledge]['step_ms']:.1f}" for knowledge in ("exact", "digests", "neither"))
        return [f"`{row['workload']}`", f"{row['budget_percent']} %", traffic[0], *first, traffic[1], *last, times]

    head = ["workload", "budget", "first six steps, directions", "digests", "neither", "last six steps, directions", "digests", "neither", "ms of a step: directions / digests / neither"]
    return table(head, [cells(row) for row in results("digests")["rows"]])


def digest_roofline() -> str:
    def cells(row: dict) -> list[str]:
        rates = row["bytes_a_cycle"]
        return [
            row["device"],
            f"{row['instructions'] / 4:.1f}",
            f"{row['bytes_in_flight'] // 1024} KiB",
            *(f"{rates[limit]:.1f}" for limit in ("pipes", "one_pipe", "latency")),
            f"{row['memory_bytes_a_cycle']:.1f}",
            f"{100 * row['part_of_bandwidth']:.0f} %",
            f"{row['least_mhz']:,} of {row['mhz']:,} MHz",
        ]

    head = ["device", "instructions for 16 bytes", "in flight", "pipes", "one pipe", "latency", "memory delivers", "part of bandwidth", "least clock"]
    return table(head, [cells(row) for row in results("digest_roofline")["rows"]])
