#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/driver_assumptions.md from the register: assumptions.py [--check] THERMOCLINE

THERMOCLINE is the built command. Answers of GPUs come from bench/results/gpu-*.json, the table of NVIDIA's libraries from
bench/results/nvidia_libraries.json. --check writes nothing and exits 1 if the page is out of date. Run it in the repository.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

PAGE = pathlib.Path("docs/driver_assumptions.md")
RESULTS = pathlib.Path("bench/results")

HEAD = """# Assumptions about drivers

The library's assumptions where CUDA's documentation is silent or ambiguous, or where public reports contradict it. This page is made from the
register in `driver/assumptions_of_*.cc` by `scripts/assumptions.py`; make changes there.

- **checked by**: rules of [conformance](conformance.md); *at the start*: probed when an engine is created (`driver/probes.h`), in the program's own
  context, with {calls} driver calls (`host_memory`: with the first host page; `mapping_waits`: before a stream is first blocked); *not checked*, and
  why.
- **switch**: makes the simulated driver violate the assumption, `THERMOCLINE_SIMULATE_DRIVER=alias=off,queue=100`
  ([faults](faults.md#a-driver-that-is-wrong-on-purpose)).
- **seen**: what GPUs answered in `./dev gpu`.

A mechanism that fails its probe at the start is not used; the library logs that once and counts it (`missing_mechanisms`). With `strict = true`
allocations fail instead. `thermocline doctor --gpu` makes the same probes and further checks without a program.
"""

SUBJECTS = {
    "mapping": "Mapping and physical memory",
    "work": "Order, work and its memory",
    "surroundings": "Queries, other software and environments",
}


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def asked_by(row: dict) -> str:
    ways = ["*at the start*: `" + row["at_start"] + "`"] if row["at_start"] else []
    ways += ["`" + rule + "`" for rule in row["rules"]]
    return ", ".join(ways) or "*not checked*: " + row["no_probe"]


def seen_on_gpus() -> dict[str, list[str]]:
    seen: dict[str, list[str]] = {}
    for path in sorted(RESULTS.glob("gpu-*.json")):
        report = json.loads(path.read_text())
        if "(simulated)" in report["about"]["device"]:
            continue
        for row in report.get("register", []):
            if row["seen"] != "not checked":
                seen.setdefault(row["id"], []).append(f"{row['seen']} ({report['about']['device']}, driver {report['about']['driver']})")
    return seen


def table(rows: list[dict], seen: dict[str, list[str]]) -> str:
    head = ["id", "assumption", "source", "simulated device", "if it is false", "checked by", "fallback", "seen on a GPU"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        switches = ", ".join("`" + switch + "`" for switch in row["switches"])
        lines.append(
            [
                "`" + row["id"] + "`",
                row["relies"],
                row["source"],
                row["simulator"] + ("; switch: " + switches if switches else "; no switch"),
                row["breaks"],
                asked_by(row),
                row["fallback"],
                "; ".join(seen.get(row["id"], [])) or "not yet",
            ]
        )
    return "".join("| " + " | ".join(cell(c) for c in line) + " |\n" for line in lines)


def libraries() -> str:
    path = RESULTS / "nvidia_libraries.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    lines = [["library", "version", "driver functions asked for", "of these unknown to Thermocline", "with Thermocline"], ["---"] * 5]
    for row in result["rows"]:
        unknown = ", ".join("`" + name + "`" for name in row["unknown"]) or "none"
        lines.append([row["library"], row["version"], str(row["symbols"]), unknown, row["outcome"]])
    text = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    return (
        "\n## NVIDIA's libraries with a driver that has no device\n\n"
        "Each library is loaded and called twice, with and without Thermocline preloaded. Their driver is the `libcuda.so.1` of `tests/no_device/`: it "
        "exports every function that Thermocline knows, answers `CUDA_ERROR_NO_DEVICE` and logs its calls; `cuGetExportTable` returns an error. "
        "*The same*: equal answers, and equal driver calls in equal order. Functions that Thermocline does not know reach the driver unchanged. "
        f"{result['about']} To renew it from a folder of wheels: "
        "`scripts/nvidia_libraries.py build/release --output bench/results/nvidia_libraries.json FOLDER`.\n\n" + text
    )


def page(command: str) -> str:
    done = subprocess.run([command, "doctor", "--assumptions"], stdout=subprocess.PIPE, check=True, text=True)
    register = json.loads(done.stdout)
    seen = seen_on_gpus()
    text = HEAD.replace("{calls}", str(register["calls_at_start"]))
    for subject, title in SUBJECTS.items():
        rows = [row for row in register["assumptions"] if row["subject"] == subject]
        text += f"\n## {title}\n\n" + table(rows, seen)
    return text + libraries()


def main(words: list[str]) -> int:
    check = words[:1] == ["--check"]
    if len(words) - check != 1:
        print(__doc__, file=sys.stderr)
        return 2
    text = page(words[-1])
    if not check:
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print(f"{PAGE} is out of date: run scripts/assumptions.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
