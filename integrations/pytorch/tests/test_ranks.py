# SPDX-License-Identifier: Apache-2.0
"""Two ranks on gloo: each plans alone, the bits are those of plain PyTorch, plans that differ are named, and nobody waits for a plan."""

import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import fit_steps  # noqa: F401  first: without PyTorch it skips the test
import torch

if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    print("this PyTorch has no gloo")
    sys.exit(77)

_DEADLOCK_SECONDS = 600  # far beyond what these take: a rank that waits forever has to end


class Ranks(unittest.TestCase):
    def run_ranks(self, kind: str, how: str, *budgets: str) -> tuple[list[dict], str]:
        """The outcome of each rank, and their output."""
        program = os.path.join(os.path.dirname(__file__), "ranks_program.py")
        words = [sys.executable, "-B", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program, kind, how, *budgets]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, capture_output=True, text=True, timeout=_DEADLOCK_SECONDS, env=environment, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        found = sorted((json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")), key=lambda one: one["rank"])
        self.assertEqual([one["rank"] for one in found], [0, 1])
        self.assertTrue(all(one["same"] for one in found), found)
        return found, done.stderr

    def test_equal_ranks_say_nothing(self) -> None:
        found, said = self.run_ranks("ddp", "eager", "60%", "60%")
        self.assertTrue(all(one["dropped"] > 0 for one in found), found)
        self.assertNotIn("another plan", said)

    def test_the_rank_that_differs_is_named_with_what_differs(self) -> None:
        _, said = self.run_ranks("ddp", "eager", "60%", "75%")
        lines = [line for line in said.splitlines() if "another plan" in line]
        self.assertTrue(lines, said)
        for line in lines:
            self.assertRegex(line, r"fit: rank [01] has another plan than rank [01] \(plan \d\): budget \d+, here \d+$")

    def test_a_rank_without_a_plan_keeps_nobody_waiting(self) -> None:
        found, said = self.run_ranks("ddp", "eager", "60%", "")
        self.assertEqual([one["planned"] for one in found], [True, False])
        self.assertNotIn("another plan", said)

    def test_compiled(self) -> None:
        found, said = self.run_ranks("ddp", "compiled", "50%", "50%")
        self.assertTrue(all(one["planned"] for one in found), found)
        self.assertNotIn("another plan", said)
        _, said = self.run_ranks("ddp", "compiled", "50%", "80%")
        self.assertRegex(said, r"compile_budget: rank [01] has another plan than rank [01] \(plan 1\): saved bytes \d+, here \d+")

    def test_sharded_parameters_are_not_read_at_another_time(self) -> None:
        found, said = self.run_ranks("fsdp", "eager", "80%", "80%")
        self.assertTrue(all(one["dropped"] > 0 for one in found), found)
        for one in found:
            self.assertEqual(one["reruns"], ["gelu"])
        counts = re.findall(r"fit: (\d+) operators? reads? what collectives filled, such as parameters that FSDP gathers; what is made of it is kept", said)
        self.assertEqual(len(counts), 2, said)  # a line of each rank
        self.assertGreaterEqual(min(map(int, counts)), 8)  # the matrix product of each block


if __name__ == "__main__":
    unittest.main()
