#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables of measured figures in Markdown pages: tables.py [--check] [PAGE...]

The text between "<!-- table: NAME -->" and "<!-- end of table -->" is made from results of benchmarks (bench/results), or from the recorded traces. Without --check
pages are rewritten; with it each table that differs is named, and the status is 1. Status 2: wrong usage, an unknown table, a mark that is not closed.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import re
import sys
import textwrap
from collections.abc import Callable

import peer_tables
import published_tables
import pytorch_tables
from table_cells import TITLES, digest_roofline, digests, false_directions, fixed, in_order, percents, results, table

PAGES = [
    "README.md",
    "docs/offload.md",
    "docs/measurements.md",
    "docs/recompute.md",
    "docs/processes.md",
    "docs/sleep.md",
    "docs/tune.md",
    "docs/directions.md",
    "docs/pytorch.md",
    "docs/gpu.md",
    "docs/host_fallback.md",
    "docs/reproduction.md",
    "docs/recording.md",
    "docs/simulated_device.md",
    "docs/frameworks.md",
    "docs/inference.md",
    "docs/cuda_graphs.md",
    "bench/traces/README.md",
]
TRACES = pathlib.Path("bench/traces")
TABLE = re.compile(r"(?P<begin><!-- table: (?P<name>[a-z-]+) -->\n).*?(?P<end><!-- end of table -->)", re.DOTALL)


def policies_over_bound() -> str:
    rows = [row for row in results("offload")["rows"] if row["workload"] != "nmt_varlen_b128"]
    ratios = {(row["workload"], row["budget_percent"], row["policy"]): row["ratio"] for row in rows}
    body = []
    for i, name in enumerate(in_order(rows)):
        cells = []
        for percent in percents(rows):
            three = [ratios.get((name, percent, policy)) for policy in ("lru", "reactive", "learned")]
            cells.append("impossible" if three == [None] * 3 else " / ".join(fixed(ratio, 2) for ratio in three))
        body.append([TITLES[name] + (": LRU / reactive / learned" if i == 0 else ""), *cells])
    return table(["step time over bound at budget", *(f"{percent} %" for percent in percents(rows))], body)


def learned_over_bound() -> str:
    rows = [row for row in results("offload")["rows"] if row["policy"] == "learned" and row["workload"] != "nmt_varlen_b128"]
    ratios = {(row["workload"], row["budget_percent"]): row["ratio"] for row in rows}
    return table(
        ["workload", *(f"{percent} %" for percent in percents(rows))],
        [[TITLES[name], *(fixed(ratios.get((name, percent)), 2) for percent in percents(rows))] for name in in_order(rows)],
    )


def holdout_over_bound() -> str:
    rows = results("holdout")["rows"]
    cells = {(row["workload"], row["budget_percent"]): f"{row['ratio']:.2f} ({row['ratio_in_pages']:.2f})" for row in rows}
    return table(
        ["workload", *(f"{percent} %" for percent in percents(rows))],
        [[TITLES[name], *(cells.get((name, percent), "-") for percent in percents(rows))] for name in in_order(rows)],
    )


def inference() -> str:
    rows = results("inference")["rows"]
    cells = {(row["workload"], row["budget_percent"], row["exact"]): row for row in rows}
    body = []
    for name in in_order(rows):
        for percent in percents(rows):
            known, seen = cells[name, percent, True], cells[name, percent, False]
            body.append([
                TITLES[name],
                f"{100 / percent:.0f} x",
                *(fixed(known[key], 1) for key in ("compute_ms", "in_ms", "step_ms")),
                fixed(known["ratio"], 2),
                fixed(known["over_bound"], 2),
                f"{known['weight_bytes_out'] / 2**20:.0f}",
                f"{known['resident_percent']:.0f} %",
                *(f"{known['other_uploads'][which]['step_ms']:.1f} ({known['other_uploads'][which]['ratio']:.2f})" for which in ("auto", "off")),
                f"{seen['step_ms']:.1f} ({seen['ratio']:.2f})",
            ])
    head = ["workload", "weights / budget", "compute ms", "bytes in / link ms", "step ms", "ratio", "over bound", "weights out, MiB", "stays", "uploads `auto`: step ms (ratio)", "uploads `off`", "without directions: step ms (ratio)"]
    return table(head, body)


