# SPDX-License-Identifier: Apache-2.0
"""scripts/peer_tables.py with made-up results: what counts as a goal reached, what stands where nothing was measured."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import peer_tables

LIVES = (1000, 20000, 100000)


def row(sequence: str, allocator: str, **figures: object) -> dict:
    return {"sequence": sequence, "allocator": allocator, "ns": 100.4, "ratio": 1, "reserved_per_live": 1.01, **figures}


def rows(onnx: float, torch: float, held: tuple[float, float, float], over_alone: float) -> list[dict]:
    """`onnx`, `torch`: their times over ours; `held`: reserved / live of ours, theirs."""
    times = {"thermocline": 1, "ONNX Runtime 1": onnx, "PyTorch 2": torch}
    found = [row(f"churn-{live}-1024k", name, ratio=time) for live in LIVES for name, time in times.items()]
    steps = ("gpt2_b8", "resnet50_b64")
    found += [row(s, name, ratio=time, reserved_per_live=bytes_) for s in steps for (name, time), bytes_ in zip(times.items(), held)]
    return found + [row("two-threads-hit", "thermocline", alone_ns=10, over_alone=over_alone)]


class PeerTables(unittest.TestCase):
    def goals(self, found: list[dict]) -> dict[str, str]:
        """Whether each goal is reached."""
        lines = self.made(peer_tables.goals, found).splitlines()[2:]
        return {line.split(" | ")[0].lstrip("| "): line.split(" | ")[3].rstrip(" |") for line in lines}

    def made(self, table: object, found: list[dict]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "bench/results/peers.json")
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({"rows": found}))
            before = os.getcwd()
            os.chdir(folder)
            try:
                return table()
            finally:
                os.chdir(before)

    def test_all_are_reached(self) -> None:
        goals = self.goals(rows(onnx=1.7, torch=2.9, held=(1.02, 1.1, 1.1), over_alone=1.3))
        self.assertEqual(set(goals.values()), {"yes"})
        self.assertEqual(len(goals), 2 * len(LIVES) + 4 + 2 + 1)

    def test_each_time_has_its_own_goal(self) -> None:
        goals = self.goals(rows(onnx=1.6, torch=2.8, held=(1.01, 1.1, 1.1), over_alone=1.31))
        missed = {what for what, reached in goals.items() if reached != "yes"}
        churned = {f"churn to 1 MiB, {live:,} live: time over {other}'s" for live in LIVES for other in ("ONNX Runtime 1", "PyTorch 2")}
        self.assertEqual(missed, churned | {"two threads, hit: time over one thread's"})

    def test_no_more_is_reserved_than_the_others_do(self) -> None:
        for held in ((1.01, 1.005, 1.1), (1.01, 1.1, 1.005), (1.021, 1.1, 1.1)):
            missed = [what for what, reached in self.goals(rows(onnx=2, torch=3, held=held, over_alone=1)).items() if reached != "yes"]
            self.assertEqual(len(missed), 2, held)
            self.assertTrue(all("reserved" in what for what in missed), missed)

    def test_what_was_not_measured_is_a_dash(self) -> None:
        found = [row("hit", "thermocline", instructions=1234), row("hit", "RMM"), row("handed-over", "RMM", instructions=7)]
        lines = self.made(peer_tables.instructions, found).splitlines()[2:]
        self.assertEqual(lines, ["| hit | 1,234 | - |", "| freed by another thread | - | 7 |"])

    def test_ratios_are_to_ours(self) -> None:
        lines = self.made(peer_tables.time, [row("hit", "thermocline"), row("hit", "RMM", ns=1234.5, ratio=12.3)]).splitlines()[2:]
        self.assertEqual(lines, ["| hit | 100 | 1,234 (12.30) |"])


if __name__ == "__main__":
    unittest.main()
