#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/driver_assumptions.md from the register: assumptions.py [--check] THERMOCLINE

THERMOCLINE is the built command; what GPUs answered comes from bench/results/gpu-*.json, what NVIDIA's libraries asked for from
bench/results/nvidia_libraries.json. With --check nothing is written, and status 1 says that the page differs. Run in the repository.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

PAGE = pathlib.Path("docs/driver_assumptions.md")
RESULTS = pathlib.Path("bench/results")

HEAD = """# What is assumed of drivers

Nothing of this project has run on a GPU, so what it relies on is written down: each thing that the documentation of CUDA leaves open, is silent
about, or that has been found wanting in public. Made from the register in `driver/assumptions_of_*.cc` by `scripts/assumptions.py`, so it is
changed there.

- **asked by**: rules of [conformance](conformance.md) by their names; *at the start*: tried when an engine begins (`driver/probes.h`), in
  the program's own context, with {calls} calls of the driver; *not asked*, and why.
- **switch**: makes the simulated device wrong on purpose, `THERMOCLINE_SIMULATE_DRIVER=alias=off,queue=100` ([faults](faults.md)).
- **seen**: what GPUs answered (`./dev gpu`); *not yet* where none has.

What fails at the start is switched off, said once on stderr and counted (`missing_mechanisms`); `thermocline doctor --gpu` tries the same without a
program, and what else can be asked at once. With `strict = true` nothing is done without: allocations fail in place of that.
"""

SUBJECTS = {
    "mapping": "Mapping and physical memory",
    "work": "Order, work and its memory",
    "surroundings": "What programs ask, and surroundings",
}


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def asked_by(row: dict) -> str:
    ways = ["*at the start*: `" + row["at_start"] + "`"] if row["at_start"] else []
    ways += ["`" + rule + "`" for rule in row["rules"]]
    return ", ".join(ways) or "*not asked*: " + row["no_probe"]


def seen_on_gpus() -> dict[str, list[str]]:
    seen: dict[str, list[str]] = {}
    for path in sorted(RESULTS.glob("gpu-*.json")):
        report = json.loads(path.read_text())
        if "(simulated)" in report["about"]["device"]:
            continue
        for row in report.get("register", []):
            if row["seen"] != "not asked":
                seen.setdefault(row["id"], []).append(f"{row['seen']} ({report['about']['device']}, driver {report['about']['driver']})")
    return seen


def table(rows: list[dict], seen: dict[str, list[str]]) -> str:
    head = ["assumption", "relied on", "source", "the simulated device", "if it does not hold", "asked by", "without it", "seen on a GPU"]
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
    lines = [["library", "version", "symbols asked for", "of these unknown to our table", "with and without the library"], ["---"] * 5]
    for row in result["rows"]:
        unknown = ", ".join("`" + name + "`" for name in row["unknown"]) or "none"
        lines.append([row["library"], row["version"], str(row["symbols"]), unknown, row["outcome"]])
    text = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    return (
        "\n## NVIDIA's libraries against a driver without a device\n\n"
        "Each is loaded and called beside a `libcuda.so.1` of ours that has every function of the table, answers `CUDA_ERROR_NO_DEVICE`, and "
        "writes down what it is asked for (`tests/no_device/`), alone and under the preloaded library. What has to be equal: the answers, "
        f"the calls and their order. Their undocumented tables (`cuGetExportTable`) are not imitated. {result['about']} "
        "`scripts/nvidia_libraries.py build/release --output bench/results/nvidia_libraries.json FOLDER` renews it from a folder of wheels.\n\n" + text
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
    print(f"{PAGE}: not what the register says; scripts/assumptions.py renews it", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
