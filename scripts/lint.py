#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over every C++ source that is compiled in a build folder: lint.py CLANG_TIDY BUILD [SOURCE]...

A source that was clean before is skipped: the same bytes in it and in every header of the project that it includes, the same command,
rules and version. What was clean is remembered in THERMOCLINE_BUILD_CACHE, else ~/.cache/thermocline. CUDA sources are left out: they are
nvcc's. Complaints go to stdout. Status: 0 no complaint, 1 complaints, 2 wrong usage. Needs a built tree: headers are taken from what the
compiler wrote down for ninja.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

# gcc's precompiled headers mean nothing to clang; every source includes what it needs.
PRECOMPILED_HEADER = re.compile(r"-Winvalid-pch -include \S+cmake_pch\.hxx")
# Of -Wconversion clang makes more than gcc does, and it does not know all of gcc's options. libstdc++ uses what it deprecates itself.
EXTRA = ["-Wthread-safety", "-Wno-unknown-warning-option", "-Wno-ignored-optimization-argument", "-Wno-sign-conversion", "-Wno-deprecated-declarations"]


def cache_folder() -> pathlib.Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = pathlib.Path(os.environ.get("THERMOCLINE_BUILD_CACHE") or os.path.join(cache, "thermocline")) / "lint"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def commands_of(build: pathlib.Path) -> dict[str, dict]:
    """The first command of each source by its path, without precompiled headers."""
    commands: dict[str, dict] = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        entry["command"] = PRECOMPILED_HEADER.sub("", entry["command"])
        commands.setdefault(os.path.realpath(entry["file"]), entry)
    return commands


def headers_of(build: pathlib.Path, root: str) -> dict[str, set[str]]:
    """The project's headers that each source includes, by ninja's record of what the compiler read."""
    listing = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True, check=True).stdout
    headers: dict[str, set[str]] = {}
    for paragraph in listing.split("\n\n"):
        files = [os.path.normpath(os.path.join(build, line.strip())) for line in paragraph.splitlines()[1:]]
        if files:
            headers.setdefault(files[0], set()).update(file for file in files[1:] if file.startswith(root))
    return headers


class Digests:
    """Digests of files, each read once."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}

    def of(self, file: str) -> bytes:
        if file not in self._known:
            path = pathlib.Path(file)
            self._known[file] = hashlib.sha256(path.read_bytes()).digest() if path.exists() else b"absent"
        return self._known[file]


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    clang_tidy, build = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    root = os.path.realpath(os.getcwd()) + "/"
    wanted = sys.argv[3:] or subprocess.run(["git", "ls-files", "-z", "--", "*.cc"], capture_output=True, text=True, check=True).stdout.split("\0")
    commands, headers, digests, cache = commands_of(build), headers_of(build, root), Digests(), cache_folder()
    lint_folder = build / "lint"
    lint_folder.mkdir(exist_ok=True)
    (lint_folder / "compile_commands.json").write_text(json.dumps(list(commands.values())))
    version = subprocess.run([clang_tidy, "--version"], capture_output=True, check=True).stdout
    rules = b"".join(pathlib.Path(file).read_bytes() for file in (".clang-tidy", "tests/.clang-tidy", __file__))

    def key_of(path: str) -> str:
        # Wherever the checkout lies: what was clean in one is clean in the next.
        whole = hashlib.sha256(version + rules + commands[path]["command"].replace(root.rstrip("/"), ".").encode())
        for file in [path, *sorted(headers.get(path, ()))]:
            whole.update(file.removeprefix(root).encode() + digests.of(file))
        return whole.hexdigest()[:40]

    sources = [path for path in (os.path.realpath(file) for file in wanted if file) if path in commands and os.path.exists(path)]
    keys = {path: key_of(path) for path in sources}
    left = [path for path in sources if not (cache / keys[path]).exists()]
    print(f"{len(left)} of {len(sources)} sources to look at", file=sys.stderr)

    def look_at(path: str) -> bool:
        options = [f"--extra-arg={option}" for option in EXTRA]
        done = subprocess.run([clang_tidy, "--quiet", "-p", str(lint_folder), *options, path], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            (cache / keys[path]).touch()
        else:
            print(done.stdout or done.stderr, flush=True)
        return done.returncode == 0

    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return 0 if all(list(pool.map(look_at, left))) else 1


if __name__ == "__main__":
    sys.exit(main())
