# SPDX-License-Identifier: Apache-2.0
"""thermocline.torch.fit and compile_budget on models of their usual sizes, on CPU tensors: bits against plain PyTorch, and peaks against budgets and
promises. Writes one JSON object; with names of models as further arguments, only their rows of it.

    PATH=build/release/bin:$PATH python bench/fit_models_full.py bench/results/pytorch_models.json

ResNets and ViT are torchvision's, GPT-2, Llama and the mixture of experts are transformers'; U-Net is that of the tests, larger. Eager rows: loss, all
gradients and buffers of two steps, the second by the plan, are compared bit by bit (digests), and the peak of storages is what a dispatch mode measures.
Compiled rows (`aot_eager`): the same bits as that compiler without a budget, and the bytes that regions save for backward. Needs PyTorch, torchvision,
transformers, the command `thermocline`, and 6 GiB of memory.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "..", "integrations", "pytorch", part) for part in ("src", "tests")]
import fit_models  # noqa: E402

import thermocline.torch as tt  # noqa: E402

torch.set_num_threads(1)
# Parts of the way from the least budget to what is needed whole.
BUDGETS = (0.03, 0.4, 0.8)


class Logits(nn.Module):
    """A model of transformers as a function of words."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(input_ids=x, use_cache=False).logits


def resnet(name: str) -> nn.Module:
    import torchvision

    return getattr(torchvision.models, name)(weights=None)


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return Logits(GPT2LMHeadModel(GPT2Config()))  # the small one: 124 million parameters


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=2, vocab_size=8000
    )
    return Logits(LlamaForCausalLM(config))


def experts() -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2, vocab_size=1000,
        num_local_experts=4,
    )  # fmt: skip
    return Logits(MixtralForCausalLM(config))


def vit() -> nn.Module:
    import torchvision

    return torchvision.models.vit_b_16(weights=None, dropout=0.1)


def lstm() -> nn.Module:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.layers, self.head = nn.Embedding(4000, 256), nn.LSTM(256, 256, 2, dropout=0.2, batch_first=True), nn.Linear(256, 4000)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.layers(self.words(x))[0])

    return Words()


# Given True, small ones: where a processor has no arithmetic in bfloat16, an operator takes a hundred times as long.
Inputs = Callable[[bool], torch.Tensor]


def images(count: int, size: int, small: tuple[int, int]) -> Inputs:
    def make(is_small: bool) -> torch.Tensor:
        n, side = small if is_small else (count, size)
        return torch.randn(n, 3, side, side)

    return make


def words(count: int, length: int, most: int, small: tuple[int, int]) -> Inputs:
    return lambda is_small: torch.randint(0, most, small if is_small else (count, length))


MODELS: dict[str, tuple[Callable[[], nn.Module], Inputs]] = {
    "ResNet-18": (lambda: resnet("resnet18"), images(4, 224, (2, 64))),
    "ResNet-50": (lambda: resnet("resnet50"), images(2, 224, (2, 64))),
    "U-Net": (lambda: fit_models.UNet(32), images(2, 128, (1, 32))),
    "LSTM": (lstm, words(4, 64, 4000, (2, 16))),
    "mixture of experts": (experts, words(8, 128, 1000, (4, 64))),
    "Llama-like": (llama, words(8, 128, 8000, (1, 16))),
    "GPT-2 small": (gpt2, words(8, 128, 50257, (1, 8))),
    "ViT-B/16": (vit, images(4, 224, (1, 224))),
}

# Compiled regions count what they save alone, for which a smaller batch does as well.
COMPILED: dict[str, Inputs] = {
    "Llama-like": words(2, 128, 8000, (1, 16)),
    "GPT-2 small": words(2, 128, 50257, (1, 8)),
    "ViT-B/16": images(1, 224, (1, 224)),
}


def digest(tensors: list[torch.Tensor]) -> str:
    """Equal for equal bits."""
    found = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        found.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


@dataclass
class Left:
    """Results of some steps."""

    digests: list[str] = field(default_factory=list)  # by step: of loss, gradients and buffers
    peak_bytes: int = 0  # of the last one


class Run:
    """Steps of a model from one beginning."""

    def __init__(self, name: str, dtype: torch.dtype, inputs: Inputs | None = None) -> None:
        make, usual = MODELS[name]
        torch.manual_seed(1)
        self.model = make().to(dtype).train()
        x = (inputs or usual)(dtype == torch.bfloat16)
        self.x = x.to(dtype) if x.is_floating_point() else x

    def steps(self, call: Callable[..., Any], context: Any = None, *, count: int = 2, measured: bool = False) -> Left:
        """context: is entered around each step."""
        left = Left()
        torch.manual_seed(2)
        for _ in range(count):
            watch = tt.PeakBytes(*self.model.parameters(), *self.model.buffers(), self.x) if measured else contextlib.nullcontext()
            with watch, contextlib.nullcontext() if context is None else context:
                loss = call(self.x).float().square().mean()
                loss.backward()
            left.peak_bytes = watch.most if measured else 0
            left.digests.append(digest([loss.detach(), *(p.grad for p in self.model.parameters() if p.grad is not None), *self.model.buffers()]))
            with torch.no_grad():
                for p in self.model.parameters():
                    if p.grad is not None:
                        p -= 0.01 * p.grad
                    p.grad = None
            del loss  # its graph, too
        return left


