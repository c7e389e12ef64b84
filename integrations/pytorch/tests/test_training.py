# SPDX-License-Identifier: Apache-2.0
"""record(): what a step's trace must not have that a GPU would not, and what it must say about its buffers. Skipped (status 77) where PyTorch
is not."""

import collections
import gzip
import json
import os
import sys
import tempfile
import types
import unittest
import warnings
from collections.abc import Callable

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
try:
    import torch
except ImportError:
    print("PyTorch is not installed for this Python")
    sys.exit(77)
import torch.nn.functional as F
import thermocline.torch as tt

BATCH, LENGTH, WIDTH, HEADS = 2, 256, 128, 8


class Block(torch.nn.Module):
    """A layer of a transformer as GPT-2 has it (nanoGPT's names); dropout 0.1, as Megatron's formula assumes."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.attn, self.proj = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.fc, self.out = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for part in self.attn(self.ln_1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1)
        x = x + F.dropout(self.proj(y.transpose(1, 2).reshape(x.shape)), 0.1)
        return x + F.dropout(self.out(F.gelu(self.fc(self.ln_2(x)))), 0.1)


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(512, 64), torch.nn.Linear(64, 512, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens))


class WithLoss(torch.nn.Module):
    """As Hugging Face's models give their outputs where labels are given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> types.SimpleNamespace:
        scores = self.layer(x)
        return types.SimpleNamespace(scores=scores, loss=scores.square().mean())