def inference_cache() -> str:
    rows = [row for row in results("inference")["rows"] if row["workload"] == "llama7b_decode_b32" and row["exact"]]
    head = ["weights / budget", "budget", "weights", "cache at first", "in a step: fetched", "of the cache"]
    figures = ("budget_bytes", "weight_bytes", "cache_bytes", "in_bytes_per_step", "cache_in_bytes_per_step")
    return table(head, [[f"{100 / row['budget_percent']:.0f} x", *(f"{row[key] / 1e9:.1f} GB" for key in figures)] for row in rows])


def inference_experts() -> str:
    found = results("inference")["experts"]
    fewest = found["belady"]
    rows = [("the best choice, by foresight (Belady)", fewest), ("any without foresight, on average: at least", found["least_expected"]), ("chances known", found["chances_known"]), ("the most frequent experts, known beforehand", found["most_frequent"])]
    rows += [("LRU of experts alone", found["lru_of_experts_alone"])]
    for policy in ("learned", "reactive", "lru"):
        rows += [(f"`{policy}`", found["fetches"][policy]), (f"`{policy}`, directions known", found["fetches"][f"{policy}_exact"])]
    return table(["victims chosen by", f"fetches, of {found['uses']:,} uses", "over the fewest"], [[title, f"{count:,}", fixed(count / fewest, 2)] for title, count in rows])


def offload_summary() -> str:
    names = {"learned": "learned", "trusting": 'learned, `safety = "trusting"`', "reactive": "reactive", "lru": "LRU on demand"}
    summary = results("offload")["summary"]
    return table(
        ["step time over bound", "median", "at most"],
        [[title, fixed(summary[key]["median"], 2), fixed(summary[key]["maximum"], 2)] for key, title in names.items()],
    )


def trusting_maps() -> str:
    rows = [row for row in results("offload")["rows"] if row["policy"] == "trusting" and row["workload"] != "nmt_varlen_b128"]
    cells = {(row["workload"], row["budget_percent"]): f"{row['maps_per_step']:,} pages, {row['steady_step_ms']:.1f} ms" for row in rows}
    return table(
        ["workload", *(f"{percent} %" for percent in percents(rows))],
        [[TITLES[name], *(cells.get((name, percent), "-") for percent in percents(rows))] for name in in_order(rows)],
    )


def recompute() -> str:
    policies = ("swap", "recompute", "joint", "sqrt", "checkmate")
    body = []
    for row in results("recompute")["rows"]:
        times = [row["compute_ms"], row["bound_ms"], row["joint_bound_ms"], *((row[policy] or {}).get("step_ms") for policy in policies)]
        body.append([row["workload"], f"{row['budget_percent']} %", *(fixed(ms, 1) for ms in times)])
    return table(["workload", "budget", "compute", "swap bound", "joint bound", *policies], body)


def split() -> str:
    """Steps whose operators are split: how, and what they take."""
    body = []
    for row in results("split")["rows"]:
        parts: dict[str, list[int]] = {}
        for one in row["split"]:
            parts.setdefault(one["name"], []).append(one["parts"])
        how = ", ".join(f"`{name}` {min(of)}" + (f" to {max(of)}" if max(of) > min(of) else "") for name, of in parts.items())
        whole = "runs" if row["whole"] == "ok" else "does not fit"
        times = [row["compute_ms"], row["step_ms"], row["joint_bound_ms"]]
        ratios = [row["step_ms"] / low if row["step_ms"] and low else None for low in (row["compute_ms"], row["joint_bound_ms"])]
        body.append([row["workload"], f"{row['budget_percent']} %", whole, how or "-", *(fixed(ms, 1) for ms in times), *(fixed(r, 2) for r in ratios)])
    return table(["workload", "budget", "whole", "parts", "compute", "step", "joint bound", "step / compute", "step / joint bound"], body)


