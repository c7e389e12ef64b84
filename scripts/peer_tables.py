# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/measurements.md on other allocators beside ours (scripts/tables.py), from bench/results/peers.json."""

from __future__ import annotations

from collections.abc import Callable

from table_cells import TITLES, fixed, results, table

OURS = "thermocline"
SEQUENCES = {
    "hit": "hit",
    "churn-1000-1024k": "churn to 1 MiB, 1,000 live",
    "churn-20000-1024k": "churn to 1 MiB, 20,000 live",
    "churn-100000-1024k": "churn to 1 MiB, 100,000 live",
    "churn-1000-65536k": "churn to 64 MiB, 1,000 live",
    "handed-over": "freed by another thread",
    **TITLES,
    "two-threads-hit": "hit",
    "two-threads-churn-1000-1024k": "churn to 1 MiB, 1,000 live",
}


def found() -> dict[tuple[str, str], dict]:
    return {(row["sequence"], row["allocator"]): row for row in results("peers")["rows"]}


def allocators() -> list[str]:
    return list(dict.fromkeys(row["allocator"] for row in results("peers")["rows"]))


def named(start: str) -> str:
    return next(name for name in allocators() if name.startswith(start))


def sequences(rows: dict[tuple[str, str], dict], two_threads: bool) -> list[str]:
    played = {sequence for sequence, _ in rows}
    return [name for name in SEQUENCES if name in played and name.startswith("two-threads-") == two_threads]


def by_allocator(head: str, two_threads: bool, names: Callable[[str], bool], cell: Callable[[dict], str]) -> str:
    rows = found()
    body = [
        [SEQUENCES[sequence], *(cell(rows[sequence, name]) if (sequence, name) in rows else "-" for name in allocators())]
        for sequence in sequences(rows, two_threads)
        if names(sequence)
    ]
    return table([head, *allocators()], body)


def time() -> str:
    def cell(row: dict) -> str:
        return f"{row['ns']:,.{1 if row['ns'] < 100 else 0}f}" + ("" if row["allocator"] == OURS else f" ({row['ratio']:.2f})")

    return by_allocator("ns (median ratio to ours)", False, lambda _: True, cell)


def instructions() -> str:
    return by_allocator("instructions", False, lambda _: True, lambda row: f"{row['instructions']:,}" if "instructions" in row else "-")


def reserved() -> str:
    def worth_it(sequence: str) -> bool:
        return sequence in TITLES or sequence.startswith("churn")

    return by_allocator("reserved / live", False, worth_it, lambda row: fixed(row["reserved_per_live"], 3))


def threads() -> str:
    def cell(row: dict) -> str:
        return f"{row['alone_ns']:,.0f}, {row['ns']:,.0f} ({row['over_alone']:.2f})"

    return by_allocator("ns: one thread, two threads (ratio)", True, lambda _: True, cell)


def goals() -> str:
    """The table of goals; each is an upper limit."""
    rows, onnx, torch = found(), named("ONNX"), named("PyTorch")
    body = []

    def line(what: str, goal: float, value: float, digits: int = 2) -> None:
        body.append([what, f"{goal:.{digits}f}", f"{value:.{digits}f}", "yes" if value <= goal else "**no**"])

    def time_over(sequence: str, other: str, goal: float) -> None:
        line(f"{SEQUENCES[sequence]}: time over {other}'s", goal, 1 / rows[sequence, other]["ratio"])

    for live in (1000, 20000, 100000):
        time_over(f"churn-{live}-1024k", onnx, 0.6)
        time_over(f"churn-{live}-1024k", torch, 0.35)
    for step in ("gpt2_b8", "resnet50_b64"):
        time_over(step, onnx, 1)
        time_over(step, torch, 1)
    for step in TITLES:
        if (step, OURS) in rows:
            held, *others = (rows[step, name]["reserved_per_live"] for name in (OURS, onnx, torch))
            line(f"{SEQUENCES[step]}: reserved / live (1.02, and what both hold)", min(1.02, *others), held, 3)
    for sequence in sequences(rows, True):
        line(f"two threads, {SEQUENCES[sequence]}: time over one thread's", 1.3, rows[sequence, OURS]["over_alone"])
    return table(["", "goal: at most", "found", "reached"], body)


TABLES: dict[str, Callable[[], str]] = {
    "peers-time": time,
    "peers-instructions": instructions,
    "peers-reserved": reserved,
    "peers-threads": threads,
    "peers-goals": goals,
}