class Asks(torch.nn.Module):
    """Goes one way where positions rise by one, and another where they do not."""

    def __init__(self, positions: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.positions, self.embedding = positions, torch.nn.Embedding(16, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = self.positions(tokens)
        rises = positions[1:] - positions[:-1] == 1
        x = self.embedding(tokens)
        return x.tanh() if rises.all() else x.sigmoid()


def in_a_list(positions: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    torch._foreach_add_([positions], [change])
    return positions


def through_a_view(positions: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    positions.view(4, 4).add_(change.view(4, 4))
    return positions


class Training(unittest.TestCase):
    def record(self, model: torch.nn.Module, inputs: object, **options: object) -> list[dict]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.jsonl.gz")
            tt.record(model, inputs, path, **options)
            with gzip.open(path, "rt", encoding="utf-8") as file:
                return [json.loads(line) for line in file][1:]

    def most_alive(self, events: list[dict]) -> int:
        alive, most = {}, 0
        for event in events:
            if event["e"] == "alloc":
                alive[event["b"]] = event["n"]
            elif event["e"] == "free":
                del alive[event["b"]]
            most = max(most, sum(alive.values()))
        return most

    def test_attention_is_fused_as_on_a_gpu(self) -> None:
        names = {torch.bfloat16: "flash", torch.float32: "efficient"}
        for dtype, name in names.items():
            events = self.record(Block().to(dtype), torch.empty(BATCH, LENGTH, WIDTH, dtype=dtype), steps=1)
            kinds = {event.get("k") for event in events}
            self.assertIn(f"_scaled_dot_product_{name}_attention", kinds)
            self.assertIn(f"_scaled_dot_product_{name}_attention_backward", kinds)
            square = BATCH * HEADS * LENGTH * LENGTH * dtype.itemsize
            self.assertLess(max(event["n"] for event in events if event["e"] == "alloc"), square)

    def test_a_module_with_attention_and_a_mask_of_truths(self) -> None:
        class Masked(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
                self.register_buffer("mask", torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.inner(x, x, x, attn_mask=self.mask, need_weights=False)[0]

        events = self.record(Masked(), torch.empty(BATCH, LENGTH, WIDTH), steps=1)
        self.assertIn("_scaled_dot_product_efficient_attention_backward", {event.get("k") for event in events})
        largest = max(event["n"] for event in events if event["e"] == "alloc")
        self.assertLess(largest, BATCH * HEADS * LENGTH * LENGTH * 4)

    def test_outside_of_a_recording_attention_is_as_it_was(self) -> None:
        self.record(Block(), torch.empty(BATCH, LENGTH, WIDTH), steps=1)
        q = torch.empty(BATCH, HEADS, LENGTH, 16, device="meta", requires_grad=True)
        self.assertNotIn("Efficient", str(F.scaled_dot_product_attention(q, q, q).grad_fn))

    def test_a_layer_keeps_what_megatrons_formula_says(self) -> None:
        """Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models (2022), equation 1: s b h (34 + 5 a s / h) bytes
        in half precision, of which flash attention keeps s b h 34. The copy that makes the heads' result one row (2 s b h) is not in it."""
        layers = [
            self.most_alive(self.record(torch.nn.Sequential(*(Block() for _ in range(n))).bfloat16(), inputs, steps=1))
            for n in (2, 6)
            for inputs in [torch.empty(BATCH, LENGTH, WIDTH, dtype=torch.bfloat16)]
        ]
        parameters = 2 * sum(parameter.numel() for parameter in Block().parameters())
        kept = (layers[1] - layers[0]) / 4 - parameters
        formula = 34 * BATCH * LENGTH * WIDTH
        self.assertGreater(kept, 0.95 * formula)
        self.assertLess(kept, 1.10 * formula)

    def test_autocast_is_refused_and_not_ignored(self) -> None:
        class Cast(torch.nn.Linear):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    return super().forward(x)

        with self.assertRaisesRegex(RuntimeError, "autocast has no effect on meta tensors.*float32: convert the model"):
            self.record(Cast(8, 8), torch.empty(8, 8))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.autocast("cuda", dtype=torch.bfloat16)  # as before

    def test_every_buffer_says_what_it_is(self) -> None:
        model = torch.nn.Sequential(collections.OrderedDict(first=torch.nn.Linear(64, 128), act=torch.nn.ReLU(), last=torch.nn.Linear(128, 8)))
        events = self.record(model, (torch.empty(32, 64),), optimizer=lambda p: torch.optim.AdamW(p, 1e-3), steps=3)
        tags = collections.Counter(event["tag"] for event in events if event["e"] == "alloc")
        for name in ("first.weight", "first.bias", "last.weight", "last.bias"):
            self.assertEqual(tags[f"parameter {name}"], 1)
            self.assertEqual(tags[f"gradient {name}"], 3)
            self.assertEqual(tags[f"optimizer {name}"], 2)  # the two moments, and no step: that is a number on the host
        self.assertEqual(tags["input"], 3)
        self.assertEqual({tag for tag in tags if tag.startswith("activation")}, {"activation first", "activation act", "activation last"})
        self.assertIn("temporary", tags)

    def test_what_modules_share_is_one_buffer(self) -> None:
        model = Tied()
        events = self.record(model, torch.empty(4, 16, dtype=torch.long), steps=1)
        tags = [event["tag"] for event in events if event["e"] == "alloc"]
        self.assertEqual([tag for tag in tags if tag.startswith("parameter")], ["parameter embedding.weight"])
        self.assertIs(model.head.weight, model.embedding.weight)
        self.assertEqual(model.embedding.weight.device.type, "cpu")

    def test_inputs_are_arguments_or_refused(self) -> None:
        model = torch.nn.Linear(8, 8)
        alone = self.record(model, torch.empty(4, 8))
        self.assertEqual(self.record(model, [torch.empty(4, 8)]), alone)
        self.assertEqual(self.record(model, (torch.empty(4, 8),)), alone)
        self.assertEqual(self.record(model, {"input": torch.empty(4, 8)}), alone)
        with self.assertRaisesRegex(TypeError, "inputs: the arguments of one forward pass.*not str"):
            self.record(model, "input")

    def test_what_is_given_wrongly_is_refused_before_anything_is_written(self) -> None:
        model, x = torch.nn.Linear(8, 8), torch.empty(4, 8)
        made = torch.optim.AdamW(model.parameters())
        with self.assertRaisesRegex(TypeError, r"optimizer: .* lambda parameters: torch.optim.AdamW\(parameters, ...\); not an optimizer"):
            self.record(model, x, optimizer=made)
        with self.assertRaisesRegex(TypeError, "model: a torch.nn.Module is needed, not function"):
            self.record(lambda x: x, x)
        with tempfile.TemporaryDirectory() as folder:
            absent = os.path.join(folder, "absent", "step.jsonl.gz")
            with self.assertRaisesRegex(FileNotFoundError, "step.jsonl.gz: there is no folder .*absent"):
                tt.record(model, x, absent)
            self.assertEqual(os.listdir(folder), [])

    def test_the_loss_of_the_outputs_is_taken(self) -> None:
        by_itself = self.record(WithLoss(), {"x": torch.empty(4, 8)})
        self.assertEqual(by_itself, self.record(WithLoss(), torch.empty(4, 8), loss=lambda outputs, _x: outputs.loss))
        self.assertNotEqual(by_itself, self.record(WithLoss(), torch.empty(4, 8), loss=lambda outputs, _x: outputs.scores.sum()))

    def test_values_that_follow_from_shapes_are_known(self) -> None:
        """As Hugging Face's models ask in each forward pass whether sequences are packed."""
        whole = self.record(Asks(lambda tokens: torch.arange(tokens.shape[1], device=tokens.device)), torch.zeros(4, 16, dtype=torch.long))
        names = [event["k"] for event in whole if event["e"] == "op"]
        self.assertIn("tanh", names)
        self.assertNotIn("sigmoid", names)

    def test_values_that_do_not_are_not_guessed(self) -> None:
        inputs = torch.zeros(4, 16, dtype=torch.long)
        changed_by_inputs = [
            lambda tokens: tokens[0],
            lambda tokens: torch.arange(16, device=tokens.device).add_(tokens[0]),
            lambda tokens: torch.arange(32, device=tokens.device)[:16].copy_(tokens[0]),
            lambda tokens: through_a_view(torch.arange(16, device=tokens.device), tokens[0]),
            lambda tokens: in_a_list(torch.arange(16, device=tokens.device), tokens[0]),
            lambda tokens: torch.randint(0, 9, (16,), device=tokens.device),
            lambda tokens: torch.empty(16, dtype=torch.long, device=tokens.device).zero_(),
        ]
        for i, positions in enumerate(changed_by_inputs):
            with self.subTest(i), self.assertRaisesRegex(RuntimeError, "reads a value .* that depends on the contents"):
                self.record(Asks(positions), inputs)


if __name__ == "__main__":
    unittest.main()
