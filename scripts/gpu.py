# SPDX-License-Identifier: Apache-2.0
"""The acceptance run: what `./dev gpu` does once the programs are built.
gpu.py BUILD [--simulate DEVICE [--driver SWITCHES]] [--short] [--only SECTION]...

Each section runs in a process of its own with a time limit, so a section that loses its context, hangs or is killed does not affect the others.
The JSON file has a section's results as soon as it ends, and at the end the register of assumptions (docs/driver_assumptions.md) with what was
expected and seen: one file to attach to a report. Needs Python 3.9 and no packages; uses PyTorch if it is installed.
Status: 0 all sections are right, 1 one is not, 2 wrong usage, 4 no usable GPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from gpu_report import answered, markdown
from gpu_sections import ROOT, SECTIONS, Failed, Machine, Skipped, register_of

# Limit of the whole run in seconds.
TOTAL = 460


def about(machine: Machine) -> dict:
    def said(*command: str) -> str:
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=30, cwd=ROOT,
                env=machine.environment(),
            )  # fmt: skip
            return done.stdout.strip() if done.returncode == 0 else ""
        except (OSError, subprocess.TimeoutExpired):
            return ""

    commit_file = machine.build / "commit"
    facts = {
        "device": f"{machine.simulate} (simulated)" if machine.simulate else "",
        "driver": "",
        "commit": said("git", "rev-parse", "HEAD") or (commit_file.read_text().strip() if commit_file.exists() else "unknown"),
        "version": said(machine.command, "--version"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }
    if not machine.simulate:
        query = said("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "-i", "0").split(", ")
        facts["device"], facts["driver"] = query if len(query) == 2 else ("unknown", "unknown")
        facts["torch"] = said(sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda)")
    return facts


# Limit of each section in seconds; then it is killed.
LIMITS = {
    "assumptions": 30, "conformance": 200, "programs": 240, "digits": 200, "frameworks": 300, "probe": 250, "digests": 70,
    "pytorch": 460, "sanitizer": 130,
}  # fmt: skip


def run_apart(name: str, machine: Machine, words: list[str]) -> dict:
    """Runs the section in a process of its own."""
    begin = time.monotonic()
    into = machine.work / f"section-{name}.json"
    limit = min(LIMITS[name], machine.end - begin)
    command = [sys.executable, "-B", __file__, *words, "--seconds", str(limit), "--section", name, "--into", str(into)]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        child.wait(limit + 5)
    except subprocess.TimeoutExpired:
        # Its children, too. A process that sleeps in the driver cannot be ended; it is left behind.
        os.killpg(child.pid, 9)
    if into.exists():
        return json.loads(into.read_text())
    reason = f"ended by signal {-child.returncode}" if (child.returncode or 0) < 0 else f"no result after {time.monotonic() - begin:.0f} s"
    print(f"  {name:12} failed   {time.monotonic() - begin:6.1f} s  {reason}", file=sys.stderr)
    return {"outcome": "failed", "reason": reason, "seconds": time.monotonic() - begin}


def run_section(name: str, machine: Machine) -> dict:
    begin = time.monotonic()
    try:
        if machine.end - begin < 2:
            raise Skipped("out of time")
        section = SECTIONS[name](machine)
        section["outcome"] = "right" if section.pop("right") else "wrong"
    except Skipped as reason:
        section = {"outcome": "skipped", "reason": str(reason)}
    except Exception as error:  # noqa: BLE001: a section that breaks must not take the others with it
        section = {"outcome": "failed", "reason": f"{type(error).__name__}: {error}" if not isinstance(error, Failed) else str(error)}
    section["seconds"] = time.monotonic() - begin
    print(f"  {name:12} {section['outcome']:8} {section['seconds']:6.1f} s  {section.get('reason', '')}", file=sys.stderr)
    return section


def as_lines(report: dict) -> str:
    """JSON with a line for each section: whole files are read by programs, and parts of them by people."""
    parts = ["{"]
    for key, value in report.items():
        comma = "," if key != list(report)[-1] else ""
        if key == "sections":
            rows = [f"  {json.dumps(name)}: {json.dumps(section)}" for name, section in value.items()]
            parts.append(f' "sections": {{\n' + ",\n".join(rows) + f"\n }}{comma}")
        elif key == "register":
            parts.append(f' "register": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in value) + f"\n ]{comma}")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}{comma}")
    return "\n".join([*parts, "}"]) + "\n"


def write(path: Path, text: str) -> None:
    """Replaces the file at once: a run may end at any time."""
    beside = path.with_suffix(path.suffix + ".new")
    beside.write_text(text)
    beside.replace(path)


def kept_sections(path: Path, about: dict, renewed: list[str]) -> dict:
    """The sections of an earlier run on the same device and driver that are not run now; each names its commit."""
    try:
        earlier = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    if any(earlier.get("about", {}).get(key) != about.get(key) for key in ("device", "driver", "wrong on purpose")):
        return {}
    return {name: section for name, section in earlier.get("sections", {}).items() if name not in renewed}


def keep_conformance(report: dict, output: Path, slug: str, machine: Machine) -> None:
    answers = report["sections"].get("conformance", {}).pop("answers", None)
    if not answers or machine.simulate:
        return
    write(output / f"conformance-{slug}.json", json.dumps(answers) + "\n")
    results = sorted(str(path) for path in output.glob("conformance-*.json"))
    program = machine.build / "tests" / "conformance" / "conformance"
    page = machine.run([str(program), "--markdown", *results], 30)
    if page.returncode == 0 and (ROOT / "docs" / "conformance.md").exists():
        (ROOT / "docs" / "conformance.md").write_text(page.stdout)


def parsed(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The acceptance run.")
    parser.add_argument("build", type=Path)
    parser.add_argument("--simulate", metavar="DEVICE", help="what can be tried without a GPU, on a simulated device")
    parser.add_argument("--driver", default="", metavar="SWITCHES", help="with --simulate: switches of its driver (docs/faults.md)")
    parser.add_argument("--short", action="store_true", help="less of each section, as the tests want it")
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="this section (may be given again)")
    parser.add_argument("--seconds", help=f"the limit of the whole run (default: {TOTAL})")
    parser.add_argument("--log", type=Path, help="each command that was run, with the end of its output, goes to this file")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results", help="the folder for the results")
    for name in ("--section", "--into"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.driver and not arguments.simulate:
        parser.error("--driver is for --simulate")
    return arguments


def main(words: list[str]) -> int:
    arguments = parsed(words)
    seconds = float(arguments.seconds) if arguments.seconds else TOTAL
    machine = Machine(arguments.build.resolve(), arguments.simulate, arguments.driver, arguments.short, time.monotonic() + seconds)
    machine.log = arguments.log and arguments.log.absolute()
    if arguments.section:
        write(Path(arguments.into), json.dumps(run_section(arguments.section, machine)))
        shutil.rmtree(machine.work, ignore_errors=True)
        return 0
    if not machine.simulate and (shutil.which("nvidia-smi") is None or machine.run(["nvidia-smi", "-L"], 20).returncode != 0):
        print("gpu: this machine has no usable NVIDIA GPU (nvidia-smi -L); --simulate DEVICE needs none", file=sys.stderr)
        return 4
    report = {"schema": "thermocline-gpu/1", "about": about(machine), "sections": {}}
    if machine.driver:
        report["about"]["wrong on purpose"] = machine.driver
    slug = re.sub(r"[^a-z0-9]+", "-", report["about"]["device"].lower()).strip("-")
    arguments.output.mkdir(parents=True, exist_ok=True)
    base = arguments.output / f"gpu-{slug}"
    if arguments.only:
        report["sections"] = kept_sections(base.with_suffix(".json"), report["about"], arguments.only)
    for name in arguments.only or SECTIONS:
        report["sections"][name] = run_apart(name, machine, words) | {"commit": report["about"]["commit"]}
        write(base.with_suffix(".json"), as_lines(report))
    # The answers of an earlier run are in a file of their own.
    conformance, answers = report["sections"].get("conformance", {}), arguments.output / f"conformance-{slug}.json"
    if conformance.get("rules") and "answers" not in conformance and answers.exists():
        conformance["answers"] = json.loads(answers.read_text())
    try:
        report["register"] = answered(register_of(machine), report["sections"])
    except Failed as reason:
        print(f"gpu: no register: {reason}", file=sys.stderr)
    keep_conformance(report, arguments.output, slug, machine)
    write(base.with_suffix(".json"), as_lines(report))
    write(base.with_suffix(".md"), markdown(report))
    profile = report["sections"].get("probe", {}).get("profile")
    if profile:
        write(base.with_suffix(".toml"), profile)
    shutil.rmtree(machine.work, ignore_errors=True)
    print(f"gpu: wrote {base}.json, which holds all of it, and .md", file=sys.stderr)
    ran = [report["sections"][name] for name in arguments.only or SECTIONS]
    return 0 if all(section["outcome"] in ("right", "skipped") for section in ran) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
