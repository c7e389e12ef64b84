# SPDX-License-Identifier: Apache-2.0
"""Traces of small models, whose right answers can be counted by hand. Skipped (status 77) where PyTorch is not."""

import contextlib
import gzip
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
try:
    import torch
except ImportError:
    print("PyTorch is not installed for this Python")
    sys.exit(77)
import thermocline.torch as tt


def events_of(path: str) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def operators(events: list[dict], name: str) -> list[dict]:
    return [event for event in events if event.get("k") == name]


class Recording(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "trace.jsonl.gz")

    def test_a_step_is_told_to_the_recording_and_to_nobody_else(self) -> None:
        tt.step()
        with tt.recording(self.path):
            torch.ones(8, device="meta")
            tt.step()
            torch.ones(8, device="meta")
            tt.step()
        tt.step()
        self.assertEqual(sum(event.get("e") == "step" for event in events_of(self.path)), 2)

    def test_buffers_begin_before_their_use_and_end_when_nothing_refers_to_them(self) -> None:
        with tt.recording(self.path) as mode:
            a = torch.ones(8, 1024, device="meta")
            b = a + a
            view = b.view(1024, 8)
            del b
            c = view.t() * 2
            del view, a, c
            mode.step()
        header, *events = events_of(self.path)
        self.assertEqual(header["schema"], "thermocline-trace/1")
        size = 8 * 1024 * 4
        self.assertEqual(
            events,
            [
                {"e": "alloc", "b": 0, "n": size},
                {"e": "op", "k": "ones", "r": [], "w": [0], "flops": 0, "bytes": size},
                {"e": "alloc", "b": 1, "n": size},
                {"e": "op", "k": "add", "r": [0], "w": [1], "flops": 0, "bytes": 2 * size},
                {"e": "alloc", "b": 2, "n": size},
                {"e": "op", "k": "mul", "r": [1], "w": [2], "flops": 0, "bytes": 2 * size},
                {"e": "free", "b": 1},
                {"e": "free", "b": 0},
                {"e": "free", "b": 2},
                {"e": "step", "i": 0},
            ],
        )

    def test_what_is_changed_in_place_is_read_and_written(self) -> None:
        with tt.recording(self.path):
            a = torch.zeros(1024)
            a.add_(1)
            torch.mul(a, 2, out=(b := torch.empty(1024)))
        events = events_of(self.path)
        self.assertEqual([(o["r"], o["w"]) for o in operators(events, "add_")], [([0], [0])])
        self.assertEqual([(o["r"], o["w"]) for o in operators(events, "mul")], [([0], [1])])
        del b

    def test_a_multiply_add_is_two_flops(self) -> None:
        with tt.recording(self.path):
            torch.ones(16, 32, device="meta") @ torch.ones(32, 64, device="meta")
        self.assertEqual([o["flops"] for o in operators(events_of(self.path), "mm")], [2 * 16 * 32 * 64])

    def test_training_steps_become_equal_and_nothing_of_the_model_changes(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
        before = [parameter.clone() for parameter in model.parameters()]
        tt.record(
            model, (torch.empty(32, 64),), self.path, optimizer=lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), steps=5
        )
        for old, new in zip(before, model.parameters(), strict=True):
            self.assertTrue(torch.equal(old, new))
            self.assertIsNone(new.grad)
        steps: list[list] = [[]]
        for event in events_of(self.path)[1:]:
            steps[-1].append((event["e"], event.get("k"), event.get("n"), event.get("flops")))
            if event["e"] == "step":
                steps.append([])
        self.assertEqual(len(steps), 6)
        self.assertEqual(steps[2], steps[3])
        self.assertEqual(steps[3], steps[4])
        # Forward and twice as much backward, but for the gradient of the input, which nobody wants.
        flops = sum(event[3] for event in steps[3] if event[0] == "op")
        first, second = 2 * 32 * 64 * 128, 2 * 32 * 128 * 8
        self.assertEqual(flops, 2 * first + 3 * second)

    def test_a_recorded_step_computes_what_it_computes_otherwise(self) -> None:
        """Operators of lists of tensors return nothing, as do some of the programs' own, and none may run twice."""

        def trained(**options: bool) -> torch.Tensor:
            torch.manual_seed(0)
            layer = torch.nn.Linear(4, 4)
            optimizer = torch.optim.SGD(layer.parameters(), 0.1, momentum=0.9, **options)
            for _ in range(3):
                optimizer.zero_grad()
                layer(torch.randn(3, 4)).sum().backward()
                optimizer.step()
            return layer.weight.detach()

        for options in ({"foreach": False}, {"foreach": True}, {"fused": True}):
            with self.subTest(options):
                expected = trained(**options)
                with tt.recording(self.path):
                    got = trained(**options)
                self.assertTrue(torch.equal(got, expected))

    def test_a_programs_own_operator_runs_once(self) -> None:
        calls: list[str] = []
        with torch.library._scoped_library("thermocline_test", "FRAGMENT") as library:
            library.define("tell(Tensor x) -> ()")
            library.define("tell_and_make(Tensor x) -> Tensor")
            for device in ("CPU", "Meta"):
                library.impl("tell", lambda _x: calls.append("tell"), device)
                library.impl("tell_and_make", lambda x: (calls.append("make"), torch.empty_like(x))[1], device)
            for device in ("cpu", "meta"):
                calls.clear()
                with self.subTest(device), tt.recording(self.path):
                    torch.ops.thermocline_test.tell(torch.arange(4, device=device))
                    torch.ops.thermocline_test.tell_and_make(torch.arange(4, device=device))
                self.assertEqual(calls, ["tell", "make"])

    def test_what_fails_leaves_no_file(self) -> None:
        with self.assertRaises(ZeroDivisionError), tt.recording(self.path):
            torch.ones(8)
            raise ZeroDivisionError
        self.assertEqual(os.listdir(self.folder.name), [])
        with self.assertRaisesRegex(ValueError, "steps: at least one"):
            tt.record(torch.nn.Linear(2, 2), (torch.empty(2, 2),), self.path, steps=0)

    def test_a_pipe_is_written_to_and_stays(self) -> None:
        os.mkfifo(self.path)

        def fails(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            raise ZeroDivisionError

        for loss in (lambda out, x: out.sum(), fails):
            read: list[bytes] = []
            reader = threading.Thread(target=lambda: read.append(pathlib.Path(self.path).read_bytes()))  # noqa: B023
            reader.start()
            with contextlib.suppress(ZeroDivisionError):
                tt.record(torch.nn.Linear(4, 4), (torch.empty(4, 4),), self.path, loss=loss)
            reader.join()
            self.assertTrue(stat.S_ISFIFO(os.stat(self.path).st_mode))
            self.assertEqual(os.listdir(self.folder.name), ["trace.jsonl.gz"])
            self.assertIn(b"thermocline-trace/1", gzip.decompress(read[0]))

    def test_a_link_stays_and_a_folder_is_refused_at_once(self) -> None:
        link = os.path.join(self.folder.name, "link")
        os.symlink(self.path, link)
        with tt.recording(link):
            torch.ones(8)
        self.assertTrue(os.path.islink(link))
        self.assertEqual(len(operators(events_of(self.path), "ones")), 1)
        with self.assertRaises(IsADirectoryError), tt.recording(self.folder.name):
            self.fail("the block was entered")

    @unittest.skipUnless("THERMOCLINE_TEST_COMMAND" in os.environ, "THERMOCLINE_COMMAND: where the command is")
    def test_the_command_replays_what_was_recorded(self) -> None:
        model = torch.nn.Sequential(*(torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(8)))
        tt.record(model, (torch.empty(8, 16, 256, 256),), self.path, steps=4)
        command = [os.environ["THERMOCLINE_TEST_COMMAND"], "replay", self.path, "--json", "--steps", "8"]
        whole = json.loads(subprocess.run([*command, "--policy", "none"], check=True, capture_output=True).stdout)
        small = json.loads(subprocess.run([*command, "--budget", "60%"], check=True, capture_output=True).stdout)
        self.assertEqual(small["checksum"], whole["checksum"])
        self.assertGreater(small["steps"][-1]["evicted_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
