#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays the recorded models of bench/traces/inference with a half and a quarter of their weights as the budget, on device `reference`.

    scripts/bench_inference.py BUILD_FOLDER [TRACE_NAME...]

Each model is replayed without directions, as the library sees a program, and with --exact, as with digests (docs/directions.md). The runs with --exact are
made with upload_copies "all", "auto" and "off". Figures are of the second half of the steps. For one budget it also counts the fetches of experts, beside those of the best choice
of victims by foresight (Belady), of plain LRU, and of keeping the most frequent experts.

Writes BUILD_FOLDER/bench/inference.json, which bench/results keeps. Bounds are read from bench/traces/inference/bounds.json, because they take minutes to compute.
Fails if there is a race, if a checksum in order of time or in an adversarial order is not that of unlimited memory, or if a budget is exceeded.
Called by ./dev bench inference. docs/inference.md explains the figures.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any

TRACES = pathlib.Path("bench/traces/inference")
LINK = 50e6  # bytes a millisecond in each direction, of `reference`
PERCENTS = (50, 25)
MIB = 1 << 20
OWN_PAGES = 2 * MIB  # smaller buffers share pages, and copies
EXPERTS, EXPERT_SHARE = "mixture_64x8_decode", 4  # room for one of so many experts
WARM = 1 / 2


@dataclass
class Contents:
    """The facts that a trace states."""

    sizes: dict[int, int] = field(default_factory=dict)  # of what is there when the first step is over
    tags: dict[int, str] = field(default_factory=dict)
    uses: list[tuple[int, int]] = field(default_factory=list)  # of experts: step and buffer, each expert's operators once

    def bytes_of(self, what: str) -> int:
        return sum(size for buffer, size in self.sizes.items() if self.tags.get(buffer, "").startswith(what))

    def is_expert(self, buffer: int) -> bool:
        return ".experts." in self.tags.get(buffer, "")


def read(trace: pathlib.Path) -> Contents:
    contents, step = Contents(), 0
    with gzip.open(trace, "rt", encoding="utf-8") as file:
        for event in map(json.loads, file):
            kind = event.get("e")
            if kind == "alloc" and step == 0:
                contents.sizes[event["b"]] = event["n"]
                contents.tags[event["b"]] = event.get("tag", "")
            elif kind == "step":
                step += 1
            elif kind == "op" and step > 0:
                for buffer in filter(contents.is_expert, event["r"]):
                    if not contents.uses or contents.uses[-1] != (step, buffer):
                        contents.uses.append((step, buffer))
    return contents


class Command:
    def __init__(self, build: pathlib.Path) -> None:
        self._path, self._folder = build / "bin/thermocline", build / "bench"

    def replay(self, trace: pathlib.Path, budget: int | None, *flags: str) -> dict[str, Any]:
        limit = ["--budget", f"{budget}B"] if budget is not None else []
        done = subprocess.run(
            [self._path, "replay", trace, *limit, "--no-bound", "--json", *flags], capture_output=True, text=True, check=False
        )
        if not done.stdout:
            sys.exit(f"bench_inference.py: {trace}: {done.stderr}")
        return json.loads(done.stdout)

    def uploads(self, which: str) -> tuple[str, ...]:
        """Flags for upload copies of that kind."""
        config = self._folder / f"inference_{which}.toml"
        config.write_text(f'upload_copies = "{which}"\n')
        return "--config", str(config)

    def movements(self, trace: pathlib.Path, budget: int, steps: int, *flags: str) -> list[dict[str, str]]:
        """Copies and steps in order of device time."""
        out = self._folder / "inference.csv"
        terms = ["--budget", f"{budget}B", "--steps", str(steps), "--format", "csv", "-o", out]
        subprocess.run([self._path, "export", trace, *terms, *flags], capture_output=True, check=True)
        with out.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["event"] in ("evict", "restore", "step")]
        out.unlink()
        return rows


