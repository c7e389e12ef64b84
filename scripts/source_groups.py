#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which C++ sources can be read as one file, as if one included the others: the headers are then read once for all of them.

For the linter (lint.py), and as a command for CMake (cmake/unity.cmake): source_groups.py ROOT LARGEST < FILE > FILE. A line in is
`TARGET PATH`; a line out is `TARGET GROUP PATH` for each source that shares a group with another of its target, in groups of at most LARGEST.

Two sources share a group unless one defines a name outside every function and class that the other defines, too, or gets from a header of the
project; or one says that it stands alone: `// Compiled alone: REASON`.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
import sys

# A line that says why a source can not be read behind others.
ALONE = re.compile(r"^// Compiled alone: ", re.MULTILINE)
# The names that a source defines outside every function and class: what is defined begins a line.
DEFINED = re.compile(r"^(?!TEST|namespace|using namespace|extern (?!\S+ \w)|template|[A-Z_]+\(|[^(=;{\n]*::~?\w+\()[A-Za-z_].*?\b(\w+)(?:\[[^\]]*\])*\s*(?=[=({;]|:\s)", re.MULTILINE)
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class| struct)?) (\w+)", re.MULTILINE)
USING = re.compile(r"^\s*using [\w:]+::(\w+);", re.MULTILINE)
QUALIFIED = re.compile(r"^\s*using ([\w:]+::\w+);", re.MULTILINE)
# One declaration may define several constants.
CONSTANT = re.compile(r"\b(k[A-Z]\w*)\s*(?:\[[^\]]*\]\s*)?[={]")
CONSTANTS = re.compile(r"^(?:static )?const(?:expr)?\b[^;]*;", re.MULTILINE)
INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)


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


@functools.cache
def names_in(path: str) -> set[str]:
    text = pathlib.Path(path).read_text()
    macros = {name for name in MACRO.findall(text) if not re.search(rf"^[ \t]*#[ \t]*undef[ \t]+{name}\b", text, re.MULTILINE)}
    constants = {name for declaration in CONSTANTS.findall(text) for name in CONSTANT.findall(declaration)}
    return {*constants, *DEFINED.findall(text), *TYPE.findall(text), *USING.findall(text), *macros, *(["main"] if "BENCHMARK_MAIN" in text else [])}


def stands_alone(path: str) -> bool:
    """If it says so, or defines a macro before it includes a header, which that header may ask for."""
    text = pathlib.Path(path).read_text()
    macro, included = MACRO.search(text), INCLUDED.search(text)
    return ALONE.search(text) is not None or (macro is not None and included is not None and macro.start() < included.start())


class Names:
    """The names that a source defines of its own, and all that it sees: these, and its headers'. `used`: the names that it takes out of namespaces;
    they are its own even where a header has them, because they are ambiguous behind a header that has others of that name."""

    def __init__(self, path: str, headers: Headers) -> None:
        of_headers = set().union(*(names_in(header) for header in headers.of(path)))
        self.used = set(QUALIFIED.findall(pathlib.Path(path).read_text()))
        self.own = (names_in(path) - of_headers) | {name.rsplit("::", 1)[1] for name in self.used}
        self.seen = self.own | of_headers


class Group:
    """Sources that can be read as one."""

    def __init__(self, largest: int) -> None:
        self.paths: list[str] = []
        self._largest = largest
        self._own: set[str] = set()
        self._seen: set[str] = set()
        self._used: set[str] = set()

    def takes(self, names: Names) -> bool:
        same = {name.rsplit("::", 1)[1] for name in names.used & self._used}
        return len(self.paths) < self._largest and not ((names.own & self._seen) | (names.seen & self._own)) - same

    def add(self, path: str, names: Names) -> None:
        self.paths.append(path)
        self._own |= names.own
        self._seen |= names.seen
        self._used |= names.used


def groups_of(paths: list[str], headers: Headers, largest: int) -> list[Group]:
    groups: list[Group] = []
    for path in paths:
        if stands_alone(path):
            continue
        names = Names(path, headers)
        group = next((group for group in groups if group.takes(names)), None)
        if group is None:
            group = Group(largest)
            groups.append(group)
        group.add(path, names)
    return [group for group in groups if len(group.paths) > 1]


def main() -> None:
    root, largest = os.path.realpath(sys.argv[1]) + "/", int(sys.argv[2])
    headers = Headers(root)
    targets: dict[str, list[str]] = {}
    for line in sys.stdin:
        target, path = line.rstrip("\n").split(" ", 1)
        targets.setdefault(target, []).append(path)
    for target, paths in targets.items():
        for number, group in enumerate(groups_of(paths, headers, largest)):
            for path in group.paths:
                print(target, f"{target}_{number}", path)


if __name__ == "__main__":
    main()
