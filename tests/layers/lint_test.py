# SPDX-License-Identifier: Apache-2.0
"""scripts/lint.py with a clang-tidy of the test's own: which sources are looked at together, and that nothing counts as clean that is not."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

LINT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "lint.py"

# Complains about "defect", dies without a word of "deadly", and writes down what it was asked for.
FAKE = """#!/usr/bin/env python3
import pathlib, re, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("made up"))
path = pathlib.Path(sys.argv[-1])
with open("asked", "a") as asked:
    asked.write(path.name + "\\n")
text = path.read_text()
for included in re.findall('#include "(.*)"', text):
    text += pathlib.Path(included).read_text()
if "deadly" in text:
    sys.exit(137)
if "defect" in text:
    print(f"{path}: a defect")
    sys.exit(1)
"""


class Lint(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for file, text in {".clang-tidy": "", "tests/.clang-tidy": "", "build/empty": "", "tidy": FAKE}.items():
            path = self.root / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        (self.root / "tidy").chmod(0o755)

    def lint(self, sources: dict[str, str]) -> tuple[int, str, list[str]]:
        """Status, complaints, and the files that were looked at."""
        commands = []
        for name, text in sources.items():
            path = self.root / name
            path.write_text(text)
            macros = " ".join(re.findall("// (-D.*)", text))
            commands.append({"directory": str(self.root), "file": str(path), "command": f"c++ {macros} -o {name}.o -c {path}"})
        (self.root / "build/compile_commands.json").write_text(json.dumps(commands))
        (self.root / "asked").write_text("")
        done = subprocess.run(
            [sys.executable, "-B", LINT, "./tidy", "build", *sources],
            cwd=self.root,
            env={**os.environ, "THERMOCLINE_BUILD_CACHE": str(self.root / "cache"), "JOBS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, (self.root / "asked").read_text().split()

    def test_clean_sources_are_looked_at_together_and_once(self) -> None:
        sources = {"a.cc": "int a();\n", "b.cc": "int b();\n", "c.cc": "int c();\n"}
        self.assertEqual(self.lint(sources), (0, "", ["group_0.cc"]))
        self.assertEqual(self.lint(sources), (0, "", []))

    def test_a_source_is_looked_at_again_when_a_header_of_its_headers_changes(self) -> None:
        sources = {"a.cc": '#include "below.h"\n', "b.cc": "int b();\n"}
        (self.root / "below.h").write_text("#include <inner.h>\n")
        (self.root / "include").mkdir()
        (self.root / "include/inner.h").write_text("int one();\n")
        self.assertEqual(self.lint(sources)[2], ["group_0.cc"])
        (self.root / "include/inner.h").write_text("int two();\n")
        self.assertEqual(self.lint(sources)[2], ["a.cc"])

    def test_a_defect_is_found_in_a_group_and_the_others_are_remembered(self) -> None:
        sources = {"a.cc": "int a();\n", "b.cc": "int b();  // defect\n", "c.cc": "int c();\n"}
        status, said, _ = self.lint(sources)
        self.assertEqual((status, said.strip()), (1, f"{self.root}/b.cc: a defect"))
        self.assertEqual(self.lint(sources)[2], ["b.cc"])

    def test_a_group_is_halved_until_the_defect_is_alone(self) -> None:
        sources = {f"{name}.cc": f"int {name}();\n" for name in "abcd"}
        sources["d.cc"] += "// defect\n"
        self.assertEqual(self.lint(sources)[2], ["group_0.cc", "group_0_0.cc", "group_0_1.cc", "c.cc", "d.cc"])

    def test_who_dies_without_a_word_has_found_nothing_clean(self) -> None:
        sources = {"a.cc": "int a();  // deadly\n", "b.cc": "int b();\n"}
        status, said, _ = self.lint(sources)
        self.assertEqual(status, 1)
        self.assertIn("a.cc: clang-tidy ended with status 137 and said nothing", said)
        self.assertEqual(self.lint(sources)[2], ["a.cc"])

    def test_sources_with_the_same_names_are_looked_at_apart(self) -> None:
        sources = {"a.cc": "constexpr int kSize = 1;\n", "b.cc": "constexpr int kSize = 2;\n", "c.cc": "using x::kSize;\nint c = kSize;\n"}
        self.assertEqual(self.lint(sources), (0, "", ["a.cc", "b.cc", "c.cc"]))

    def test_a_declaration_that_is_not_used_is_complained_about(self) -> None:
        sources = {"a.cc": "int a();\n\nusing std::move;\n", "b.cc": "using std::min;\nint b = min(1, 2);\n", "c.cc": "int c();\n"}
        for _ in range(2):
            status, said, _ = self.lint(sources)
            self.assertEqual((status, said.strip()), (1, f"{self.root}/a.cc:3: 'using std::move;' is not used; remove it"))

    def test_a_source_that_says_so_is_looked_at_alone(self) -> None:
        sources = {"a.cc": "// Compiled alone: it is another.\n", "b.cc": "int b();\n", "c.cc": "int c();\n"}
        self.assertEqual(self.lint(sources), (0, "", ["a.cc", "group_1.cc"]))

    def test_folders_with_rules_of_their_own_are_looked_at_apart(self) -> None:
        (self.root / "part/inner").mkdir(parents=True)
        (self.root / "part/.clang-tidy").write_text("")
        sources = {"a.cc": "", "tests/b.cc": "", "part/c.cc": "", "d.cc": "", "part/inner/e.cc": ""}
        self.assertEqual(self.lint(sources), (0, "", ["group_0.cc", "b.cc", "group_2.cc"]))
        self.assertTrue((self.root / "build/lint/part/.clang-tidy").exists())
        (self.root / "part/.clang-tidy").write_text("Checks: more")
        self.assertEqual(self.lint(sources)[2], ["group_0.cc"])

    def test_reserved_macros_of_headers_keep_sources_apart(self) -> None:
        (self.root / "internal.h").write_text("#define __INTERNAL\n")
        sources = {"a.cc": '#include "internal.h"\n', "b.cc": "int b();\n", "c.cc": '#include "internal.h"\n'}
        self.assertEqual(self.lint(sources), (0, "", ["group_0.cc", "b.cc"]))

    def test_a_macro_that_another_source_asks_for_keeps_them_apart(self) -> None:
        sources = {"a.cc": "int a();  // -DMORE\n", "b.cc": "#ifndef MORE\n#endif\n", "c.cc": "int c();  // -DOTHER=1\n"}
        self.assertEqual(self.lint(sources), (0, "", ["group_0.cc", "b.cc"]))
        sources = {"d.cc": "int d();  // -DMORE=1\n", "e.cc": "int e();  // -DMORE=2\n"}
        self.assertEqual(self.lint(sources), (0, "", ["d.cc", "e.cc"]))


if __name__ == "__main__":
    unittest.main()