def other_models() -> str:
    """The step of each model by copies alone and by copies and recomputation, over the time of its operators."""
    rows = results("other_models")["rows"]
    times = {(r["workload"], r["budget_percent"]): f"{fixed(r['swap_over_compute'], 2)} / **{fixed(r['joint_over_compute'], 2)}**" for r in rows}
    names = list(dict.fromkeys(row["workload"] for row in rows))
    return table(
        ["model", *(f"{percent} %" for percent in percents(rows))],
        [[name, *(times.get((name, percent), "-") for percent in percents(rows))] for name in names],
    )


def tune() -> str:
    rows = results("tune")["rows"]
    devices = list(dict.fromkeys(row["device"] for row in rows))

    def cell(row: dict) -> str:
        default, tuned = row["default_step_ms"], row["steady_step_ms"]
        gain = 100 * (default / tuned - 1)
        over = [f"{gain:.1f} %"] if gain >= 0.05 else []
        over += [fixed(tuned / row["bound_ms"], 3)] if row["bound_ms"] else []
        tuned_text = f"**{tuned:.1f}**" if gain >= 0.05 else f"{tuned:.1f}"
        return f"{default:.1f} / {tuned_text}" + (f" ({', '.join(over)})" if over else "")

    cells = {(row["workload"], row["device"]): cell(row) for row in rows}
    return table(
        ["defaults / tuned, ms (over the bound)", *(f"`{device}`" for device in devices)],
        [[TITLES[name], *(cells.get((name, device), "-") for device in devices)] for name in in_order(rows)],
    )


def sleep() -> str:
    def cells(row: dict) -> list[str]:
        out = f"{row['sleep_ms']:.0f} ms, {row['sleep_over_link']:.2f}"
        back = f"{row['wake_ms']:.0f} ms, {row['wake_over_link']:.2f}"
        return [f"`{row['device']}`", row["shape"], f"{row['bytes'] / 2**30:.1f} GiB", out, back, fixed(row["wake_over_bound"], 2)]

    head = ["device", "what", "bytes", "sleep, over bytes / link", "wake, over bytes / link", "wake, over the larger of link and page creation"]
    return table(head, [cells(row) for row in results("sleep")["rows"]])


def share() -> str:
    def cells(row: dict) -> list[str]:
        return [f"`{row['device']}`", f"{row['memory_gib']} GiB", f"{row['bursts_throughput']:.2f}", f"{row['at_once_throughput']:.2f}", f"{row['thrashing_throughput']:.2f}", f"{row['sliced_throughput']:.2f}"]

    return table(["device", "memory", "in turns of a second", "both at once", "thrashing", "in slices"], [cells(row) for row in results("share")["rows"]])


def directions() -> str:
    layers = {"layers": "4 MiB", "large layers": "16 MiB"}
    rows = [row for row in results("directions")["rows"] if row["program"] in layers and row["budget"] != "all"]

    def cells(row: dict) -> list[str]:
        copied = [f"{row[way] / 2**20:,.0f} MiB" for way in ("out_bytes", "in_bytes")]
        return [layers[row["program"]], row["budget"].replace("MiB", " MiB"), row["digests"], row["uploads"], *copied, f"{row['last_pass_ms']:.2f} ms"]

    return table(["layers of", "budget", "digests", "upload copies", "copied out", "copied in", "last pass"], [cells(row) for row in rows])


