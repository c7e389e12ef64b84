# SPDX-License-Identifier: Apache-2.0
"""The sections of the acceptance run (gpu.py): each asks or runs something and says whether it is right, and the machine
that they run on."""

from __future__ import annotations

import datetime
import json
import os
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
        self.jobs = max(1, min(12, (os.cpu_count() or 1) * 3 // 4))

    def limit(self, seconds: float) -> float:
        return max(1.0, min(seconds, self.end - time.monotonic()))

    def environment(self) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("THERMOCLINE_") and k != "LD_PRELOAD"}
        # Shared libraries of the machine that packed, which this one may lack (gpu.sh --pack).
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
    """The program ended by an error, or printed it and went on, because the library refused memory or an operation and said why, or because
    the driver did so with its own error, which is out of memory. A capture that can not stay valid beside the library was announced at the
    start, and ends with CUDA's error for that. Output that is only different, and a crash, are no refusal."""
    if done.returncode < 0:
        return False
    by_driver = done.returncode != 0 and last_line(done.stderr).startswith("program: 2 from ")
    told = "(capture_mode); captures are invalidated" in done.stderr
    is_capture = told and re.search(r"(program:|ended) 90[01]\b", done.stderr + done.stdout) is not None
    said = re.search(r"^thermocline: (out of memory: |.* is refused: )", done.stderr, re.MULTILINE) is not None
    goes_on = re.search(r"^[\w ]+: 2$", done.stdout, re.MULTILINE) is not None
    by_library = said and (done.returncode != 0 or goes_on)
    return by_library or by_driver or is_capture


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
    if not named:
        raise Failed("conformance --list names no rules")
    # Asked for none, the program asks all.
    parts = [part for part in (named[i :: machine.jobs] for i in range(machine.jobs)) if part]
    with ThreadPoolExecutor(machine.jobs) as pool:
        asked = list(pool.map(lambda i: ask_rules(machine, str(i), parts[i]), range(len(parts))))
    answers, whole = asked[0][0], all(complete for _, complete in asked)
    found = {rule["name"]: rule for part, _ in asked for rule in part["rules"]}
    whole = whole and all(name in found for name in named)
    again = [name for name in named if found.get(name, {}).get("outcome") == "disagrees"] if machine.jobs > 1 else []
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
        "graphs/memory_while_blocked": "32MiB",
        "graphs/more_than_fits_at_once": "32MiB",
        "graphs/parts_of_large_buffers": "96MiB",
    }
    # They print what the library reports or refuses, which differs under a budget.
    about_the_library = {
        "contexts/memory_told", "copies/blocked_on_all", "graphs/refused_while_recording", "memory/shared_between_processes",
        "memory/pool_attributes",
    }  # fmt: skip
    # These do not end on an H200 (driver 580.159), even without the library: one thread waits in a driver call until another thread acts, and that
    # thread's driver calls probably wait for the first call.
    hang_alone = {"copies/blocked_elsewhere", "launches/full_queue", "memory/freed_while_blocked"}
    # By program, the assumption without which it may fail. full_queue: the library waits without a lock only if the queue holds as much as it
    # believes. memory_info prints whether all memory is free at the end; a driver may keep memory for the code that it loaded.
    # memory_while_recording prints that the driver refuses memory to a capturing thread; if the library can not ask for the capture mode, it
    # grants memory that it has.
    relies_on = {"launches/full_queue": "queue_depth", "contexts/memory_info": "lazy_loading", "graphs/memory_while_recording": "capture_mode"}
    violated = {row["id"] for row in switched_off(machine, register_of(machine))} if machine.driver else set()
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
        if relies_on.get(name) in violated:
            unsupported.append({"program": name, "says": f"not run: relies on {relies_on[name]}"})
            return
        if machine.end - time.monotonic() < 2:
            wrong.append({"program": name, "says": "not run: out of time"})
            return
        try:
            plain = machine.run([str(program)], 60)
        except Failed as reason:
            unsupported.append({"program": name, "says": str(reason)})
            return
        if plain.returncode != 0:
            unsupported.append({"program": name, "says": last_line(plain.stderr) or f"status {plain.returncode}"})
            return
        budget = larger.get(name, "20MiB")
        try:
            under = machine.run(machine.under_library(["--budget", budget], [str(program)]), 60)
        except Failed as reason:
            wrong.append({"program": name, "status": [plain.returncode, None], "says": str(reason)})
            return
        if (plain.returncode, plain.stdout) != (under.returncode, under.stdout):
            says = last_line(under.stderr) or last_line(plain.stderr)
            row = {"program": name, "status": [plain.returncode, under.returncode], "says": says}
            (refused if machine.driver and is_refusal(under) else wrong).append(row)

    with ThreadPoolExecutor(machine.jobs) as pool:
        list(pool.map(compare, found))
    # Some print how much memory is free, which others change: alone they are the same.
    again = {row["program"] for row in wrong} if machine.jobs > 1 else set()
    wrong = [row for row in wrong if row["program"] not in again]
    for program in found:
        if f"{program.parent.name}/{program.name}" in again:
            compare(program)
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
    """Measures allocations, mapping calls and the link; makes a profile of the device."""
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


