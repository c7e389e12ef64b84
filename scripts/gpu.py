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
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
# Limit of the whole run in seconds.
TOTAL = 460


class Failed(Exception):
    """A section is not right; the text says how."""


class Skipped(Exception):
    """A section has nothing to run on; the text says what is missing."""


class Machine:
    """Where programs run: on this machine's GPU, or on a simulated one."""

    def __init__(self, build: Path, simulate: str | None, driver: str, short: bool, end: float) -> None:
        self.build, self.simulate, self.driver, self.short, self.end = build, simulate, driver, short, end
        self.command = str(build / "bin" / "thermocline")
        self.simulator = build / "lib" / "thermocline" / "simulator"
        self.work = Path(tempfile.mkdtemp(prefix="thermocline-gpu-"))
        # Where every command is logged, if anywhere.
        self.log: Path | None = None
        # Programs at the same time, where they do not measure: each begins with a context, which takes a GPU's driver a while.
        self.jobs = max(1, min(6, (os.cpu_count() or 1) // 2))

    def limit(self, seconds: float) -> float:
        return max(1.0, min(seconds, self.end - time.monotonic()))

    def environment(self) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("THERMOCLINE_") and k != "LD_PRELOAD"}
        # What the machine that packed has and this one may not (gpu.sh --pack).
        folders = [str(self.build / "carried")] if (self.build / "carried").is_dir() else []
        if self.simulate:
            folders.insert(0, str(self.simulator))
            env["THERMOCLINE_SIMULATE_DEVICE"] = self.simulate
        if self.driver:
            env["THERMOCLINE_SIMULATE_DRIVER"] = self.driver
        folders += [env["LD_LIBRARY_PATH"]] if env.get("LD_LIBRARY_PATH") else []
        if folders:
            env["LD_LIBRARY_PATH"] = ":".join(folders)
        return env

    def run(self, command: list[str], seconds: float, **more: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment() | more
        begin = time.monotonic()
        try:
            done = subprocess.run(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, errors="replace", timeout=self.limit(seconds), cwd=self.work,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            self.keep(command, time.monotonic() - begin, "took too long", error.stdout or b"", error.stderr or b"")
            raise Failed(f"{' '.join(command[:3])} ... took more than {error.timeout:.0f} s") from error
        self.keep(command, time.monotonic() - begin, f"status {done.returncode}", done.stdout, done.stderr)
        return done

    def keep(self, command: list[str], seconds: float, how: str, *texts: str | bytes) -> None:
        if self.log is None:
            return
        ends = [(t.decode(errors="replace") if isinstance(t, bytes) else t)[-6000:].rstrip() for t in texts]
        with open(self.log, "a") as file:
            file.write(f"=== {' '.join(command)}\n=== {how}, {seconds:.2f} s\n" + "".join(f"{text}\n---\n" for text in ends))

    def under_library(self, flags: list[str], command: list[str]) -> list[str]:
        where = ["--simulate", self.simulate] if self.simulate else []
        return [self.command, "run", *where, *flags, "--", *command]


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def statistic(text: str, name: str) -> int:
    found = re.findall(rf" {name}=(\d+)", text)
    if not found:
        raise Failed(f"the library printed no {name}")
    return int(found[-1])


def is_refusal(done: subprocess.CompletedProcess[str]) -> bool:
    """The library refused memory and said why."""
    return done.returncode != 0 and "thermocline: out of memory: " in done.stderr


def stands_aside(done: subprocess.CompletedProcess[str]) -> bool:
    return "the program runs without the library" in done.stderr


def register_of(machine: Machine) -> list[dict]:
    done = machine.run([machine.command, "doctor", "--assumptions"], 10)
    if done.returncode != 0:
        raise Failed(last_line(done.stderr) or f"status {done.returncode}")
    return json.loads(done.stdout)["assumptions"]


def switched_off(machine: Machine, register: list[dict]) -> list[dict]:
    """The assumptions that the driver violates on purpose (--driver)."""
    given = {statement.split("=")[0] for statement in machine.driver.split(",") if statement}
    return [row for row in register if given & {switch.split("=")[0] for switch in row["switches"]}]


def assumptions(machine: Machine) -> dict:
    """The assumptions that can be checked at once (doctor --gpu)."""
    done = machine.run([machine.command, "doctor", "--gpu", "--json"], 20)
    devices = json.loads(done.stdout)["gpu"] if done.stdout else []
    answers = next((device["answers"] for device in devices if device.get("device") == 0), [])
    if not answers:
        raise Failed(next((d["error"] for d in devices if "error" in d), last_line(done.stderr) or "no device answered"))
    expected = {row["id"] for row in switched_off(machine, register_of(machine))}
    wrong = [answer["id"] for answer in answers if answer["seen"] == "fails" and answer["id"] not in expected]
    return {"right": not wrong and all("error" not in d for d in devices), "fails": wrong, "asked": answers, "devices": devices}


def ask_rules(machine: Machine, name: str, rules: Iterable[str]) -> tuple[dict, bool]:
    """The answers to these rules, and whether all were asked."""
    out = machine.work / f"conformance-{name}.json"
    program = machine.build / "tests" / "conformance" / "conformance"
    done = machine.run([str(program), "--json", str(out), *(word for rule in rules for word in ("--rule", rule))], 200)
    if not out.exists():
        raise Failed(last_line(done.stderr) or f"status {done.returncode}")
    return json.loads(out.read_text()), done.returncode in (0, 1)


def conformance(machine: Machine) -> dict:
    """The rules that the simulated device is held to, asked of the driver alone.

    Several at a time; a rule that disagrees is asked again by itself, for others may have changed the free memory that it measured."""
    register = register_of(machine)
    # Rules of assumptions that the driver violates on purpose may disagree; others may not.
    excused = {rule for row in switched_off(machine, register) for rule in row["rules"]}
    named = sorted({rule for row in register for rule in row["rules"]}) if machine.short and machine.driver else []
    if not named:
        listed = machine.run([str(machine.build / "tests" / "conformance" / "conformance"), "--list"], 20)
        named = [line.split()[0] for line in listed.stdout.splitlines() if line]
    parts = [named[i :: machine.jobs] for i in range(machine.jobs)]
    with ThreadPoolExecutor(machine.jobs) as pool:
        asked = list(pool.map(lambda i: ask_rules(machine, str(i), parts[i]), range(machine.jobs)))
    answers, whole = asked[0][0], all(complete for _, complete in asked)
    found = {rule["name"]: rule for part, _ in asked for rule in part["rules"]}
    again = [name for name in named if found[name]["outcome"] == "disagrees"] if machine.jobs > 1 else []
    if again:
        found |= {rule["name"]: rule for rule in ask_rules(machine, "again", again)[0]["rules"]}
    answers["rules"] = [found[name] for name in named if name in found]
    counts = {outcome: 0 for outcome in answers["summary"]}
    for rule in answers["rules"]:
        counts[rule["outcome"]] += 1
    answers["summary"] = counts
    wrong = [rule["name"] for rule in answers["rules"] if rule["outcome"] == "disagrees" and rule["name"] not in excused]
    return {
        "right": not wrong and whole, "rules": {k: v for k, v in counts.items() if v}, "disagree": wrong, "asked_again": again,
        "answers": answers,
    }  # fmt: skip


def programs(machine: Machine) -> dict:
    """The small programs, one API path into device memory each: the same output under a budget below what they hold.

    A program that fails or takes too long without the library is listed as unsupported, with how. On a driver that violates assumptions
    (--driver) a clear refusal is right, too."""
    larger = {
        "copies/evicted_rows_to_host": "64MiB",
        "copies/larger_and_shifted": "80MiB",
        "copies/larger_than_the_room": "112MiB",
        "copies/over_the_ends_of_units": "42MiB",
        "copies/rows_larger_than_the_room": "80MiB",
        "copies/two_that_do_not_fit": "40MiB",
        "graphs/more_than_fits_at_once": "32MiB",
        "graphs/parts_of_large_buffers": "96MiB",
    }
    # They print what the library reports or refuses, which differs under a budget.
    about_the_library = {"contexts/memory_told", "copies/standing_on_all", "graphs/refused_while_recording", "memory/shared_between_processes"}
    # They do not end on an H200 (driver 580.159), even without the library: one thread waits in a driver call for what another does next, whose
    # calls probably wait for the first one's.
    hang_alone = {"copies/standing_elsewhere", "launches/full_queue"}
    folder = machine.build / "tests" / "programs" / "api_paths"
    found = sorted(p for kind in ("contexts", "copies", "graphs", "launches", "memory") for p in (folder / kind).glob("*"))
    found = [p for p in found if f"{p.parent.name}/{p.name}" not in about_the_library]
    if not found:
        raise Skipped(f"no programs in {folder}")
    if machine.short:
        found = found[::14]
    wrong, refused, unsupported = [], [], []

    def compare(program: Path) -> None:
        name = f"{program.parent.name}/{program.name}"
        if name in hang_alone and not machine.simulate:
            unsupported.append({"program": name, "says": "not run: hangs without the library"})
            return
        try:
            plain = machine.run([str(program)], 20)
        except Failed as reason:
            unsupported.append({"program": name, "says": str(reason)})
            return
        if plain.returncode != 0:
            unsupported.append({"program": name, "says": last_line(plain.stderr) or f"status {plain.returncode}"})
            return
        budget = larger.get(name, "20MiB")
        try:
            under = machine.run(machine.under_library(["--budget", budget], [str(program)]), 20)
        except Failed as reason:
            wrong.append({"program": name, "status": [plain.returncode, None], "says": str(reason)})
            return
        if (plain.returncode, plain.stdout) != (under.returncode, under.stdout):
            says = last_line(under.stderr) or last_line(plain.stderr)
            row = {"program": name, "status": [plain.returncode, under.returncode], "says": says}
            (refused if machine.driver and is_refusal(under) else wrong).append(row)

    with ThreadPoolExecutor(machine.jobs) as pool:
        list(pool.map(compare, found))
    right = not wrong and len(unsupported) < len(found)
    return {"right": right, "programs": len(found), "different": wrong, "refused": refused, "unsupported": unsupported}


def digits(machine: Machine) -> dict:
    """A CNN trained by CUDA C++: plain, under the library, and with a third of the memory that it uses."""
    # The simulated device needs the shared runtime; a GPU's machine need not have one of that version.
    program = machine.build / "bin" / "examples" / ("digits" if machine.simulate else "digits_static")
    if not program.exists():
        raise Skipped("built without nvcc")
    command = [str(program), "--epochs", "1" if machine.short else "3", str(ROOT / "examples" / "digits" / "digits.csv.gz")]

    plain = machine.run(command, 60)
    whole = machine.run(machine.under_library(["--stats=line"], command), 60)
    if machine.driver and plain.returncode != 0:
        raise Skipped(f"not on this driver: {last_line(plain.stderr)}")
    if plain.returncode != 0 or whole.returncode != 0:
        raise Failed(last_line(plain.stderr) or last_line(whole.stderr))
    if machine.driver and stands_aside(whole) and whole.stdout == plain.stdout:
        raise Skipped("the library stands aside on this driver; the output is the same")
    peak = statistic(whole.stderr, "peak_live_bytes")
    third = machine.run(machine.under_library(["--stats=line", "--budget", str(peak // 3)], command), 60)
    if machine.driver and is_refusal(third) and whole.stdout == plain.stdout:
        raise Skipped("a third of the memory is refused on this driver; the output is the same with all of it")
    moved = statistic(third.stderr, "evicted_bytes") if third.returncode == 0 else 0
    same = plain.stdout == whole.stdout == third.stdout
    return {"right": same and moved > 0, "same_output": same, "peak_live_bytes": peak, "evicted_bytes": moved}


def probe(machine: Machine) -> dict:
    """What allocations, mapping calls and the link cost; a profile of the device."""
    profile = machine.work / "device.toml"
    program = machine.build / "bench" / "gpu_probe"
    like = machine.simulate or profile_like(machine)
    source = f"measured by ./dev gpu, {datetime.date.today()}"
    if machine.simulate:
        source += ", on the simulated device"
    done = machine.run([str(program), "--profile", str(profile), like, source], 60)
    if machine.driver and re.search(r"error (2|801)$", done.stderr.strip()):
        raise Skipped(f"not on this driver: {last_line(done.stderr)}")
    if done.returncode != 0:
        raise Failed(last_line(done.stderr))
    figures = json.loads(done.stdout)
    trace = ROOT / "bench" / "traces" / "unet3d_b1_128.jsonl.gz"
    answer = machine.run([machine.command, "estimate", str(trace), "--device", str(profile), "--json"], 60, THERMOCLINE_SIMULATE_DRIVER="")
    result = {"right": answer.returncode == 0, "figures": figures, "profile": profile.read_text()}
    if answer.returncode == 0:
        result["estimate_of_unet3d"] = json.loads(answer.stdout)["devices"][0]
    if machine.short:
        return result
    pair = machine.run(machine.under_library([], [str(program)]), 60)
    if pair.returncode == 0:
        result["under_the_library"] = {k: v for k, v in json.loads(pair.stdout).items() if k.startswith("pair_")}
    return result


def profile_like(machine: Machine) -> str:
    """The known profile whose name is in the device's, for what is not measured."""
    done = machine.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "-i", "0"], 10)
    name = done.stdout.strip().lower().replace(" ", "-")
    known = json.loads(machine.run([machine.command, "devices", "--json"], 10).stdout)["devices"]
    near = [d["name"] for d in known if d["name"].split("-")[0] in name]
    return near[0] if near else "reference"


def model(machine: Machine, python: str, name: str, mode: str, flags: list[str] | None, *more: str) -> dict:
    command = [python, "-B", str(ROOT / "bench" / "gpu" / "models.py"), "--model", name, "--mode", mode, *more]
    if flags is not None:
        command = machine.under_library(["--stats=line", *flags], command)
    done = machine.run(command, 90, PYTHONPATH=str(ROOT / "integrations" / "pytorch" / "src"))
    if done.returncode != 0:
        return {"available": True, "outcome": "failed", "reason": last_line(done.stderr)}
    result = json.loads(last_line(done.stdout))
    if flags is not None:
        result["evicted_bytes"] = statistic(done.stderr, "evicted_bytes")
        result["peak_device_bytes"] = statistic(done.stderr, "peak_device_bytes")
    return result


def pytorch(machine: Machine) -> dict:
    """ResNet-50, GPT-2 and a U-Net: the same loss, and step times, beside what PyTorch itself has."""
    if machine.simulate:
        raise Skipped("kernels of libraries compute nothing on a simulated device")
    python = sys.executable
    if machine.run([python, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"], 60).returncode != 0:
        raise Skipped(f"{python} has no PyTorch that finds a CUDA device")
    names = ("resnet50", "gpt2", "unet")
    plain = {name: model(machine, python, name, "plain", None) for name in names}
    managed = str(machine.build / "lib" / "libmanaged_allocator.so")
    runs = []

    def attempt(name: str, way: str, percent: int | None, mode: str, preload: bool) -> None:
        base = plain[name]
        if "losses" not in base:
            return
        # The library sees tensors, whichever way; PyTorch's cache over managed memory holds segments.
        peak = base["peak_reserved_bytes" if mode == "managed" else "peak_allocated_bytes"]
        budget = peak * percent // 100 if percent else 0
        if machine.end - time.monotonic() < 25:
            runs.append({"model": name, "way": way, "percent": percent, "outcome": "not run: out of time"})
            return
        flags = (["--budget", str(budget)] if percent else []) if preload else None
        more = ["--managed-library", managed, "--leave-bytes", str(budget)] if mode == "managed" else []
        try:
            found = model(machine, python, name, mode, flags, *more)
        except Failed as error:
            found = {"available": True, "outcome": "failed", "reason": str(error)}
        found.update({"model": name, "way": way, "percent": percent})
        if "losses" in found:
            found["same_bits"] = found["losses"] == base["losses"] and found["weights"] == base["weights"]
            found["over_plain"] = found["step_ms"] / base["step_ms"]
        runs.append(found)

    # What says most comes first: time may end.
    for way, percent, mode, preload in (
        ("preload", 60, "plain", True), ("offload()", None, "offload", True), ("plug-in", 60, "plugin", True),
        ("save_on_cpu", None, "save_on_cpu", False), ("preload", 100, "plain", True), ("checkpoint", None, "checkpoint", False),
        ("plug-in", 100, "plugin", True), ("preload", 80, "plain", True), ("preload", 50, "plain", True),
        ("managed memory", 60, "managed", False), ("plug-in", 80, "plugin", True), ("plug-in", 50, "plugin", True),
    ):  # fmt: skip
        for name in names:
            attempt(name, way, percent, mode, preload)
    # Recomputing a block counts its batch twice in the averages of batch norm, with or without us.
    judged = [r for r in runs if "same_bits" in r and r["way"] != "checkpoint"]
    wrong = [r for r in runs if r.get("outcome") == "failed" or (r in judged and not r["same_bits"])]
    return {"right": bool(judged) and not wrong, "plain": plain, "runs": runs}


def frameworks(machine: Machine) -> dict:
    """Small programs of other libraries (bench/gpu/frameworks.py): the same output without the library, with it, and with half of the
    memory that they use."""
    if machine.simulate:
        raise Skipped("kernels of libraries compute nothing on a simulated device")
    program = ROOT / "bench" / "gpu" / "frameworks.py"
    listed = machine.run([sys.executable, "-B", str(program), "--list"], 20)
    runs = []

    def compare(name: str) -> None:
        command = [sys.executable, "-B", str(program), name]
        row: dict = {"program": name}
        runs.append(row)
        try:
            plain = machine.run(command, 90)
            if plain.returncode == 3:
                row |= {"outcome": "not available", "reason": last_line(plain.stdout)}
                return
            whole = machine.run(machine.under_library(["--stats=line"], command), 90)
            row["same_output"] = plain.returncode == 0 and (plain.returncode, plain.stdout) == (whole.returncode, whole.stdout)
            row["reason"] = last_line(plain.stderr) if plain.returncode else last_line(whole.stderr) if whole.returncode else ""
            peak = row["peak_live_bytes"] = statistic(whole.stderr, "peak_live_bytes")
            half = machine.run(machine.under_library(["--stats=line", "--budget", str(peak // 2)], command), 90)
            row["same_output_in_half"] = (plain.returncode, plain.stdout) == (half.returncode, half.stdout)
            row["reason"] = row["reason"] or (last_line(half.stderr) if half.returncode else "")
            row["evicted_bytes"] = statistic(half.stderr, "evicted_bytes")
        except Failed as error:
            row |= {"same_output": False, "reason": str(error)}

    with ThreadPoolExecutor(min(4, machine.jobs)) as pool:
        list(pool.map(compare, listed.stdout.split()))
    judged = [row for row in runs if row.get("outcome") != "not available"]
    return {"right": bool(judged) and all(r["same_output"] and r.get("same_output_in_half") for r in judged), "libraries": runs}


def sanitizer(machine: Machine) -> dict:
    """compute-sanitizer over small programs under the library."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if machine.simulate or not os.path.exists(tool):
        raise Skipped("it is for a GPU" if machine.simulate else "there is no compute-sanitizer")
    folder = machine.build / "tests" / "programs" / "api_paths"
    found = []
    for name in ("memory/in_order", "launches/streams", "copies/ranges"):
        # Errors of calls are no errors of memory: parameters are asked for until the driver refuses the next one.
        checked = [tool, "--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", "86", str(folder / name)]
        done = machine.run(machine.under_library(["--budget", "20MiB"], checked), 40)
        found.append({"program": name, "status": done.returncode, "says": last_line(done.stdout)})
    return {"right": all(f["status"] == 0 for f in found), "runs": found}


SECTIONS = {f.__name__: f for f in (assumptions, conformance, programs, digits, frameworks, probe, pytorch, sanitizer)}


def seen_of(row: dict, sections: dict) -> tuple[str, str]:
    """What was seen of an assumption (holds, fails, not checked), and details."""
    asked = {answer["id"]: answer for answer in sections.get("assumptions", {}).get("asked", [])}
    rules = {rule["name"]: rule for rule in sections.get("conformance", {}).get("answers", {}).get("rules", [])}
    # An assumption and its mechanism may have different names.
    told = asked.get(row["at_start"]) or asked.get(row["id"])
    details, outcomes = [], set()
    if told and told["seen"] != "not tried":
        outcomes.add(told["seen"])
        details.append(told["detail"])
    for name in row["rules"]:
        outcome = rules.get(name, {}).get("outcome")
        if outcome in ("agrees", "disagrees"):
            outcomes.add("holds" if outcome == "agrees" else "fails")
        if outcome == "disagrees":
            details.append(f"{name}: {rules[name].get('detail', '')}")
    if row["id"] == "mapping_cost" and "figures" in sections.get("probe", {}):
        outcomes.add("holds")
        details.append("measured, see probe")
    if row["id"] == "sanitizer" and sections.get("sanitizer", {}).get("outcome") in ("right", "wrong"):
        outcomes.add("holds" if sections["sanitizer"]["outcome"] == "right" else "fails")
    seen = "fails" if "fails" in outcomes else "holds" if outcomes else "not checked"
    return seen, "; ".join(detail for detail in details if detail)


def answered(register: list[dict], sections: dict) -> list[dict]:
    rows = []
    for row in register:
        seen, detail = seen_of(row, sections)
        rows.append({"id": row["id"], "expected": row["relies"], "seen": seen, "detail": detail, "fallback": row["fallback"]})
    return rows


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


def markdown(report: dict) -> str:
    facts = report["about"]
    lines = [f"# Acceptance run: {facts['device']}", "", "Written by `./dev gpu`; all of it is in the JSON file beside this page.", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items() if value and key != "device"]
    lines += ["", "| section | outcome | seconds | |", "| --- | --- | --- | --- |"]
    for name, section in report["sections"].items():
        note = section.get("reason", "")
        if "asked" in section:
            note = f"{len(section['asked'])} checked" + (": " + ", ".join(section["fails"]) + " fail" if section["fails"] else "")
        elif "rules" in section:
            note = ", ".join(f"{count} {outcome}" for outcome, count in section["rules"].items())
        elif "programs" in section:
            note = f"{section['programs']} programs, {len(section['different'])} differ"
            left_out = ", ".join(row["program"] for row in section["unsupported"])
            note += f"; not without the library either: {left_out}" if left_out else ""
        elif "libraries" in section:
            found = [row for row in section["libraries"] if "same_output" in row]
            differ = [row["program"] for row in found if not row["same_output"] or not row.get("same_output_in_half")]
            note = f"{len(found)} programs" + (": " + ", ".join(differ) + " differ" if differ else "")
        elif "peak_live_bytes" in section:
            note = f"a third of {section['peak_live_bytes'] / MIB:.1f} MiB, {section['evicted_bytes'] / MIB:.1f} MiB moved out"
        lines.append(f"| {name} | {section['outcome']} | {section['seconds']:.1f} | {note} |")
    rows = report.get("register", [])
    if rows:
        lines += ["", "| assumption | expected | seen | |", "| --- | --- | --- | --- |"]
        order = {"fails": 0, "holds": 1, "not checked": 2}
        for row in sorted(rows, key=lambda r: order[r["seen"]]):
            note = row["detail"] + ("; fallback: " + row["fallback"] if row["seen"] == "fails" else "")
            lines.append(f"| {row['id']} | {row['expected']} | {row['seen']} | {note.replace('|', '/')} |")
    figures = report["sections"].get("probe", {}).get("figures")
    if figures:
        lines += ["", "| call, link | measured | by the host's clock |", "| --- | --- | --- |"]
        for key, value in figures.items():
            if key.endswith("_ns"):
                # Of runs there is only the host's time.
                by_device = "" if key.startswith("run_") else f"{value / 1e3:.2f} us"
                lines.append(f"| {key[:-3]} | {by_device} | {figures.get(key + '_by_host_clock', value) / 1e3:.2f} us |")
            elif key.startswith("link_"):
                lines.append(f"| {key} | {value / 1e9:.2f} GB/s | |")
        lines += ["", "`link_to_host`, `link_to_device`: while both directions are in use."]
    runs = report["sections"].get("pytorch", {}).get("runs")
    if runs:
        lines += ["", "| model | way | budget | step over plain | same bits | |", "| --- | --- | --- | --- | --- | --- |"]
        for run in runs:
            over = f"{run['over_plain']:.2f}" if "over_plain" in run else "-"
            note = "not available: " + run["reason"] if run.get("available") is False else run.get("outcome", "") + " " + run.get("reason", "")
            percent = f"{run['percent']} %" if run["percent"] else ""
            lines.append(f"| {run['model']} | {run['way']} | {percent} | {over} | {run.get('same_bits', '-')} | {note.strip()} |")
    return "\n".join(lines) + "\n"


# Limit of each section in seconds; then it is killed.
LIMITS = {"assumptions": 30, "conformance": 200, "programs": 240, "digits": 200, "frameworks": 300, "probe": 250, "pytorch": 460, "sanitizer": 130}


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


def write(path: Path, text: str) -> None:
    """Replaces the file at once: a run may end at any time."""
    beside = path.with_suffix(path.suffix + ".new")
    beside.write_text(text)
    beside.replace(path)


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
    for name in arguments.only or SECTIONS:
        report["sections"][name] = run_apart(name, machine, words)
        write(base.with_suffix(".json"), json.dumps(report, indent=1) + "\n")
    try:
        report["register"] = answered(register_of(machine), report["sections"])
    except Failed as reason:
        print(f"gpu: no register: {reason}", file=sys.stderr)
    keep_conformance(report, arguments.output, slug, machine)
    write(base.with_suffix(".json"), json.dumps(report, indent=1) + "\n")
    write(base.with_suffix(".md"), markdown(report))
    profile = report["sections"].get("probe", {}).get("profile")
    if profile:
        write(base.with_suffix(".toml"), profile)
    shutil.rmtree(machine.work, ignore_errors=True)
    print(f"gpu: wrote {base}.json, which holds all of it, and .md", file=sys.stderr)
    return 0 if all(s["outcome"] in ("right", "skipped") for s in report["sections"].values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
