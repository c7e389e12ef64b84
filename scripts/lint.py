#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over every C++ source that is compiled in a build folder: lint.py CLANG_TIDY BUILD [SOURCE]...

A source that was clean before is skipped: the same bytes in it and in every header of the project that it includes, the same command,
rules and version. What was clean is remembered in THERMOCLINE_BUILD_CACHE, else ~/.cache/thermocline. CUDA sources are left out: they are
nvcc's. Complaints go to stdout. Status: 0 no complaint, 1 complaints, 2 wrong usage. Needs a configured folder in which each source has a
command of its own (THERMOCLINE_UNITY=OFF); nothing needs to be built in it.

Most of the time goes into reading headers, so sources are looked at several at a time, with the folders and macros of all of them. Only
silence counts: a group that is complained about is halved, down to each source alone, and that is what is printed.
"""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable

# gcc's precompiled headers mean nothing to clang; every source includes what it needs.
PRECOMPILED_HEADER = re.compile(r"-Winvalid-pch -include \S+cmake_pch\.hxx")
# clang's -Wconversion includes -Wsign-conversion, gcc's does not; clang does not know all of gcc's options; libstdc++ uses functions that it deprecates.
EXTRA = ["-Wthread-safety", "-Wno-unknown-warning-option", "-Wno-ignored-optimization-argument", "-Wno-sign-conversion", "-Wno-deprecated-declarations"]
# Findings that arise only where one file includes several sources.
TOGETHER = ["--extra-arg=-Wno-shadow", "--checks=-bugprone-suspicious-include"]
LARGEST_GROUP = 24
# A line that says why a source can not be read behind others.
ALONE = re.compile(r"^// Linted alone: ", re.MULTILINE)
# The names that a source defines outside every function and class: what is defined begins a line.
DEFINED = re.compile(r"^(?!TEST|namespace|using namespace|extern (?!\S+ \w)|template|[A-Z_]+\(|[^(=;{\n]*::~?\w+\()[A-Za-z_].*?\b(\w+)(?:\[[^\]]*\])*\s*(?=[=({;]|:\s)", re.MULTILINE)
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class| struct)?) (\w+)", re.MULTILINE)
INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
# A reserved name is defined for the system's headers.
RESERVED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(_\w+)(.*)$", re.MULTILINE)
CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b(.*)$", re.MULTILINE)
# misc-unused-using-decls looks at a source alone, not at what a group includes, so that is done here.
USING = re.compile(r"^\s*using [\w:]+::(\w+);", re.MULTILINE)


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


class Headers:
    """The project's files that each of its files includes, directly or not, whatever the conditions around them."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._included: dict[str, list[str]] = {}

    def _included_by(self, file: str) -> list[str]:
        if file not in self._included:
            folders = [self._root, os.path.dirname(file), os.path.join(self._root, "include")]
            paths = [[os.path.normpath(os.path.join(folder, name)) for folder in folders] for name in INCLUDED.findall(pathlib.Path(file).read_text())]
            found = [next((path for path in places if os.path.isfile(path)), None) for places in paths]
            self._included[file] = [path for path in found if path is not None and path.startswith(self._root)]
        return self._included[file]

    def of(self, source: str) -> set[str]:
        seen: set[str] = set()
        left = self._included_by(source)
        while left:
            seen.update(left)
            left = [path for file in left for path in self._included_by(file) if path not in seen]
        return seen


def unused_declarations(path: str) -> str:
    """A line for each using-declaration whose name the source does not have a second time."""
    text = pathlib.Path(path).read_text()
    unused = [found for found in USING.finditer(text) if len(re.findall(rf"\b{found[1]}\b", text)) < 2]
    return "\n".join(f"{path}:{text.count(chr(10), 0, found.start(1)) + 1}: '{found[0].strip()}' is not used; remove it" for found in unused)


@functools.cache
def folder_of_rules(folder: str) -> str:
    """The nearest folder at or above this one that has rules of its own for clang-tidy, relative to the repository."""
    if folder in ("", ".") or os.path.exists(os.path.join(folder, ".clang-tidy")):
        return folder or "."
    return folder_of_rules(os.path.dirname(folder))


def rules_of(path: str) -> str:
    return folder_of_rules(os.path.dirname(os.path.relpath(path)))


class Options:
    """The options of a command that change the meaning of a source: folders of headers, and macros by name. `asked`: the names that the source and its
    headers test in conditions, so that another source's macro would change what is read. Every source may test reserved names; `reserved` are
    those that sources define."""

    def __init__(self, command: str, asked: set[str], reserved: dict[str, str]) -> None:
        self.asked = set(asked)
        words = shlex.split(command)
        pairs = list(zip(words, [*words[1:], ""]))
        self.folders = [*(word for word in words if word.startswith("-I")), *(f"-isystem{value}" for word, value in pairs if word == "-isystem")]
        self.macros = {word[2:].split("=")[0]: word for word in words if word.startswith("-D")}
        self.reserved = {**reserved, **{name: word for name, word in self.macros.items() if name.startswith("_")}}

    def agree(self, other: Options) -> bool:
        differ = {name for name in {*self.macros, *other.macros} if self.macros.get(name) != other.macros.get(name)}
        return self.reserved == other.reserved and not differ & (self.asked | other.asked | (self.macros.keys() & other.macros.keys()))

    def join(self, other: Options) -> None:
        self.folders += [folder for folder in other.folders if folder not in self.folders]
        self.macros.update(other.macros)
        self.asked |= other.asked