# The part of the memory's bandwidth that the kernel of digests is asked to reach.
DIGESTS_ASKED = 0.8


def digests(machine: Machine) -> dict:
    """The kernel of digests (docs/directions.md): its digest is the host's, and how much of the memory's bandwidth it reaches.

    Wrong is a wrong digest. How fast it is, is a figure: `reached` says whether it is what is asked for."""
    program = machine.build / "bench" / "gpu_digests"
    if not program.exists():
        raise Skipped(f"no program {program}")
    done = machine.run([str(program), *(["128", "1"] if machine.simulate else [])], 60)
    if machine.driver and re.search(r"error (2|200|218|801)$", done.stderr.strip()):
        raise Skipped(f"not on this driver: {last_line(done.stderr)}")
    if done.returncode != 0:
        raise Failed(last_line(done.stderr))
    figures = json.loads(done.stdout)
    memory = figures["specified_gb_s"] or figures["copied_gb_s"]
    share = figures["digested_gb_s"]["32MiB"] / memory
    return {"right": True, "digest_figures": figures, "memory_gb_s": memory, "share": share, "asked_share": DIGESTS_ASKED, "reached": share >= DIGESTS_ASKED}


def profile_like(machine: Machine) -> str:
    """The known profile whose name is in the device's, for what is not measured."""
    done = machine.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "-i", "0"], 10)
    name = done.stdout.strip().lower().replace(" ", "-")
    known = json.loads(machine.run([machine.command, "devices", "--json"], 10).stdout)["devices"]
    near = [d["name"] for d in known if d["name"].split("-")[0] in name]
    return near[0] if near else "reference"


# Steps of a model: until a plan is in force, and as many again. What needs no plan runs fewer.
STEPS, FEW_STEPS = 24, 8


def model(machine: Machine, python: str, name: str, mode: str, flags: list[str] | None, *more: str) -> dict:
    command = [python, "-B", str(ROOT / "bench" / "gpu" / "models.py"), "--model", name, "--mode", mode]
    command += ["--steps", str(STEPS if mode in ("plain", "plugin") else FEW_STEPS), *more]
    if flags is not None:
        command = machine.under_library(["--stats=line", *flags], command)
    # fit() plans with the command.
    path = f"{machine.build / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    done = machine.run(command, 90, PYTHONPATH=str(ROOT / "integrations" / "pytorch" / "src"), PATH=path)
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
    # A model whose own bits vary says nothing about ours.
    again = {name: model(machine, python, name, "plain", None, "--steps", str(FEW_STEPS)) for name in names}
    managed = str(machine.build / "lib" / "libmanaged_allocator.so")
    profile = profile_like(machine)
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
        more = {
            "managed": ["--managed-library", managed, "--leave-bytes", str(budget)],
            "fit": ["--budget", str(budget), "--profile", profile],
            "memory_budget": ["--part", str((percent or 0) / 100)],
        }.get(mode, [])
        try:
            found = model(machine, python, name, mode, flags, *more)
        except Failed as error:
            found = {"available": True, "outcome": "failed", "reason": str(error)}
        found.update({"model": name, "way": way, "percent": percent})
        if "losses" in found:
            of_plain = base if len(found["losses"]) == len(base["losses"]) else again[name]
            found["same_bits"] = found["losses"] == of_plain["losses"] and found["weights"] == of_plain["weights"]
            found["over_plain"] = found["step_ms"] / base["step_ms"]
        runs.append(found)

    # The rows that say most come first, because time may run out.
    for way, percent, mode, preload in (
        ("preload", 60, "plain", True), ("preload", 80, "plain", True), ("preload", 100, "plain", True),
        ("save_on_cpu", None, "save_on_cpu", False), ("offload()", None, "offload", False), ("checkpoint", None, "checkpoint", False),
        ("fit()", 60, "fit", False), ("PyTorch's memory budget", 60, "memory_budget", False), ("fit()", 50, "fit", False),
        ("plug-in", 60, "plugin", True), ("preload", 50, "plain", True), ("offload() preloaded", None, "offload", True),
        ("managed memory", 60, "managed", False), ("plug-in", 100, "plugin", True), ("plug-in", 80, "plugin", True),
        ("plug-in", 50, "plugin", True),
    ):  # fmt: skip
        for name in names:
            attempt(name, way, percent, mode, preload)
    # Recomputing a block counts its batch twice in the averages of batch norm; what a compiler makes of a model is its own affair.
    steady = {name for name in names if plain[name].get("losses", [])[:FEW_STEPS] == again[name].get("losses")}
    judged = [r for r in runs if "same_bits" in r and r["mode"] not in ("checkpoint", "memory_budget") and r["model"] in steady]
    wrong = [r for r in runs if r.get("outcome") == "failed" or (r in judged and not r["same_bits"])]
    return {"right": bool(judged) and not wrong, "plain": plain, "plain_again": again, "runs": runs}