def directions_in_training() -> str:
    rows = [row for row in results("directions")["rows"] if row["program"] == "training"]
    cells = [[row["budget"].replace("MiB", " MiB"), row["digests"], *(f"{row[way] / 2**20:,.0f} MiB" for way in ("out_bytes", "in_bytes")), f"{row['last_pass_ms']:.3f} ms"] for row in rows]
    return table(["budget", "digests", "copied out", "copied in", "last step"], cells)


def gpu_model_runs() -> dict[tuple[str, str], float]:
    """Milliseconds of a step, by run and commit; a run of the same name was repeated on later commits."""
    return {(row["run"], row["commit"]): row["step_ms"] for row in results("h200_models")["runs"]}


def gpu_models() -> str:
    runs = gpu_model_runs()
    ran = results("gpu-nvidia-h200")["sections"]["pytorch"]["runs"]
    accepted = {row["model"]: row["step_ms"] for row in ran if "step_ms" in row and (row["way"], row["percent"]) == ("preload", 60)}

    def line(title: str, runs_of: dict[str, tuple[str, str]], digits: int, bold: bool = False) -> list[str]:
        cells = []
        for model in ("resnet50", "gpt2", "unet"):
            ms = runs[runs_of[model]] if model in runs_of else None
            cells.append("" if ms is None else f"{ms:.{digits}f}")
        return [f"**{cell}**" if bold and cell else cell for cell in [title, *cells]]

    def all_three(suffix: str, commit: str) -> dict[str, tuple[str, str]]:
        return {model: (f"{model}-{suffix}", commit) for model in ("resnet50", "gpt2", "unet")}

    runs.update({(model, "acceptance"): ms for model, ms in accepted.items()})
    chosen = {"resnet50": ("resnet50", "acceptance"), "gpt2": ("gpt2", "acceptance"), "unet": ("unet-60-8", "eccd1b3")}
    return table(
        ["", "ResNet-50, batch 64", "GPT-2, batch 4", "U-Net, batch 8"],
        [
            line("plain PyTorch", all_three("plain", "3097aa0"), 1),
            line("its cache off (`PYTORCH_NO_CUDA_MEMORY_CACHING`)", all_three("nocache", "3097aa0"), 1),
            line("under the library, enough memory", all_three("100", "3097aa0"), 1),
            line("60 % of the memory, first run", all_three("60", "3097aa0"), 0),
            line("60 %, iterations recognized, pages of 4, 8 and 4 MiB", all_three("60", "c6b5509"), 0),
            line("60 %, pages as they are chosen now (8, 16, 8 MiB)", chosen, 0, bold=True),
            line("60 %, pages of 16 MiB", all_three("60-16", "eccd1b3"), 0),
            line("`save_on_cpu(pin_memory=True)`", {"resnet50": ("resnet-save", "3097aa0")}, 0),
            line("`thermocline.torch.offload()`, without the library", {"resnet50": ("resnet-off-nolib", "3097aa0")}, 0),
        ],
    )


def gpu_pages() -> str:
    runs = gpu_model_runs()
    sizes = {"4 MiB": ("60", "c6b5509"), "8 MiB": ("60-8", "eccd1b3"), "16 MiB": ("60-16", "eccd1b3")}
    names = {"resnet50": "ResNet-50", "gpt2": "GPT-2", "unet": "U-Net"}
    # On that commit the library chose 8 MiB for GPT-2, and 4 for the others.
    missing = {("4 MiB", "gpt2")}

    def cell(size: str, model: str) -> str:
        suffix, commit = sizes[size]
        return "" if (size, model) in missing else f"{runs[f'{model}-{suffix}', commit]:.0f} ms"

    return table(["page", *names.values()], [[size, *(cell(size, model) for model in names)] for size in sizes])


def attention() -> str:
    def cells(row: dict) -> list[str]:
        published, found = (", ".join(f"{batch:,}" for batch in row[key]) for key in ("published", "largest_batch"))
        return [str(row["words"]), published, fixed(row["published_factor"], 1), found, fixed(row["factor"], 1)]

    head = ["words", "published: kept, made again", "factor", "simulated: kept, made again", "factor"]
    return table(head, [cells(row) for row in results("meng_attention")["rows"]])


