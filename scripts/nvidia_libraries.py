#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs NVIDIA's libraries with a driver that has no device, with and without Thermocline preloaded.

nvidia_libraries.py BUILD [--linked PROGRAM]... [--pytorch PYTHON] [--output FILE] PATH...

PATH: a wheel or a folder, which is searched for wheels and for the libraries of KNOWN. Each library is loaded and called (tests/no_device/load.cc)
with the libcuda.so.1 of tests/no_device, with and without libthermocline.so.1: answers, driver calls and their order must be equal, and each
function that the driver is asked for must be in hooks/interpose/functions.h. PROGRAM: a program with a static runtime. PYTHON: an interpreter
with PyTorch for CUDA, which is imported and asked for a tensor on a device.
--output writes a JSON file (bench/results/nvidia_libraries.json). Status: 0 all is equal and known, 1 not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KNOWN = ("libcudart", "libcublasLt", "libcublas", "libcudnn", "libcufft", "libcusparse", "libcusolver", "libnccl", "libnvrtc")
LIBRARY = re.compile(r"(lib[A-Za-z]+)\.so\.[0-9.]+$")
# Limit of a process in seconds: the largest library has a gigabyte of code.
SAID = "thermocline: the driver has cuSubgrid"
TIME_LIMIT_S = 120


TORCH = """
import torch
print(torch.__version__, torch.version.cuda, torch.cuda.is_available(), torch.cuda.device_count())
try:
    torch.zeros(1).cuda()
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0])
"""


def table() -> set[str]:
    """The functions that Thermocline knows, by symbol and by name for cuGetProcAddress."""
    text = (ROOT / "hooks" / "interpose" / "functions.h").read_text()
    return set(re.findall(r"\bcu[A-Z]\w*", text))


def is_known(name: str, names: set[str]) -> bool:
    return name in names or re.sub(r"_pt[ds][sz]$", "", name) in names


def unpacked(wheel: Path, into: Path) -> Path:
    folder = into / wheel.stem
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if LIBRARY.search(member) or "dist-info" in member:
                archive.extract(member, folder)
    return folder


def version_of(library: Path) -> str:
    """The version of its package, else that of its file name."""
    for parent in library.parents:
        for record in [*parent.glob("nvidia_*.dist-info/RECORD"), *parent.glob("dist-info/nvidia_*/RECORD")]:
            if f"/{library.name}," in record.read_text():
                return record.parent.name.removesuffix(".dist-info").rsplit("-", 1)[1]
    return library.name.rsplit(".so.", 1)[1]


def libraries_of(paths: list[Path], into: Path) -> list[Path]:
    folders = []
    files = [path.resolve() for path in paths if path.is_file() and path.suffix != ".whl"]
    for path in paths:
        wheels = [path] if path.suffix == ".whl" else sorted(path.glob("**/*.whl"))
        folders += [unpacked(wheel, into) for wheel in wheels]
        folders += [path] if path.is_dir() else []
    found: dict[Path, None] = dict.fromkeys(files)
    for folder in folders:
        for file in sorted(folder.glob("**/lib*.so.*")):
            match = LIBRARY.fullmatch(file.name)
            # Parts of cuDNN and others are loaded by their main library.
            if match and match[1] in KNOWN:
                found[file.resolve()] = None
    return list(found)


def other_calls(alone: list[str], under: list[str]) -> str | None:
    """None if the driver got the same calls in the same order; lookups of Thermocline itself are ignored."""
    rest = iter(under)
    ours = []
    for line in alone:
        for candidate in rest:
            if candidate == line:
                break
            ours.append(candidate)
        else:
            return f"{line!r} is missing"
    ours += rest
    return next((f"{line!r} is new" for line in ours if line.startswith("call")), None)


