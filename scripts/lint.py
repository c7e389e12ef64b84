#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over every C++ source that is compiled in a build folder: lint.py CLANG_TIDY BUILD [SOURCE]...

A source that was clean before is skipped: the same bytes in it and in every header of the project that it includes, the same command,
rules and version. What was clean is remembered in THERMOCLINE_BUILD_CACHE, else ~/.cache/thermocline. CUDA sources are left out: they are
nvcc's. Complaints go to stdout. Status: 0 no complaint, 1 complaints, 2 wrong usage. Needs a built tree: headers are taken from what the
compiler wrote down for ninja.

Most of the time goes into reading headers, so sources with the same options are looked at several at a time. Only silence counts: of a
group that is complained about, each source is looked at alone, and that is what is printed.
"""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

# gcc's precompiled headers mean nothing to clang; every source includes what it needs.
PRECOMPILED_HEADER = re.compile(r"-Winvalid-pch -include \S+cmake_pch\.hxx")
# Of -Wconversion clang makes more than gcc does, and it does not know all of gcc's options. libstdc++ uses what it deprecates itself.
EXTRA = ["-Wthread-safety", "-Wno-unknown-warning-option", "-Wno-ignored-optimization-argument", "-Wno-sign-conversion", "-Wno-deprecated-declarations"]
# What is said only of several sources in one.
TOGETHER = ["--extra-arg=-Wno-shadow", "--checks=-bugprone-suspicious-include"]
LARGEST_GROUP = 6
# The names that a source defines outside every function: what is defined begins a line.
DEFINED = re.compile(r"^(?!TEST|namespace|using namespace|extern|template|[A-Z_]+\()[A-Za-z_].*?\b(\w+)(?:\[[^\]]*\])*\s*(?=[=({;]|:\s)", re.MULTILINE)
# misc-unused-using-decls looks at the file itself, not at what it includes.
USING = re.compile(r"^\s*using [\w:]+::\w+;", re.MULTILINE)


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


def is_test(path: str) -> bool:
    return path.startswith(os.path.realpath("tests") + "/")


class Group:
    """Sources that can be read as one: none defines a name of its own that another defines or gets from a header."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._own: set[str] = set()
        self._seen: set[str] = set()

    def takes(self, own: set[str], seen: set[str]) -> bool:
        return len(self.paths) < LARGEST_GROUP and not own & self._seen and not seen & self._own

    def add(self, path: str, own: set[str], seen: set[str]) -> None:
        self.paths.append(path)
        self._own |= own
        self._seen |= seen


def groups_of(sources: list[str], commands: dict[str, dict], headers: dict[str, set[str]]) -> list[list[str]]:
    """The sources, those with the same options in groups as far as their names allow."""

    @functools.cache
    def names_in(path: str) -> set[str]:
        return set(DEFINED.findall(pathlib.Path(path).read_text()))

    groups: list[Group] = []
    open_groups: dict[str, list[Group]] = {}
    for path in sources:
        of_headers = set().union(*(names_in(header) for header in headers.get(path, ()) if os.path.exists(header)))
        own = names_in(path) - of_headers
        options = re.sub(r" -o \S+ -c \S+", "", commands[path]["command"]) + str(is_test(path))
        same = open_groups.setdefault(options, []) if not USING.search(pathlib.Path(path).read_text()) else []
        group = next((group for group in same if group.takes(own, own | of_headers)), None)
        if group is None:
            group = Group()
            groups.append(group)
            same.append(group)
        group.add(path, own, own | of_headers)
    return [group.paths for group in groups]


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
    (lint_folder / "tests").mkdir(parents=True, exist_ok=True)
    shutil.copy("tests/.clang-tidy", lint_folder / "tests")
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
    groups = groups_of(left, commands, headers)
    print(f"{len(left)} of {len(sources)} sources to look at, in {len(groups)} groups", file=sys.stderr)

    def complaints(path: str, *more: str) -> str:
        options = [*(f"--extra-arg={option}" for option in EXTRA), *more]
        done = subprocess.run([clang_tidy, "--quiet", "-p", str(lint_folder), *options, path], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return ""
        return done.stdout or done.stderr or f"{path}: clang-tidy ended with status {done.returncode} and said nothing"

    def is_clean(path: str) -> bool:
        told = complaints(path)
        if told:
            print(told, flush=True)
        else:
            (cache / keys[path]).touch()
        return not told

    def group_is_clean(number: int) -> bool:
        group = groups[number]
        if len(group) > 1 and not complaints(entries[-len(groups) + number]["file"], *TOGETHER):
            for path in group:
                (cache / keys[path]).touch()
            return True
        return all([is_clean(path) for path in group])

    entries = list(commands.values())
    for number, group in enumerate(groups):
        # Tests have rules of their own, which clang-tidy looks for in the folders above a source.
        together = lint_folder / ("tests" if is_test(group[0]) else ".") / f"group_{number}.cc"
        together.write_text("".join(f'#include "{path}"\n' for path in group))
        first = commands[group[0]]
        entries.append({**first, "file": str(together), "command": first["command"].replace(first["file"], str(together))})
    (lint_folder / "compile_commands.json").write_text(json.dumps(entries))
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return 0 if all(list(pool.map(group_is_clean, range(len(groups))))) else 1


if __name__ == "__main__":
    sys.exit(main())