def host_fallback() -> str:
    rows = results("host_fallback")["rows"]
    found = {(r["workload"], r["device"], r["budget_percent"], r["host_fallback"]): fixed(r["over_bound"], 3) for r in rows}
    columns = {"`reference`": ("reference", 60), "`h100-80g`": ("h100-80g", 60), "`h200`": ("h200", 60), "`reference`, 80 %": ("reference", 80)}

    def cells(name: str) -> list[str]:
        pairs = [", ".join(found[name, *where, mode] for mode in ("off", "auto")) for where in columns.values()]
        return [TITLES[name], *pairs, found[name, "reference", 60, "full"]]

    return table(["workload", *columns, "`full`, `reference`"], [cells(name) for name in in_order(rows)])


def demo() -> str:
    found = results("demo")
    rows = {(row["workload"], row["how"]): row for row in found["rows"]}
    titles = {"digits": "`digits`, a CNN trained by CUDA C++ from nvcc", "resnet50_b64": "a ResNet-50 step, batch 64, as recorded from PyTorch"}
    hows = {"all the memory it wants": "", "a third, without offloading": "a third of it, no offloading", "a third, with Thermocline": "a third of it, with Thermocline"}
    ends = {"digits": (f", {found['accuracy_percent']} % accuracy", ", the same output"), "resnet50_b64": ("", ", the same checksum")}

    def cells(workload: str, how: str) -> list[str]:
        row = rows[workload, how]
        memory = float(row["memory"].removesuffix(" MiB"))
        out, back = (float(row[way].removesuffix(" MiB")) / 1024 for way in ("moved_out", "moved_in"))
        ok, last = row["outcome"] == "ok", how.endswith("Thermocline")
        moved = f"{out:.1f} / {back:.1f} GiB" + ("" if workload == "digits" else " a step") if last else ""
        time = f"{float(row['time'].removesuffix(' ms')):.0f} ms" if ok else ""
        outcome = row["outcome"] + (ends[workload][last] if ok else "")
        bold = "**" if last else ""
        digest = f"`{row['digest']}`" if ok else ""
        return [f"{bold}{hows[how] or titles[workload]}{bold}", f"{memory:,.1f} MiB", f"{bold}{outcome}{bold}", moved, time, digest]

    return table(["", "memory", "outcome", "moved out / in", "simulated time", "digest"], [cells(workload, how) for workload in titles for how in hows])


def traces() -> str:
    """The peak of live bytes and the operators of a step, for each recorded trace."""
    models = {
        "resnet50_b64": "ResNet-50 at 224 x 224",
        "cifar_resnet1001_b64": "ResNet-1001 of pre-activation bottlenecks, 32 x 32",
        "gpt2_b8": "GPT-2 of 124 M parameters, 1,024 tokens, unfused attention",
        "unet3d_b1_128": "3D U-Net, four channels of 128^3 voxels",
        "nmt_b128_t50": "LSTM encoder and decoder with additive attention, 50 tokens",
        "nmt_varlen_b128": "the same with sentences of another length in each step",
        "vgg16_b32": "VGG-16 at 224 x 224: computed, not recorded",
    }

    def cells(name: str) -> list[str]:
        sizes: dict[int, int] = {}
        operators, live, peak = [0], 0, 0
        with gzip.open(TRACES / f"{name}.jsonl.gz", "rt") as lines:
            about = json.loads(next(lines))
            for event in map(json.loads, lines):
                kind = event["e"]
                if kind == "alloc":
                    sizes[event["b"]] = event["n"]
                    live += event["n"]
                    peak = max(peak, live)
                elif kind == "free":
                    live -= sizes.pop(event["b"])
                elif kind == "op":
                    operators[-1] += 1
                elif kind == "step":
                    operators.append(0)
        steps = sorted(operators[:-1])
        each = f"{steps[0]:,}" + (f" to {steps[-1]:,}" if steps[0] != steps[-1] else "")
        return [f"`{name}`", models[name], str(about["batch"]), str(about["steps"]), f"{peak >> 20:,} MiB", each]

    return table(["trace", "model", "batch", "steps", "peak of live bytes", "operators per step"], [cells(name) for name in models])