class Runner:
    def __init__(self, build: Path, work: Path, folders: list[str]) -> None:
        self.here = build / "tests" / "no_device"
        self.library = build / "lib" / "libthermocline.so.1"
        self.work, self.folders = work, folders

    def run(self, command: list[str], preload: Path | None) -> tuple[list[str], list[str]]:
        """Output with status, and the log of the driver."""
        log = self.work / "log"
        log.unlink(missing_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("THERMOCLINE_", "LD_"))}
        env |= {"LD_LIBRARY_PATH": ":".join([str(self.here), *self.folders]), "NO_DEVICE_LOG": str(log)}
        env |= {"LD_PRELOAD": str(preload)} if preload else {}
        try:
            done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME_LIMIT_S)
            printed = [*done.stdout.splitlines(), *done.stderr.splitlines(), f"status {done.returncode}"]
        except subprocess.TimeoutExpired:
            printed = [f"no end after {TIME_LIMIT_S} s"]
        return printed, log.read_text().splitlines() if log.exists() else []

    def row(self, name: str, version: str, command: list[str], names: set[str]) -> dict:
        alone, calls = self.run(command, None)
        under, calls_under = self.run(command, self.library)
        # The driver of this test exports what only newer drivers may have, and the library says so.
        under = [line for line in under if not (line.startswith(SAID) and line not in alone)]
        _, looked_up = self.run(command, self.here / "libno_device_lookups.so")
        # The runtime asks for a function with an empty name, as a test of cuGetProcAddress.
        asked = sorted({line.split("'")[1] for line in calls + looked_up if line.split(maxsplit=1)[0] in ("ask", "unknown", "dlsym")} - {""})
        outcome = "the same"
        if alone != under:
            outcome = "other answers: " + next((f"{b!r} for {a!r}" for a, b in zip(alone, under) if a != b), "more or fewer")
        elif (difference := other_calls(calls, calls_under)) is not None:
            outcome = "other calls: " + difference
        if alone[-1] != "status 0":
            outcome += f"; does not load: {alone[-2] if len(alone) > 1 else alone[-1]}"
        return {
            "library": name,
            "version": version,
            "symbols": len(asked),
            "unknown": [n for n in asked if not is_known(n, names)],
            "calls": len(calls),
            "answers": alone,
            "outcome": outcome,
        }


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Runs NVIDIA's libraries with a driver that has no device.")
    parser.add_argument("build", type=Path)
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH")
    parser.add_argument("--linked", type=Path, action="append", default=[])
    parser.add_argument("--pytorch", metavar="PYTHON")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_intermixed_args(words)
    names = table()
    rows = []
    with tempfile.TemporaryDirectory(prefix="thermocline-libraries-") as folder:
        libraries = libraries_of(arguments.paths, Path(folder))
        runner = Runner(arguments.build.resolve(), Path(folder), list(dict.fromkeys(str(file.parent) for file in libraries)))
        todo = [(file.name, version_of(file), [str(runner.here / "no_device_load"), str(file)]) for file in libraries]
        todo += [(program.name + " (libcudart_static.a)", "of the toolkit", [str(program)]) for program in arguments.linked]
        if arguments.pytorch:
            command = [arguments.pytorch, "-B", "-c", TORCH]
            printed, _ = runner.run(command, None)
            todo.append(("PyTorch (its wheel)", printed[0].split()[0], command))
        for name, version, command in todo:
            # The library's own folder comes first: it finds its own version of the runtime.
            runner.folders.sort(key=lambda f: f != str(Path(command[-1]).parent))
            row = runner.row(name, version, command, names)
            rows.append(row)
            unknown = ", ".join(row["unknown"]) or "none"
            print(f"{name} {version}: {row['symbols']} symbols, unknown: {unknown}; {row['calls']} calls; {row['outcome']}", flush=True)
    if not rows:
        print("nvidia_libraries: nothing was found", file=sys.stderr)
        return 2
    if arguments.output:
        about = f"{len(rows)} libraries."
        arguments.output.write_text(json.dumps({"schema": "thermocline-libraries/1", "about": about, "rows": rows}, indent=1) + "\n")
    return 0 if all(row["outcome"] == "the same" and not row["unknown"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
