#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions of an operation of examples/training while everything fits: launch_instructions.py BUILD_FOLDER

By callgrind, within the library alone, of the thread that launches, on the simulated device: those of 20 steps less those of 8, divided by the
operations between. More than half of the budget is live; with each setting that makes a launch look at more. (Before half is live
scripts/count_instructions.sh counts: there the difference of two runs is mostly how long the program waits.)
Prints JSON: launch_instructions.py build/release >bench/results/launch_instructions.json
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

STEPS = (8, 20)
SETTINGS = {"off": {}, "digests": {"THERMOCLINE_DIGESTS": "auto"}, "recompute": {"THERMOCLINE_RECOMPUTE": "auto"}}
BUDGET = "64MiB"
LIBRARY = "libthermocline.so"


def own_instructions(profile: pathlib.Path) -> int:
    """The instructions of functions in the library, without those of the functions that they call."""
    names: dict[str, str] = {}
    own, called, total = "", False, 0
    for line in profile.read_text().splitlines():
        if found := re.match(r"(c?)ob=\((\d+)\)(?: (.*))?", line):
            if found[3]:
                names[found[2]] = found[3]
            if not found[1]:
                own = found[2]
        elif line.startswith("calls="):
            called = True
        elif re.match(r"[\d+*-]\S* \d+$", line):
            # The line behind "calls=" has the instructions of the function that was called.
            if not called and LIBRARY in names.get(own, ""):
                total += int(line.split()[1])
            called = False
    return total


def run(build: pathlib.Path, budget: str, settings: dict[str, str], steps: int) -> tuple[int, dict]:
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--trace-children=yes", "--separate-threads=yes", f"--callgrind-out-file={folder}/out.%p"]
        command += [str(build / "bin/thermocline"), "run", "--simulate", "reference", "--budget", budget, "--stats=json", "--"]
        command += [str(build / "bin/examples/training"), "8", "8", str(steps)]
        environment = os.environ | {"THERMOCLINE_SIMULATE_KERNELS": "made-up"} | settings
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found = next(line for line in done.stderr.splitlines() if line.startswith('{"schema"'))
        # The first thread of each process; the program's is the one in which the library runs.
        return max(own_instructions(one) for one in pathlib.Path(folder).glob("out.*-01")), json.loads(found)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    build = pathlib.Path(sys.argv[1])
    rows = []
    for name, settings in SETTINGS.items():
        (first, few), (last, many) = (run(build, BUDGET, settings, steps) for steps in STEPS)
        operations = many["operations"] - few["operations"]
        rows.append({
            "setting": name, "instructions": round((last - first) / operations), "evicted_bytes": many["evicted_bytes"], "digests": many["digests"],
        })  # fmt: skip
    print(json.dumps({"schema": "thermocline-bench-launch-instructions/1", "program": "examples/training 8 8", "budget": BUDGET, "steps": STEPS, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
