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

import source_groups

# gcc's precompiled headers mean nothing to clang; every source includes what it needs.
PRECOMPILED_HEADER = re.compile(r"-Winvalid-pch -include \S+cmake_pch\.hxx")
# clang's -Wconversion includes -Wsign-conversion, gcc's does not; clang does not know all of gcc's options; libstdc++ uses functions that it deprecates.
EXTRA = ["-Wthread-safety", "-Wno-unknown-warning-option", "-Wno-ignored-optimization-argument", "-Wno-sign-conversion", "-Wno-deprecated-declarations"]
# Findings that arise only where one file includes several sources.
TOGETHER = ["--extra-arg=-Wno-shadow", "--checks=-bugprone-suspicious-include"]
LARGEST_GROUP = 24
# A reserved name is defined for the system's headers.
RESERVED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(_\w+)(.*)$", re.MULTILINE)
CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b(.*)$", re.MULTILINE)


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


def unused_declarations(path: str) -> str:
    """A line for each using-declaration whose name the source does not have a second time. misc-unused-using-decls would look only at what lies
    in a group's own file."""
    text = pathlib.Path(path).read_text()
    unused = [found for found in source_groups.USING.finditer(text) if len(re.findall(rf"\b{found[1]}\b", text)) < 2]
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


class Group(source_groups.Group):
    """Sources that can be read as one, whose options agree."""

    def __init__(self, options: Options) -> None:
        super().__init__(LARGEST_GROUP)
        self.options = options

    def takes_with(self, options: Options, names: source_groups.Names) -> bool:
        return self.options.agree(options) and self.takes(names)

    def add_with(self, path: str, options: Options, names: source_groups.Names) -> None:
        self.add(path, names)
        self.options.join(options)

    def halves(self) -> list[Group]:
        half = (len(self.paths) + 1) // 2
        groups = [Group(self.options), Group(self.options)]
        for place, path in enumerate(self.paths):
            groups[place // half].paths.append(path)
        return groups

    def entry(self, first: dict, file: pathlib.Path) -> dict:
        """The entry of compile_commands.json for a file that includes all its sources, with the command of the first one."""
        file.write_text("".join(f'#include "{path}"\n' for path in self.paths))
        more = [*self.options.folders, *self.options.macros.values()]
        return {**first, "file": str(file), "command": shlex.join([*shlex.split(first["command"].replace(first["file"], str(file))), *more])}


def groups_of(sources: list[str], commands: dict[str, dict], headers: source_groups.Headers) -> list[Group]:
    """The sources in groups, as far as their rules, names and macros allow."""

    @functools.cache
    def asked_in(path: str) -> set[str]:
        return {name for condition in CONDITION.findall(pathlib.Path(path).read_text()) for name in re.findall(r"[A-Za-z_]\w+", condition)}

    @functools.cache
    def reserved_in(path: str) -> list[tuple[str, str]]:
        return RESERVED.findall(pathlib.Path(path).read_text())

    groups: list[Group] = []
    open_groups: dict[str, list[Group]] = {}
    # Sources with a main function first: a group can have only one of them.
    for path in sorted(sources, key=lambda path: "main" not in source_groups.names_in(path)):
        read = headers.of(path)
        asked = set().union(*(asked_in(file) for file in [path, *read]))
        options = Options(commands[path]["command"], asked, dict(pair for file in [path, *read] for pair in reserved_in(file)))
        same = open_groups.setdefault(rules_of(path), [])
        alone = source_groups.stands_alone(path)
        names = source_groups.Names(path, headers)
        group = next((group for group in same if group.takes_with(options, names)), None) if not alone else None
        if group is None:
            group = Group(options)
            groups.append(group)
            if not alone:
                same.append(group)
        group.add_with(path, options, names)
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
    commands, headers, digests, cache = commands_of(build), source_groups.Headers(root), Digests(), cache_folder()
    lint_folder = build / "lint"
    lint_folder.mkdir(exist_ok=True)
    version = subprocess.run([clang_tidy, "--version"], capture_output=True, check=True).stdout
    rules = b"".join(file.read_bytes() for file in (pathlib.Path(".clang-tidy"), pathlib.Path(__file__), pathlib.Path(source_groups.__file__)))

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
