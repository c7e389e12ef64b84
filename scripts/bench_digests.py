#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays recorded steps on device `reference` with three degrees of knowledge: directions of every operator (--exact), digests, and neither.

    scripts/bench_digests.py BUILD_FOLDER [WORKLOAD...]

Traffic is what was copied out and in. `first`: of the first six of twelve steps, in which the plan is learned; `last`: of the last six. One more run with digests is in an adversarial order.

Writes BUILD_FOLDER/bench/digests.json, which bench/results keeps; docs/directions.md has the table. With WORKLOADs, only their rows are made, and the file has only these.
Fails if there is a race, or if a checksum is not that of --exact.
"""

from __future__ import annotations

import datetime
import json
import pathlib
import subprocess
import sys

TRACES = pathlib.Path("bench/traces")
# At smaller budgets one operator of some of these does not fit.
PERCENTS = {
    "resnet50_b64": (60, 50, 40),
    "gpt2_b8": (60, 50, 40),
    "unet3d_b1_128": (60, 50),
    "cifar_resnet1001_b64": (60, 50, 40),
    "nmt_b128_t50": (80, 70),
    "vgg16_b32": (60, 50, 40),
}
KNOWLEDGE = {"exact": ["--exact"], "digests": ["--digests"], "neither": []}
STEPS, LEARNING = 12, 6
SEED = 1


def replay(build: pathlib.Path, workload: str, percent: int, flags: list[str]) -> dict:
    command = [str(build / "bin/thermocline"), "replay", str(TRACES / f"{workload}.jsonl.gz"), "--budget", f"{percent}%", "--steps", str(STEPS), "--no-bound", "--json"]
    done = subprocess.run(command + flags, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench_digests: {' '.join(command + flags)}: {done.stderr or done.stdout}")
    return json.loads(done.stdout)


def row_of(build: pathlib.Path, workload: str, percent: int) -> dict:
    row: dict = {"workload": workload, "budget_percent": percent}
    runs = {name: replay(build, workload, percent, flags) for name, flags in KNOWLEDGE.items()}
    runs["seed"] = replay(build, workload, percent, ["--digests", "--seed", str(SEED)])
    for name, run in runs.items():
        if run["races"] != 0 or run["checksum"] != runs["exact"]["checksum"]:
            raise SystemExit(f"bench_digests: {workload} at {percent} %, {name}: {run['races']} races, checksum {run['checksum']}")
    for name in KNOWLEDGE:
        traffic = [step["evicted_bytes"] + step["restored_bytes"] for step in runs[name]["steps"]]
        row[name] = {"first_bytes": sum(traffic[:LEARNING]), "last_bytes": sum(traffic[LEARNING:]), "step_ms": round(runs[name]["steady_step_ms"], 3)}
    row["digests"] |= {"digests": runs["digests"]["digests"], "uncopied_bytes": runs["digests"]["uncopied_bytes"]}
    return row


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    build, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(PERCENTS)
    rows = []
    for workload in wanted:
        for percent in PERCENTS[workload]:
            rows.append(row_of(build, workload, percent))
            print(json.dumps(rows[-1]), flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    head = {"schema": "thermocline-bench-digests/1", "device": "reference", "steps": STEPS, "commit": commit, "date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    text = json.dumps(head)[:-1] + ', "rows": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]}\n"
    (build / "bench").mkdir(exist_ok=True)
    (build / "bench/digests.json").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
