# SPDX-License-Identifier: Apache-2.0
"""record(alternatives=True): a trace with all ways of attention has in each of them what a recording of that way has. Skipped (status 77)
where PyTorch is not."""

import collections
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
try:
    import torch
except ImportError:
    print("PyTorch is not installed for this Python")
    sys.exit(77)
import torch.nn.functional as F
import thermocline.torch as tt

BATCH, LENGTH, WIDTH, HEADS = 2, 256, 128, 8
COMMAND = os.environ.get("THERMOCLINE_TEST_COMMAND", "")
Events = list[dict[str, Any]]


class Layer(torch.nn.Module):
    def __init__(self, *, math: bool = False, dropout: float = 0.1) -> None:
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.attention = torch.ops.aten._scaled_dot_product_attention_math if math else F.scaled_dot_product_attention
        self.dropout = dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = self.attention(q, k, v, None, self.dropout, True)
        y = y[0] if isinstance(y, tuple) else y
        return x + self.out(y.transpose(1, 2).reshape(x.shape))


def recorded(model: torch.nn.Module, path: str, dtype: torch.dtype = torch.float32, **options: Any) -> Events:
    inputs = torch.empty(BATCH, LENGTH, WIDTH, dtype=dtype)
    tt.record(model.to(dtype), inputs, path, optimizer=lambda p: torch.optim.SGD(p, 0.1), steps=3, **options)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file][1:]


def taken(events: Events, name: str) -> Events:
    """The events if each choice takes this alternative."""
    return [event for event in events if event["e"] != "choice" and event.get("a", name) == name]


def facts(events: Events) -> list[tuple[Any, ...]]:
    """The events, with buffers numbered in order of allocation."""
    numbers: dict[int, int] = {}
    out: list[tuple[Any, ...]] = []
    for event in events:
        if event["e"] == "alloc":
            numbers[event["b"]] = len(numbers)
            out.append(("alloc", event["n"]))
        elif event["e"] == "free":
            out.append(("free", numbers[event["b"]]))
        elif event["e"] == "op":
            operands = [[numbers[buffer] for buffer in event[key]] for key in "rw"]
            out.append((event["k"], *operands, event["flops"], event["bytes"]))
    return out


def most_alive(events: Events) -> int:
    alive: dict[int, int] = {}
    most = 0
    for event in events:
        if event["e"] == "alloc":
            alive[event["b"]] = event["n"]
        elif event["e"] == "free":
            del alive[event["b"]]
        most = max(most, sum(alive.values()))
    return most


def operators(events: Events) -> collections.Counter:
    """Without the copies that a layer makes of its attention's result, which the ways lay out differently."""
    return collections.Counter((event["k"], event["flops"]) for event in events if event["e"] == "op" and event["k"] != "clone")


class Alternatives(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "step.jsonl.gz")

    def test_the_first_is_what_a_recording_without_them_has(self) -> None:
        for dtype, names in ((torch.float32, ["efficient", "math"]), (torch.bfloat16, ["flash", "efficient", "math"])):
            plain = recorded(torch.nn.Sequential(Layer(), Layer()), self.path, dtype)
            events = recorded(torch.nn.Sequential(Layer(), Layer()), self.path, dtype, alternatives=True)
            choices = [event for event in events if event["e"] == "choice"]
            self.assertEqual([choice["of"] for choice in choices], [names, names], "one for each layer, in all steps")
            self.assertEqual(facts(taken(events, names[0])), facts(plain))

    def test_matrices_are_what_a_recording_of_them_has(self) -> None:
        for dropout in (0.0, 0.1):
            layers = torch.nn.Sequential(*(Layer(math=True, dropout=dropout) for _ in range(3)))
            alone = recorded(layers, self.path)
            both = recorded(torch.nn.Sequential(*(Layer(dropout=dropout) for _ in range(3))), self.path, alternatives=True)
            events = taken(both, "math")
            self.assertEqual(operators(events), operators(alone))
            # Each alternative keeps what the fused one does: inputs, the result, statistics of rows.
            kept = 3 * BATCH * LENGTH * (4 * WIDTH + 2 * HEADS) * 4
            self.assertGreaterEqual(most_alive(events), most_alive(alone))
            self.assertLess(most_alive(events), most_alive(alone) + 1.1 * kept)
            self.assertGreater(most_alive(events), 1.3 * most_alive(taken(both, "efficient")))

    def test_without_gradients_and_with_shared_keys(self) -> None:
        class Shared(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                q = x.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2)
                with torch.no_grad():
                    y = F.scaled_dot_product_attention(q, q[:, :2], q[:, :2], enable_gqa=True)
                return x * y.transpose(1, 2).reshape(x.shape)

        model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), Shared())
        events = recorded(model, self.path, alternatives=True)
        self.assertEqual(sum(event["e"] == "choice" for event in events), 1)
        self.assert_replays(["efficient", "math"])

    def assert_replays(self, names: list[str]) -> None:
        if not COMMAND:
            return
        for name in [*names, "auto"]:
            terms = ["--alternatives", name, "--json"]
            done = subprocess.run([COMMAND, "replay", self.path, *terms], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            choices = json.loads(done.stdout)["alternatives"]["choices"]
            if name != "auto":
                self.assertEqual({choice["taken"] for choice in choices}, {name})

    def test_the_command_replays_each(self) -> None:
        if not COMMAND:
            self.skipTest("THERMOCLINE_TEST_COMMAND says where the command is")
        recorded(torch.nn.Sequential(Layer(), Layer()), self.path, torch.float16, alternatives=True)
        self.assert_replays(["flash", "efficient", "math"])


if __name__ == "__main__":
    unittest.main()
