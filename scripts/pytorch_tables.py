# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/pytorch.md about fit() and compile_budget() (scripts/tables.py)."""

from __future__ import annotations

from collections.abc import Callable

from table_cells import results, table


def pytorch_fit() -> str:
    found = results("pytorch_fit")
    blocks = {row["model"]: row for row in found["against_checkpoint_by_blocks"] if row["checkpointed"] == "each block"}

    def cells(row: dict) -> list[str]:
        def mib(of: dict, key: str) -> str:
            return f"{of[key] / 2**20:.2f}"

        def more(of: dict, key: str) -> str:
            return f"{100 * of[key] / of['flops']:.1f} %"

        half = [row["model"], mib(row, "whole_peak_bytes"), mib(row, "fit_peak_bytes"), more(row, "fit_recomputed_flops")]
        block = blocks.get(row["model"])
        if block is None:
            return [*half, "-", "-", "-"]
        return [*half, mib(block, "peak_bytes"), more(block, "blocks_recomputed_flops"), more(block, "fit_recomputed_flops")]

    head = ["model", "whole, MiB", 'with "50%"', "more flops", "each block checkpointed, MiB", "more flops", "`fit()` in that, more flops"]
    return table(head, [cells(row) for row in found["half"]])


def pytorch_overhead() -> str:
    def cells(name: str, of: dict) -> list[str]:
        return [name, f"{of['plain']:.1f}", *(f"{of[key] - of['plain']:.1f}" for key in ("empty_mode", "fit"))]

    head = ["operators", "plain, us", "in an empty mode, more", "in a step of `fit()`, more"]
    return table(head, [cells(name, of) for name, of in results("pytorch_fit")["microseconds_an_operator"].items()])


def pytorch_models() -> str:
    found = results("pytorch_models")
    keys = dict.fromkeys((row["model"], row["dtype"]) for row in found["eager"])

    def of(kind: str, key: tuple[str, str]) -> list[dict]:
        return [row for row in found[kind] if (row["model"], row["dtype"]) == key]

    def mib(count: int) -> str:
        return f"{count / 2**20:,.1f}"

    def cells(key: tuple[str, str]) -> list[str]:
        eager, compiled = of("eager", key), of("compiled", key)
        peaks = ", ".join(mib(row["peak_bytes"]) for row in eager)
        budgets = ", ".join(mib(row["budget_bytes"]) for row in eager)
        saved = ", ".join(mib(row["saved_bytes"]) for row in compiled)
        equal = all(row["same_bits"] for row in (*eager, *compiled))
        whole = mib(compiled[0]["whole_bytes"]) if compiled else "-"
        return [*key, mib(eager[0]["whole_bytes"]), budgets, peaks, whole, saved or "-", "yes" if equal else "no"]

    head = ["model", "type", "whole, MiB", "budgets", "peaks", "saved whole", "saved within the same parts of the way", "bits of plain PyTorch"]
    return table(head, [cells(key) for key in keys])


def in_kib(head: list[str], rows: list[dict], first: Callable[[dict], list[str]], *names: str) -> str:
    return table(head, [[*first(row), *(str(round(row[name] / 1024)) for name in names), "yes" if row["bits_equal"] else "no"] for row in rows])


def fit_states() -> str:
    head = ["model, KiB", "parameters", "whole", 'with "50%": budget', "peak predicted", "peak measured", "bits of plain PyTorch"]
    names = ("parameter_bytes", "whole_peak_bytes", "budget_bytes", "predicted_peak_bytes", "peak_bytes")
    return in_kib(head, results("pytorch_fit_states")["half"], lambda row: [row["model"]], *names)


def fit_cpu_step() -> str:
    head = ["model, KiB", "parameters updated in host memory", "moved in a step without", "with", "budget", "peak", "bits of plain PyTorch"]
    names = ("crossed_bytes", "crossed_bytes_auto", "budget_bytes", "peak_bytes")
    first = lambda row: [row["model"], f"{row['updated_on_host']} of {row['parameters']}"]  # noqa: E731
    return in_kib(head, results("pytorch_fit_states")["cpu_step"], first, *names)


TABLES: dict[str, Callable[[], str]] = {
    "fit-states": fit_states,
    "fit-cpu-step": fit_cpu_step,
    "pytorch-fit": pytorch_fit,
    "pytorch-models": pytorch_models,
    "pytorch-overhead": pytorch_overhead,
}
