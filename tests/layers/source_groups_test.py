# SPDX-License-Identifier: Apache-2.0
"""scripts/source_groups.py: which sources are compiled as one."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

GROUPS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "source_groups.py"


class SourceGroups(unittest.TestCase):
    def groups(self, sources: dict[str, str], largest: int = 10, targets: str = "all") -> list[list[str]]:
        """The names of the sources that share a group, for files of which those that end in .cc belong to each of the targets."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name).resolve()
            for source, text in sources.items():
                (folder / source).write_text(text)
            lines = "".join(f"{target} {folder}/{source}\n" for target in targets.split() for source in sources if source.endswith(".cc"))
            out = subprocess.run([sys.executable, "-B", GROUPS, folder, str(largest)], input=lines, capture_output=True, text=True, check=True).stdout
        groups: dict[str, list[str]] = {}
        for line in out.splitlines():
            _, group, path = line.split(" ")
            groups.setdefault(group, []).append(pathlib.Path(path).name)
        return list(groups.values())

    def test_sources_with_names_of_their_own_share_a_group(self) -> None:
        self.assertEqual(self.groups({"a.cc": "int a() {\n}\n", "b.cc": "int b() {\n}\n"}), [["a.cc", "b.cc"]])
        self.assertEqual(self.groups({"a.cc": "int same() {\n}\n", "b.cc": "int same() {\n}\n"}), [])

    def test_a_group_is_not_larger_than_it_may_be(self) -> None:
        self.assertEqual(self.groups({f"{name}.cc": "" for name in "abcd"}, largest=2), [["a.cc", "b.cc"], ["c.cc", "d.cc"]])

    def test_every_constant_of_a_declaration_counts(self) -> None:
        self.assertEqual(self.groups({"a.cc": "constexpr int kFirst = 1, kSame = 2;\n", "b.cc": "constexpr int kSame = 3;\n"}), [])

    def test_a_name_of_a_header_belongs_to_whoever_includes_it(self) -> None:
        sources = {"h.h": "struct Same {\n};\n", "a.cc": '#include "h.h"\n', "b.cc": '#include "h.h"\n', "c.cc": "struct Same {\n};\n"}
        self.assertEqual(self.groups(sources), [["a.cc", "b.cc"]])

    def test_a_name_taken_out_of_a_namespace_is_ambiguous_behind_another_of_that_name(self) -> None:
        one, other = "namespace one {\nstruct Same {\n};\n}\n", "namespace other {\nstruct Same {\n};\n}\n"
        taken = '#include "one.h"\nusing one::Same;\n'
        sources = {"one.h": one, "other.h": other, "a.cc": taken, "b.cc": '#include "other.h"\n', "c.cc": taken}
        self.assertEqual(self.groups(sources), [["a.cc", "c.cc"]])

    def test_a_macro_before_a_header_keeps_its_source_alone(self) -> None:
        self.assertEqual(self.groups({"a.cc": "#define ASKED\n#include <b.h>\n", "b.cc": "", "c.cc": "#include <b.h>\n#define LOCAL\n"}), [["b.cc", "c.cc"]])

    def test_a_macro_that_ends_in_its_source_keeps_nothing_apart(self) -> None:
        ends, stays = "#define X 1\n#undef X\n", "#define X 1\n"
        self.assertEqual(self.groups({"a.cc": ends, "b.cc": ends}), [["a.cc", "b.cc"]])
        self.assertEqual(self.groups({"a.cc": stays, "b.cc": stays}), [])

    def test_a_source_that_says_so_is_alone(self) -> None:
        self.assertEqual(self.groups({"a.cc": "// Compiled alone: it is another.\n", "b.cc": ""}), [])

    def test_sources_of_different_targets_share_none(self) -> None:
        self.assertEqual(self.groups({"a.cc": "", "b.cc": ""}, targets="one two"), [["a.cc", "b.cc"], ["a.cc", "b.cc"]])


if __name__ == "__main__":
    unittest.main()