def least_of(run: Run) -> int:
    """The least budget for which there is a plan, if gradients are gone when the next step begins."""
    fitted = tt.fit(run.model, budget=1, verbose=False)
    try:
        run.steps(run.model, fitted, count=1)
    except tt.DoesNotFitError as error:
        return int((re.search(r"or budget=(\d+) if", str(error)) or re.search(r"found for budget=(\d+)", str(error)))[1])
    raise AssertionError("a byte suffices")


def between(least: int, whole: int) -> list[int]:
    return [least + int((whole - least) * part) for part in BUDGETS]


def eager(name: str, dtype: torch.dtype) -> list[dict[str, Any]]:
    run = Run(name, dtype)
    plain = run.steps(run.model, measured=True)
    least = least_of(Run(name, dtype))
    rows = []
    for budget in between(least, plain.peak_bytes):
        run = Run(name, dtype)
        fitted = tt.fit(run.model, budget=budget, verbose=False)
        ours = run.steps(run.model, fitted, measured=True)
        rows.append(
            {
                "model": name,
                "dtype": str(dtype)[6:],
                "whole_bytes": plain.peak_bytes,
                "least_bytes": least,
                "budget_bytes": budget,
                "promised_bytes": fitted.plan.answer["peak_bytes"],
                "peak_bytes": ours.peak_bytes,
                "operators": len(fitted.record.operators),
                "dropped": fitted.counts.dropped,
                "reran": fitted.counts.reran_operators,
                "is_recorded_step": fitted.counts.diverged_at is None,
                "same_bits": plain.digests == ours.digests,
            }
        )
        del run, fitted
        gc.collect()
    return rows


def compiled(name: str, dtype: torch.dtype) -> list[dict[str, Any]]:
    def run(backend: Any, context: Any = None, count: int = 2) -> list[str]:
        torch._dynamo.reset()
        one = Run(name, dtype, COMPILED.get(name))
        return one.steps(torch.compile(one.model, backend=backend), context, count=count).digests

    plain = run("aot_eager")
    everything = tt.compile_budget(1 << 60, backend="aot_eager", verbose=False)
    run(everything, everything, 1)
    whole = everything.peak_saved_bytes
    least = 0
    try:
        refused = tt.compile_budget(1, backend="aot_eager", verbose=False)
        run(refused, refused, 1)
    except tt.DoesNotFitError as error:
        least = error.found_bytes
    rows = []
    for limit in between(least, whole):
        budget = tt.compile_budget(limit, backend="aot_eager", verbose=False)
        ours = run(budget, budget)
        # Where there are several regions the first step is measured, and may save more.
        saved = sum(unit.saved_bytes for unit in budget.units)
        rows.append(
            {
                "model": name,
                "dtype": str(dtype)[6:],
                "whole_bytes": whole,
                "least_bytes": least,
                "budget_bytes": limit,
                "saved_bytes": saved,
                "regions": len(budget.units),
                "same_bits": plain == ours,
            }
        )
        gc.collect()
    return rows


def write(result: dict[str, Any], path: str) -> None:
    """A line for each row."""
    parts = []
    for key, value in result.items():
        rows = "[\n" + ",\n".join("  " + json.dumps(row) for row in value) + "\n ]" if isinstance(value, list) else json.dumps(value)
        parts.append(f" {json.dumps(key)}: {rows}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(parts) + "\n}\n")


def main() -> None:
    path, *wanted = sys.argv[1:]
    result: dict[str, Any] = {
        "schema": "thermocline-pytorch-models/1",
        "command": "PATH=build/release/bin:$PATH python bench/fit_models_full.py bench/results/pytorch_models.json",
        "torch": torch.__version__,
        "eager": [],
        "compiled": [],
    }
    if wanted and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            result |= {kind: rows for kind, rows in json.load(file).items() if kind in ("eager", "compiled")}
    for dtype in (torch.float32, torch.bfloat16):
        for name in wanted or MODELS:
            for kind, rows in (("eager", eager), ("compiled", compiled)):
                others = [row for row in result[kind] if (row["model"], row["dtype"]) != (name, str(dtype)[6:])]
                result[kind] = others + rows(name, dtype)
                write(result, path)


if __name__ == "__main__":
    main()