def trace_sizes() -> str:
    names = {"gpt2_b8": "GPT-2", "resnet50_b64": "ResNet-50"}

    def cells(row: dict) -> list[str]:
        forms = (f"{row[form]:,} bytes" for form in ("json_lines_bytes", "gzip_bytes", "packed_bytes"))
        return [f"{names[row['trace']]}, {row['steps']} steps, {row['lines']:,} lines", *forms]

    return table(["trace", "JSON Lines", "gzip-compressed", "packed"], [cells(row) for row in results("trace_sizes")["rows"]])


def ptx_speed() -> str:
    kernels = {
        "arithmetic": "eight chains of multiply-adds, which LLVM makes vectors of",
        "product": "a product of matrices without shared memory",
        "streaming": "`a[i] = 2 a[i] + b[i]`",
        "barriers": "two barriers in every 12 instructions",
    }
    rates = {row["kernel"]: row["instructions_a_cpu_second"] / 1e6 for row in results("ptx_speed")["run"]}
    return table(["kernel", "millions"], [[title, f"{float(f'{rates[name]:.2g}'):,.0f}"] for name, title in kernels.items()])


def ptx_compile() -> str:
    kernels = {"digits": "all 13 kernels of `examples/digits`", "product": "the product above", "streaming": "`a[i] = 2 a[i] + b[i]`"}
    rows = {row["of"]: row for row in results("ptx_speed")["compile"]}

    def cells(name: str) -> list[str]:
        row = rows[name]
        return [kernels[name], f"{row['instructions']:,.0f}", f"{row['blocks']:.0f}", f"{row['cpu_ms']:.0f} ms"]

    return table(["compiled", "PTX instructions", "basic blocks", "CPU time"], [cells(name) for name in kernels])


def jax_line() -> str:
    """The line that fit() prints for GPT-2, as the indented text of the page."""
    line = results("jax_fit")["gpt2_at_40_percent"]
    return "".join(f"    {part}\n" for part in textwrap.wrap(line, 126, break_on_hyphens=False))


def jax_fit() -> str:
    def mib(of: dict) -> str:
        return f"{of['peak_bytes'] / 2**20:.2f} ({of['compiled_bytes'] / 2**20:.2f})"

    def cells(row: dict) -> list[str]:
        fits = (cell for key in ("at_60_percent", "least") for cell in (mib(row[key]), f"{row[key]['step_over_whole'] - 1:+.1%}"))
        return [row["program"].replace("_", " "), mib(row["whole"]), *fits]

    head = ["program", "whole, MiB (compiled)", 'with "60%" (compiled)', "more time", "least (compiled)", "more time"]
    return table(head, [cells(row) for row in results("jax_fit")["rows"]])