def is_shown(row: dict) -> bool:
    """The program printed the same in each run, and in a part of its memory something was moved."""
    moved = row.get("evicted_bytes", 0) > 0 or row["percent"] == 100
    return row["same_output"] and row.get("same_output_in_part", False) and moved


def frameworks(machine: Machine) -> dict:
    """Small programs of other libraries (bench/gpu/frameworks.py): the same output without the library, with it, and with a part (half, of
    most) of the memory that they use, which must have moved something."""
    if machine.simulate:
        raise Skipped("kernels of libraries compute nothing on a simulated device")
    program = ROOT / "bench" / "gpu" / "frameworks.py"
    listed = machine.run([sys.executable, "-B", str(program), "--list"], 20)
    if listed.returncode != 0:
        raise Skipped(last_line(listed.stderr))
    runs = []

    def compare(line: str) -> None:
        name, percent, *flags = line.split()
        command = [sys.executable, "-B", str(program), name]
        row: dict = {"program": name, "percent": int(percent)}
        runs.append(row)
        try:
            plain = machine.run(command, 90)
        except Failed as error:
            row |= {"outcome": "not available", "reason": str(error)}
            return
        if plain.returncode != 0:
            row |= {"outcome": "not available", "reason": last_line(plain.stdout if plain.returncode == 3 else plain.stderr)}
            return
        try:
            whole = machine.run(machine.under_library(["--stats=line", *flags], command), 90)
            row["same_output"] = (plain.returncode, plain.stdout) == (whole.returncode, whole.stdout)
            row["reason"] = last_line(whole.stderr) if whole.returncode else ""
            peak = row["peak_live_bytes"] = statistic(whole.stderr, "peak_live_bytes")
            budget = str(peak * int(percent) // 100)
            half = machine.run(machine.under_library(["--stats=line", "--budget", budget, *flags], command), 90)
            row["same_output_in_part"] = (plain.returncode, plain.stdout) == (half.returncode, half.stdout)
            row["reason"] = row["reason"] or (last_line(half.stderr) if half.returncode else "")
            row["evicted_bytes"] = statistic(half.stderr, "evicted_bytes")
        except Failed as error:
            row.setdefault("same_output", False)
            row["reason"] = row.get("reason") or str(error)

    with ThreadPoolExecutor(min(6, machine.jobs)) as pool:
        list(pool.map(compare, listed.stdout.splitlines()))
    judged = [row for row in runs if row.get("outcome") != "not available"]
    return {"right": bool(judged) and all(is_shown(row) for row in judged), "libraries": runs}


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


SECTIONS = {f.__name__: f for f in (assumptions, conformance, programs, digits, frameworks, probe, digests, pytorch, sanitizer)}
