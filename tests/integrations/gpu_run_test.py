# SPDX-License-Identifier: Apache-2.0
"""`./dev gpu` on the simulated device, in short: what a section finds is what is there, and one that breaks leaves the
others alone. gpu_run_test.py BUILD_FOLDER"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def run(build: str, *flags: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-B", os.path.join(ROOT, "scripts", "gpu.py"), build, *flags]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def require(holds: bool, what: object) -> None:
    if not holds:
        raise AssertionError(what)


def whole_run(build: str, folder: str) -> None:
    done = run(build, "--simulate", "reference", "--short", "--output", folder)
    with open(os.path.join(folder, "gpu-reference-simulated.json")) as file:
        report = json.load(file)
    sections = report["sections"]
    outcomes = {name: section["outcome"] for name, section in sections.items()}
    require(done.returncode == 0, (done.stderr, outcomes))
    for name in ("assumptions", "conformance", "programs", "probe", "digests"):
        require(outcomes[name] == "right", (name, sections[name]))
    # Without nvcc there are no examples.
    require(outcomes["digits"] in ("right", "skipped"), sections["digits"])
    require(outcomes["pytorch"] == outcomes["sanitizer"] == "skipped", outcomes)
    require(sections["programs"]["programs"] >= 3, sections["programs"])

    # The run measures the costs of the profile.
    figures = sections["probe"]["figures"]
    for name, cost in (
        ("link_to_host", 50e9), ("link_to_device", 50e9), ("host_create_page_ns", 193e3), ("host_map_ns", 1.5e3),
        ("host_set_access_ns", 36e3), ("host_unmap_ns", 26e3), ("host_stream_call_ns", 700), ("host_copy_ns", 4e3),
    ):  # fmt: skip
        require(abs(figures[name] / cost - 1) < 0.03, (name, figures[name], cost))
    require(figures["memory_bytes"] == 64 << 30, figures["memory_bytes"])
    digests = sections["digests"]
    require(abs(digests["memory_gb_s"] / 3500 - 1) < 0.03, digests)
    require(0.3 < digests["share"] <= 1.01 and digests["reached"] == (digests["share"] >= 0.8), digests)
    # And the file made of it is a device.
    require(sections["probe"]["estimate_of_unet3d"]["device"].endswith(".toml"), sections["probe"])
    with open(os.path.join(folder, "gpu-reference-simulated.md")) as page:
        require("| conformance | right |" in page.read(), "the page")
    # Each assumption is there, with what was seen of it.
    seen = {row["id"]: row["seen"] for row in report["register"]}
    require(seen["alias"] == seen["mapping_waits"] == seen["param_info"] == "holds", seen)
    require(seen["queue_depth"] == "not checked" and "fails" not in seen.values(), seen)


def broken_run(folder: str) -> None:
    """A build folder in which nothing is."""
    done = run(folder, "--simulate", "reference", "--only", "conformance", "--only", "probe", "--output", folder)
    with open(os.path.join(folder, "gpu-reference-simulated.json")) as file:
        sections = json.load(file)["sections"]
    require(done.returncode == 1, done.stderr)
    require([s["outcome"] for s in sections.values()] == ["failed", "failed"], sections)


def run_on_another_driver(build: str, folder: str) -> None:
    """Only the assumptions that the driver violates on purpose fail, and that is right."""
    only = ("--only", "assumptions", "--only", "conformance")
    done = run(build, "--simulate", "reference", "--driver", "alias=off,unmap=one", "--short", *only, "--output", folder)
    with open(os.path.join(folder, "gpu-reference-simulated.json")) as file:
        report = json.load(file)
    require(done.returncode == 0, done.stderr)
    fails = {row["id"] for row in report["register"] if row["seen"] == "fails"}
    require({"alias", "unmap_runs"} <= fails and "remap" not in fails, fails)
    require(report["about"]["wrong on purpose"] == "alias=off,unmap=one", report["about"])


def killed_run(build: str, folder: str) -> None:
    """A section that is killed leaves the others alone."""
    os.makedirs(os.path.join(folder, "build", "tests", "conformance"))
    for name in ("bin", "lib"):
        os.symlink(os.path.abspath(os.path.join(build, name)), os.path.join(folder, "build", name))
    program = os.path.join(folder, "build", "tests", "conformance", "conformance")
    with open(program, "w") as file:
        file.write("#!/bin/sh\nkill -9 $PPID\n")
    os.chmod(program, 0o755)
    only = ("--only", "conformance", "--only", "assumptions")
    done = run(os.path.join(folder, "build"), "--simulate", "reference", "--short", *only, "--output", folder)
    with open(os.path.join(folder, "gpu-reference-simulated.json")) as file:
        sections = json.load(file)["sections"]
    require(done.returncode == 1, done.stderr)
    require(sections["conformance"]["reason"] == "ended by signal 9", sections)
    require(sections["assumptions"]["outcome"] == "right", sections)


def main() -> None:
    build = sys.argv[1]
    for test in (
        lambda folder: whole_run(build, folder), broken_run, lambda folder: run_on_another_driver(build, folder),
        lambda folder: killed_run(build, folder),
    ):  # fmt: skip
        folder = tempfile.mkdtemp()
        try:
            test(folder)
        finally:
            shutil.rmtree(folder)
    if shutil.which("nvidia-smi") is None:
        done = run(sys.argv[1])
        require(done.returncode == 4 and "no usable NVIDIA GPU" in done.stderr, done)


if __name__ == "__main__":
    main()