def graphs() -> str:
    found = {(row["device"], row["work"], row["budget"], row["way"]): row for row in results("graphs")["rows"]}

    def cells(device: str, work: int) -> list[str]:
        cell = [f"`{device}`", str(work)]
        for budget in ("256MiB", "96MiB", "48MiB"):
            launches, graph = (found[device, work, budget, way] for way in ("launches", "graph"))
            cell.append(f"{launches['last_step_ms']:.2f} / {graph['last_step_ms']:.2f} ({graph['last_step_ms'] / launches['last_step_ms']:.2f})")
        return [*cell, *(str(found[device, work, budget, "graph"]["graph_segments"] // 8) for budget in ("96MiB", "48MiB"))]

    head = ["device", "kernels for each", "256 MiB", "96 MiB", "48 MiB", "segments, 96 MiB", "48 MiB"]
    return table(head, [cells(*key) for key in dict.fromkeys((row["device"], row["work"]) for row in results("graphs")["rows"])])


def recompute_programs() -> str:
    rows = [row for row in results("recompute_programs")["rows"] if row["program"] == "training"]
    found = {(row["device"], row["budget"], row["recompute"], row["safety"]): row for row in rows}

    def cells(device: str) -> list[str]:
        ways = [("64MiB", "off", "strict"), ("20MiB", "off", "strict"), ("20MiB", "auto", "trusting"), ("20MiB", "auto", "strict")]
        steps = [found[device, *way] for way in ways]
        evicted = " / ".join(f"{row['evicted_bytes'] / 2**20:.0f}" for row in (steps[1], steps[3])) + " MiB"
        dropped = f"{steps[3]['dropped_buffers']}, {steps[3]['recomputed_buffers']}"
        return [f"`{device}`", *(fixed(row["last_step_ms"], 2) for row in steps), evicted, dropped]

    head = ["device", "64 MiB", "20 MiB, `off`", "`auto`, `trusting`", "`auto`, `strict`", "evicted in all steps, `off` / `auto`", "contents dropped, of these made again"]
    return table(head, [cells(device) for device in dict.fromkeys(row["device"] for row in rows)])


def recompute_transformer() -> str:
    rows = [row for row in results("recompute_programs")["rows"] if row["program"].startswith("transformer ")]
    found = {(row["program"], row["device"], row["budget"], row["recompute"], row["safety"]): row for row in rows}
    kinds = {
        "transformer plain, step": "independent threads; allocated in each step",
        "transformer plain of 14 steps, step": "the same, its last of 14 steps",
        "transformer plain, once": "the same, allocated once",
        "transformer tiled, step": "tiles and shuffles; allocated in each step",
    }

    def cells(program: str, device: str) -> list[str]:
        def step(*way: str) -> dict | None:
            return found.get((program, device, *way))

        whole, copies = step("256MiB", "off", "strict"), step("68MiB", "off", "strict")
        trusting, strict = step("68MiB", "auto", "trusting"), step("68MiB", "auto", "strict")
        if copies is None or strict is None:
            raise KeyError(f"{program} on {device}")
        times = [fixed(row["last_step_ms"], 2) if row else "" for row in (whole, copies, trusting, strict)]
        return [kinds[program], f"`{device}`", *times, f"{strict['last_step_ms'] / copies['last_step_ms']:.2f}"]

    head = ["kernels", "device", "256 MiB", "68 MiB, `off`", "`auto`, `trusting`", "`auto`, `strict`", "`strict` / `off`"]
    return table(head, [cells(*key) for key in dict.fromkeys((row["program"], row["device"]) for row in rows)])


def recompute_steps() -> str:
    found = {(row["program"], row["recompute"]): row["last_step_ms"] for row in results("recompute_programs")["rows"]}
    whens = {
        "used": ("each before it is made (`used`)", "when it has been read"),
        "async": ("the same with `cudaMallocAsync` (`async`)", "when it has been read"),
        "ends": ("each before it is made (`ends`)", "where the step ends"),
        "all": ("all where the step begins (`all`)", "where the step ends"),
        "once": ("once (`once`)", "never"),
    }
    rows = [(f"steps, {when}", texts) for when, texts in whens.items()]
    rows += [(f"steps of 1 MiB, {when}", (f"`{when}`, two in a page, half of the budget", whens[when][1])) for when in ("used", "ends")]
    body = [[*texts, *(fixed(found[program, mode], 2) for mode in ("off", "auto"))] for program, texts in rows]
    return table(["its activations are allocated", "and freed", "`off`", "`auto`, `strict`"], body)


def instructions() -> str:
    return table(["of", "instructions"], [[name, f"{count:,}"] for name, count in results("instructions")["instructions"].items()])


def metadata() -> str:
    rows = [[row["mix"], f"{row['mean_kib']:g} KiB", *(fixed(row[f"mib_per_gib_{n}_mib_pages"], 2) for n in (16, 2))] for row in results("metadata")["rows"]]
    return table(["live small buffers", "on average", "MiB of host memory per GiB, pages of 16 MiB", "pages of 2 MiB"], rows)


def planning() -> str:
    rows = results("planning_time")["rows"]
    found = {(row["budget_percent"], row["pages_per_contents"]): f"{row['cpu_ms']} ms" for row in rows}
    budgets, pages = (sorted({row[key] for row in rows}, reverse=reverse) for key, reverse in (("budget_percent", True), ("pages_per_contents", False)))
    head = ["CPU time", *(f"contents of {n} page{'s' if n > 1 else ''}" for n in pages)]
    return table(head, [[f"budget of {budget} % of the peak", *(found[budget, n] for n in pages)] for budget in budgets])


def planning_joint() -> str:
    rows = [
        [row["workload"], f"{row['budget_percent']} %", f"{row['cpu_ms'] / 1000:.1f} s"]
        for row in results("planning_time")["joint"]
    ]
    return table(["joint plan", "budget", "CPU time"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "host-fallback": host_fallback,
    "gpu-models": gpu_models,
    "gpu-pages": gpu_pages,
    "attention": attention,
    "policies-over-bound": policies_over_bound,
    "learned-over-bound": learned_over_bound,
    "offload-summary": offload_summary,
    "holdout-over-bound": holdout_over_bound,
    "inference": inference,
    "inference-cache": inference_cache,
    "inference-experts": inference_experts,
    "trusting-maps": trusting_maps,
    "recompute": recompute,
    "split": split,
    "other-models": other_models,
    "sleep": sleep,
    "share": share,
    "tune": tune,
    "directions": directions,
    "digests": digests,
    "digest-roofline": digest_roofline,
    "directions-training": directions_in_training,
    "false-directions": false_directions,
    "instructions": instructions,
    "metadata": metadata,
    "planning": planning,
    "planning-joint": planning_joint,
    "demo": demo,
    "traces": traces,
    "trace-sizes": trace_sizes,
    "ptx-speed": ptx_speed,
    "ptx-compile": ptx_compile,
    "jax-line": jax_line,
    "jax-fit": jax_fit,
    "graphs": graphs,
    "recompute-programs": recompute_programs,
    "recompute-steps": recompute_steps,
    **peer_tables.TABLES,
    "recompute-transformer": recompute_transformer,
    **published_tables.TABLES,
    **pytorch_tables.TABLES,
}


def renew(page: str, text: str) -> tuple[str, list[str]]:
    """The text with its tables made anew, and the names of those that differed."""
    if text.count("<!-- table: ") != len(TABLE.findall(text)):
        raise ValueError(f"{page}: a table's mark is not closed by <!-- end of table -->")
    differing = []

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            raise ValueError(f"{page}: unknown table {name}; known are {', '.join(TABLES)}")
        renewed = match["begin"] + "\n" + TABLES[name]() + "\n" + match["end"]
        if renewed != match[0]:
            differing.append(name)
        return renewed

    return TABLE.sub(replace, text), differing


def main(arguments: list[str]) -> int:
    check = arguments[:1] == ["--check"]
    status = 0
    for page in arguments[check:] or PAGES:
        path = pathlib.Path(page)
        text = path.read_text()
        renewed, differing = renew(page, text)
        if check and differing:
            print(f"{page}: {', '.join(differing)}: not what bench/results says; scripts/tables.py renews it", file=sys.stderr)
            status = 1
        elif differing:
            path.write_text(renewed)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError, KeyError) as error:
        print(f"tables.py: {error}", file=sys.stderr)
        sys.exit(2)