class Group:
    """Sources that can be read as one: none defines a name of its own that another defines or gets from a header, or another value of a macro."""

    def __init__(self, options: Options) -> None:
        self.paths: list[str] = []
        self.options = options
        self._own: set[str] = set()
        self._seen: set[str] = set()

    def takes(self, options: Options, own: set[str], seen: set[str]) -> bool:
        return len(self.paths) < LARGEST_GROUP and self.options.agree(options) and not own & self._seen and not seen & self._own

    def add(self, path: str, options: Options, own: set[str], seen: set[str]) -> None:
        self.paths.append(path)
        self.options.join(options)
        self._own |= own
        self._seen |= seen

    def halves(self) -> list[Group]:
        half = (len(self.paths) + 1) // 2
        groups = [Group(self.options), Group(self.options)]
        for place, path in enumerate(self.paths):
            groups[place // half].add(path, self.options, set(), set())
        return groups

    def entry(self, first: dict, file: pathlib.Path) -> dict:
        """The entry of compile_commands.json for a file that includes all its sources, with the command of the first one."""
        file.write_text("".join(f'#include "{path}"\n' for path in self.paths))
        more = [*self.options.folders, *self.options.macros.values()]
        return {**first, "file": str(file), "command": shlex.join([*shlex.split(first["command"].replace(first["file"], str(file))), *more])}


def groups_of(sources: list[str], commands: dict[str, dict], headers: Headers) -> list[Group]:
    """The sources in groups, as far as their rules, names and macros allow."""

    @functools.cache
    def names_in(path: str) -> set[str]:
        text = pathlib.Path(path).read_text()
        return {*DEFINED.findall(text), *TYPE.findall(text), *USING.findall(text), *(["main"] if "BENCHMARK_MAIN" in text else [])}

    @functools.cache
    def asked_in(path: str) -> set[str]:
        return {name for condition in CONDITION.findall(pathlib.Path(path).read_text()) for name in re.findall(r"[A-Za-z_]\w+", condition)}

    @functools.cache
    def reserved_in(path: str) -> list[tuple[str, str]]:
        return RESERVED.findall(pathlib.Path(path).read_text())

    groups: list[Group] = []
    open_groups: dict[str, list[Group]] = {}
    # Sources with a main function first: a group can have only one of them.
    for path in sorted(sources, key=lambda path: "main" not in names_in(path)):
        read = headers.of(path)
        of_headers = set().union(*(names_in(header) for header in read))
        own = names_in(path) - of_headers
        asked = set().union(*(asked_in(file) for file in [path, *read]))
        options = Options(commands[path]["command"], asked, dict(pair for file in [path, *read] for pair in reserved_in(file)))
        same = open_groups.setdefault(rules_of(path), [])
        alone = ALONE.search(pathlib.Path(path).read_text())
        group = next((group for group in same if group.takes(options, own, own | of_headers)), None) if not alone else None
        if group is None:
            group = Group(options)
            groups.append(group)
            if not alone:
                same.append(group)
        group.add(path, options, own, own | of_headers)
    return groups


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
    commands, headers, digests, cache = commands_of(build), Headers(root), Digests(), cache_folder()
    lint_folder = build / "lint"
    lint_folder.mkdir(exist_ok=True)
    version = subprocess.run([clang_tidy, "--version"], capture_output=True, check=True).stdout
    rules = b"".join(file.read_bytes() for file in (pathlib.Path(".clang-tidy"), pathlib.Path(__file__)))

    def key_of(path: str) -> str:
        # Wherever the checkout lies: what was clean in one is clean in the next.
        whole = hashlib.sha256(version + rules + (pathlib.Path(rules_of(path)) / ".clang-tidy").read_bytes() + commands[path]["command"].replace(root.rstrip("/"), ".").encode())
        for file in [path, *sorted(headers.of(path))]:
            whole.update(file.removeprefix(root).encode() + digests.of(file))
        return whole.hexdigest()[:40]

    sources = [path for path in (os.path.realpath(file) for file in wanted if file) if path in commands and os.path.exists(path)]
    keys = {path: key_of(path) for path in sources}
    left = [path for path in sources if not (cache / keys[path]).exists()]
    unused = {path: told for path in left if (told := unused_declarations(path))}
    for told in unused.values():
        print(told, flush=True)
    left = [path for path in left if path not in unused]
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

    entries = list(commands.values())

    def prepare(group: Group, name: str) -> Callable[[], bool]:
        """Writes what clang-tidy has to know to look at the group and its halves; the result looks."""
        if len(group.paths) == 1:
            return lambda: is_clean(group.paths[0])
        first = commands[group.paths[0]]
        # clang-tidy looks for rules in the folders above a source.
        folder = rules_of(group.paths[0])
        together = lint_folder / folder / f"{name}.cc"
        if folder != ".":
            together.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(f"{folder}/.clang-tidy", together.parent)
        entries.append(group.entry(first, together))
        halves = [prepare(half, name + "_" + str(number)) for number, half in enumerate(group.halves())]

        def look() -> bool:
            if complaints(str(together), *TOGETHER):
                return all([half() for half in halves])
            for path in group.paths:
                (cache / keys[path]).touch()
            return True

        return look

    looks = [prepare(group, f"group_{number}") for number, group in enumerate(groups)]
    (lint_folder / "compile_commands.json").write_text(json.dumps(entries))
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return 0 if all(list(pool.map(lambda look: look(), looks))) and not unused else 1


if __name__ == "__main__":
    sys.exit(main())