def copied_out(rows: list[dict[str, str]], contents: Contents) -> dict[str, int]:
    """Bytes of weights that went out, and of these what had gone out before."""
    out: dict[int, int] = defaultdict(int)
    for row in rows:
        if row["event"] == "evict":
            out[int(row["buffer"])] += int(row["bytes"])
    weights = {b: n for b, n in contents.sizes.items() if n >= OWN_PAGES and contents.tags[b].startswith("parameter")}
    again = sum(max(0, out[buffer] - -(-size // OWN_PAGES) * OWN_PAGES) for buffer, size in weights.items())
    return {"weight_bytes_out": sum(out[buffer] for buffer in weights), "weight_bytes_out_again": again}


def fetched_of_cache(rows: list[dict[str, str]], contents: Contents, first: int, last: int) -> int:
    """Bytes of the cache, as far as it was there at first, that were fetched in steps [first, last)."""
    step = fetched = 0
    for row in rows:
        if row["event"] == "step":
            step += 1
        elif row["event"] == "restore" and first <= step < last and contents.tags.get(int(row["buffer"]), "").startswith("cache"):
            fetched += int(row["bytes"])
    return fetched


def of_others(command: Command, trace: pathlib.Path, budget: int, which: str) -> dict[str, Any]:
    """The same replay with other upload copies."""
    result = command.replay(trace, budget, "--exact", "--no-check", *command.uploads(which))
    steps = result["steps"]
    steady = steps[math.ceil(len(steps) * WARM) :]
    total = {key: sum(step[key] for step in steady) for key in ("ms", "compute_ms", "restored_bytes")}
    return {
        "step_ms": round(total["ms"] / len(steady), 2),
        "ratio": round(total["ms"] / max(total["compute_ms"], total["restored_bytes"] / LINK), 3),
        "out_bytes": result["evicted_bytes"],
    }


def row_of(command: Command, trace: pathlib.Path, contents: Contents, percent: int, exact: bool, bounds: dict[str, Any]) -> dict[str, Any]:
    name, weights = trace.name.removesuffix(".jsonl.gz"), contents.bytes_of("parameter")
    budget = weights * percent // 100
    flags = ("--exact", *command.uploads("all")) if exact else ()
    result = command.replay(trace, budget, *flags)
    others = [command.replay(trace, budget, "--seed", "1", *flags), command.replay(trace, None, *flags)]
    steps = result["steps"]
    steady = steps[math.ceil(len(steps) * WARM) :]
    total = {key: sum(step[key] for step in steady) for key in ("ms", "compute_ms", "restored_bytes", "evicted_bytes")}
    link_ms = total["restored_bytes"] / LINK
    bound = bounds.get(name, {}).get(str(percent), {}).get("bound_ms")
    mean = total["ms"] / len(steady)
    moved = command.movements(trace, budget, len(steps), *flags)
    return {
        "workload": name,
        "budget_percent": percent,
        "exact": exact,
        "outcome": result["outcome"],
        "weight_bytes": weights,
        "cache_bytes": contents.bytes_of("cache"),
        "budget_bytes": budget,
        "step_ms": round(mean, 2),
        "median_step_ms": round(statistics.median(step["ms"] for step in steady), 2),
        "compute_ms": round(total["compute_ms"] / len(steady), 2),
        "in_bytes_per_step": round(total["restored_bytes"] / len(steady)),
        "in_ms": round(link_ms / len(steady), 2),
        "out_bytes_per_step": round(total["evicted_bytes"] / len(steady)),
        **copied_out(moved, contents),
        **({"other_uploads": {which: of_others(command, trace, budget, which) for which in ("off", "auto")}} if exact else {}),
        "cache_in_bytes_per_step": round(fetched_of_cache(moved, contents, len(steps) - len(steady), len(steps)) / len(steady)),
        "ratio": round(total["ms"] / max(total["compute_ms"], link_ms), 3),
        "bound_ms": round(bound, 2) if bound else None,
        "over_bound": round(mean / bound, 3) if bound else None,
        "resident_percent": round(100 * max(0.0, 1 - total["restored_bytes"] / len(steady) / (weights + contents.bytes_of("cache"))), 1),
        "races": result["races"] + others[0]["races"],
        "keeps_promises": len({one["checksum"] for one in [result, *others]}) == 1
        and result["races"] + others[0]["races"] == 0
        and max(one["peak_device_bytes"] for one in (result, others[0])) <= budget,
    }


def misses(uses: list[tuple[int, int]], slots: int, first: int, victim: str) -> int:
    """Fetches from step `first` on where so many experts have room. Belady's choice leaves out what is used later than all others."""
    next_use = [math.inf] * len(uses)
    latest: dict[int, int] = {}
    for i in range(len(uses) - 1, -1, -1):
        next_use[i] = latest.get(uses[i][1], math.inf)
        latest[uses[i][1]] = i
    there: OrderedDict[int, float] = OrderedDict()
    count = 0
    for i, (step, expert) in enumerate(uses):
        if expert not in there:
            count += step >= first
            if len(there) >= slots:
                chosen = max(there, key=lambda one: there[one]) if victim == "belady" else next(iter(there))
                if victim == "belady" and there[chosen] < next_use[i]:
                    continue
                del there[chosen]
        there[expert] = next_use[i]
        there.move_to_end(expert)
    return count


def misses_of_most_frequent(uses: list[tuple[int, int]], slots: int, first: int) -> int:
    """The same where those stay that are used most often, counted over the whole trace, beside room for the four of a layer."""
    stay = {expert for expert, _ in Counter(expert for _, expert in uses).most_common(slots - 4)}
    return sum(step >= first and expert not in stay for step, expert in uses)


def misses_by_chance(uses: list[tuple[int, int]], slots: int, first: int, layer_of: dict[int, str]) -> int:
    """The same where the one goes that is least likely to be used for the next token: known are how often each is used in all, and the
    chance to stay (`Routes` in the recorder)."""
    stays, steps = 0.3, len({step for step, _ in uses})
    count = Counter(expert for _, expert in uses)
    active: dict[str, list[tuple[int, int]]] = defaultdict(list)  # by layer: step and expert, the latest
    there: set[int] = set()
    missed = 0
    for step, expert in uses:
        now = active[layer_of[expert]]
        if now and now[0][0] != step:
            now.clear()
        now.append((step, expert))
        if expert in there:
            continue
        missed += step >= first
        if len(there) >= slots:
            using = {one for _, one in now}
            likely = {one for latest in active.values() for _, one in latest}
            there.remove(min(sorted(there - using), key=lambda one: count[one] / steps * (1 - stays) + stays * (one in likely)))
        there.add(expert)
    return missed


def least_expected(uses: list[tuple[int, int]], slots: int, first: int, place_of: dict[int, tuple[int, int]]) -> float:
    """Counts the fetches below which no policy without foresight can stay, on average over the tokens that the router may draw next (`Routes` in the recorder).

    Before a token at most `slots` experts are there, and each hits with its chance. What is fetched ahead of its use is a fetch, too, and hits with its
    chance, at most once. So of a token's uses at most the sum of the `slots` highest chances are no fetches. Chances are counted in draws.
    """
    stays, active, draws, chance = 0.3, 4, 1000, random.Random(1)
    layers, number = (1 + max(place[i] for place in place_of.values()) for i in (0, 1))
    routes = random.Random(20)  # as in the recorder
    weights = []
    for _ in range(layers):
        ranks = list(range(1, number + 1))
        routes.shuffle(ranks)
        weights.append([1 / rank for rank in ranks])
    tokens: dict[int, list[list[int]]] = defaultdict(lambda: [[] for _ in range(layers)])
    for step, expert in uses:
        layer, which = place_of[expert]
        tokens[step][layer].append(which)
    fetched = 0.0
    for step in sorted(tokens):
        if step < first:
            continue
        hits: list[int] = []
        for layer in range(layers):
            drawn = [0] * number
            for _ in range(draws):
                kept = {which for which in tokens[step - 1][layer] if chance.random() < stays}
                while len(kept) < active:
                    kept.add(chance.choices(range(number), weights[layer])[0])
                for which in kept:
                    drawn[which] += 1
            hits += drawn
        fetched += sum(map(len, tokens[step])) - sum(sorted(hits)[-slots:]) / draws
    return fetched


def experts(command: Command, build: pathlib.Path) -> dict[str, Any]:
    trace = TRACES / f"{EXPERTS}.jsonl.gz"
    contents = read(trace)
    sizes = {contents.sizes[b] for b in contents.sizes if contents.is_expert(b)}
    (size,) = sizes
    slots = sum(map(contents.is_expert, contents.sizes)) // EXPERT_SHARE
    in_pages = -(-size // OWN_PAGES) * OWN_PAGES
    rest = sum(n for b, n in contents.sizes.items() if not contents.is_expert(b))
    budget = rest + slots * in_pages + 64 * MIB
    steps = max(step for step, _ in contents.uses)
    first = math.ceil((steps + 1) * WARM)
    timeline = build / "bench/inference.timeline.json"
    fetches = {}
    for policy in ("lru", "reactive", "learned"):
        for flags in ((), ("--exact", *command.uploads("all"))):
            command.replay(trace, budget, "--policy", policy, "--no-check", "--timeline", str(timeline), *flags)
            events = [event for event in json.loads(timeline.read_text()) if event["ph"] == "X"]
            # Each token ends with one. Behind the last one the replay reads all that there is.
            ends = sorted(event["ts"] + event["dur"] for event in events if event["name"] == "argmax")
            fetches[policy + ("_exact" if flags else "")] = sum(
                event["name"] == "copy to device" and event["args"]["bytes"] == size and ends[first - 2] <= event["ts"] <= ends[-1] for event in events
            )
    timeline.unlink()
    names = {b: tag.split(".experts.") for b, tag in contents.tags.items() if contents.is_expert(b)}
    place_of = {b: (int(layer.split(".")[-1]), int(expert.split(".")[0])) for b, (layer, expert) in names.items()}
    return {
        "workload": EXPERTS,
        "experts": slots * EXPERT_SHARE,
        "room_for": slots,
        "expert_bytes": size,
        "budget_bytes": budget,
        "from_step": first,
        "uses": sum(step >= first for step, _ in contents.uses),
        "belady": misses(contents.uses, slots, first, "belady"),
        "lru_of_experts_alone": misses(contents.uses, slots, first, "lru"),
        "chances_known": misses_by_chance(contents.uses, slots, first, {b: tag.split(".experts.")[0] for b, tag in contents.tags.items()}),
        "least_expected": round(least_expected(contents.uses, slots, first, place_of)),
        "most_frequent": misses_of_most_frequent(contents.uses, slots, first),
        "fetches": fetches,
    }


def printed(row: dict[str, Any]) -> str:
    over = "-" if row["over_bound"] is None else f"{row['over_bound']:.3f}"
    return (
        f"{row['workload']:22} {row['budget_percent']:3} % {'exact' if row['exact'] else '':6} {row['step_ms']:9.2f} {row['compute_ms']:9.2f} {row['in_ms']:9.2f}"
        f" {row['ratio']:6.3f} {over:>6} {row['out_bytes_per_step'] / MIB:9.0f} {row['weight_bytes_out_again'] / MIB:9.0f} {row['resident_percent']:6.1f}"
    )


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments[0].startswith("-"):
        sys.exit(__doc__)
    build = pathlib.Path(arguments[0])
    names = arguments[1:] or sorted(path.name.removesuffix(".jsonl.gz") for path in TRACES.glob("*.jsonl.gz"))
    (build / "bench").mkdir(exist_ok=True)
    command, bounds = Command(build), json.loads((TRACES / "bounds.json").read_text())
    rows = []
    print("workload               budget             step   compute        in  ratio  bound   out MiB again MiB  stays")
    for name in names:
        trace = TRACES / f"{name}.jsonl.gz"
        contents = read(trace)
        for percent in PERCENTS:
            for exact in (True, False):
                rows.append(row_of(command, trace, contents, percent, exact, bounds))
                print(printed(rows[-1]), flush=True)
    found = experts(command, build) if EXPERTS in names else None
    if found is not None:
        print(json.dumps(found))
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    about = {"schema": "thermocline-bench-inference/1", "command": "./dev bench inference", "device": "reference", "commit": commit or "unknown"}
    about |= {"date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(), "experts": found}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in about.items()]
    body = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    (build / "bench/inference.json").write_text("{\n" + "\n".join(lines) + '\n  "rows": [\n' + body + "\n  ]\n}\n")
    if not all(row["keeps_promises"] for row in rows):
        sys.exit("bench_inference.py: other results than without a limit, a race, or more than the budget")


if __name__ == "__main__":
    main()
