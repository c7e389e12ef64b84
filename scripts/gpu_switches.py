#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The acceptance run under every driver that is wrong on purpose: gpu_switches.py BUILD_FOLDER [SWITCH...]

For each switch of the register of assumptions (docs/driver_assumptions.md), or the ones named, one run of gpu.py on the simulated device, a
minute each. Writes bench/results/driver_switches.json; a run of some renews their rows. Exit status 1: something was not right: an assumption
or a rule that does not belong to the switch failed, or a program printed something else and was not refused clearly.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "bench" / "results" / "driver_switches.json"
DEVICE = "reference"
SECTIONS = ("assumptions", "conformance", "programs", "digits")
SECONDS = 460


def switches_of(build: Path) -> list[str]:
    done = subprocess.run([build / "bin" / "thermocline", "doctor", "--assumptions"], capture_output=True, text=True, check=True)
    found = [switch for row in json.loads(done.stdout)["assumptions"] for switch in row["switches"]]
    return list(dict.fromkeys(found))


def acceptance_run(build: Path, switch: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-B", str(ROOT / "scripts" / "gpu.py"), str(build), "--simulate", DEVICE, "--driver", switch]
        command += ["--output", folder, "--seconds", str(SECONDS), *(word for name in SECTIONS for word in ("--only", name))]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return json.loads(next(Path(folder).glob("gpu-*.json")).read_text())


def row_of(switch: str, report: dict) -> dict:
    sections = report["sections"]
    row: dict = {"switch": switch, "commit": report["about"]["commit"]}
    for name, section in sections.items():
        row[name] = section["outcome"] + (f": {section['reason']}" if section.get("reason") else "")
    row["other_rules_that_disagree"] = sections["conformance"].get("disagree", [])
    for kind in ("different", "refused", "unsupported"):
        row[f"programs_{kind}"] = [one["program"] for one in sections["programs"].get(kind, [])]
    return row


def main(words: list[str]) -> int:
    if not words or words[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(words[0]).resolve()
    if not (build / "bin" / "thermocline").exists():
        print(f"gpu_switches: {build} has no bin/thermocline: name a build folder (./dev build release makes build/release)", file=sys.stderr)
        return 2
    known = switches_of(build)
    unknown = [switch for switch in words[1:] if switch not in known]
    if unknown:
        print(f"gpu_switches: not in the register: {' '.join(unknown)}; it has {' '.join(known)}", file=sys.stderr)
        return 2
    switches = words[1:] or known
    kept = json.loads(RESULT.read_text())["rows"] if words[1:] and RESULT.exists() else []
    rows = {row["switch"]: row for row in kept}
    for switch in switches:
        rows[switch] = row_of(switch, acceptance_run(build, switch))
        print(switch, *(f"{name}={rows[switch].get(name, 'not run')}" for name in SECTIONS), flush=True)
        about = {"schema": "thermocline-driver-switches/1", "device": DEVICE, "date": str(datetime.date.today())}
        lines = ",\n".join("  " + json.dumps(row) for row in rows.values())
        RESULT.write_text(json.dumps(about)[:-1] + ', "rows": [\n' + lines + "\n]}\n")
    return 0 if all(rows[switch].get(name, "").startswith(("right", "skipped")) for switch in switches for name in SECTIONS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
