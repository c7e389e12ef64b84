# SPDX-License-Identifier: Apache-2.0
"""thermocline.torch.fit against torch.utils.checkpoint by blocks and PyTorch's own choice under a memory budget
(torch._functorch.partitioners), on CPU tensors. Writes one JSON object: bench/results/pytorch_fit.json.

    PATH=build/release/bin:$PATH python bench/fit.py > bench/results/pytorch_fit.json

Peaks are the most bytes of storages alive at once, as a dispatch mode sees them; flops are PyTorch's own count
(torch.utils.flop_counter: matrix multiplies, convolutions, attention). Both are exact, and do not
depend on the machine; `microseconds_an_operator` does (of the step's operators; those of an empty dispatch mode beside it). `fit()` plans for the
least time; the rows against others also have a plan of the same budget for the fewest flops, which is what PyTorch's own choice is made for.
Needs PyTorch and the command `thermocline`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import nullcontext
from unittest import mock

import torch

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "..", "integrations", "pytorch", part) for part in ("src", "tests")]
from fit_models import MODELS, Attention, Gpt, Llama, ResNet, Vit  # noqa: E402
from torch._functorch import config  # noqa: E402
from torch._functorch.aot_autograd import aot_module, make_boxed_func  # noqa: E402
from torch._functorch.partitioners import min_cut_rematerialization_partition  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import thermocline.torch as tt  # noqa: E402

torch.set_num_threads(1)
BUDGETS = (0.8, 0.6, 0.4, 0.2, 0.0)


def blocks_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The repeated blocks, which users wrap."""
    if isinstance(model, ResNet):
        return list(model.body)[4:-3]
    if isinstance(model, (Gpt, Vit)):
        return list(model.blocks)
    if isinstance(model, Llama):
        return [*model.attentions, *model.mlps]
    return [m for m in model.modules() if isinstance(m, Attention)]


def checkpointed(model: torch.nn.Module, every: int) -> int:
    """Wraps one block of `every`; returns how many."""
    wrapped = blocks_of(model)[::every]
    for block in wrapped:
        forward = block.forward
        block.forward = lambda *args, _forward=forward: checkpoint(_forward, *args, use_reentrant=False)
    return len(wrapped)


def step(model: torch.nn.Module, x: torch.Tensor, context=None, call=None) -> dict[str, int]:
    """Two equal steps: PyTorch's counter of flops holds tensors itself, so the peak is taken without it."""
    counter = FlopCounterMode(display=False)
    peak = tt.PeakBytes(*model.parameters(), *model.buffers(), x)
    for counting in (counter, peak):
        torch.manual_seed(3)
        with counting, context or nullcontext():
            (call or model)(x).float().square().mean().backward()
        model.zero_grad()
    return {"peak_bytes": peak.most, "flops": counter.get_total_flops()}


def fitted(model: torch.nn.Module, x: torch.Tensor, budget: int) -> dict[str, int] | None:
    fit = tt.fit(model, budget=budget, verbose=False)
    try:
        with fit:
            model(x).float().square().mean().backward()
    except tt.DoesNotFitError:
        return None
    finally:
        model.zero_grad()
    return step(model, x, fit)


def flops_alone():
    """Within it, plans are made for the fewest flops, as PyTorch's own choice is, in place of the least time."""
    return mock.patch("thermocline.torch._step_record.cpu_microseconds", lambda flops, moved_bytes: 0.01 + flops / 20_000)


def planned_for_flops(name: str, plain: dict[str, int], budget: int) -> int | None:
    """Flops that such a plan recomputes."""
    with flops_alone():
        ours = fitted(*made(name), budget)
    return ours and ours["flops"] - plain["flops"]


def made(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(1)
    make, inputs = MODELS[name]
    model, x = make(), inputs()
    return model, x.repeat(4, *[1] * (x.dim() - 1))


def against_blocks(name: str) -> list[dict]:
    model, x = made(name)
    plain = step(model, x)
    rows = []
    for every in (1, 2):
        model, x = made(name)
        if not checkpointed(model, every):
            continue
        blocks = step(model, x)
        model, x = made(name)
        ours = fitted(model, x, blocks["peak_bytes"])
        rows.append(
            {
                "model": name,
                "checkpointed": "each block" if every == 1 else "every other block",
                "whole_peak_bytes": plain["peak_bytes"],
                "peak_bytes": blocks["peak_bytes"],
                "flops": plain["flops"],
                "blocks_recomputed_flops": blocks["flops"] - plain["flops"],
                "fit_peak_bytes": ours and ours["peak_bytes"],
                "fit_recomputed_flops": ours and ours["flops"] - plain["flops"],
                "fit_for_flops_recomputed_flops": planned_for_flops(name, plain, blocks["peak_bytes"]),
            }
        )
    return rows


def partitioned(model: torch.nn.Module, x: torch.Tensor, budget: float):
    """The model as AOTAutograd's partitioner cuts it into forward and backward under the budget; its operators run as they are."""
    with config.patch(activation_memory_budget=budget, activation_memory_budget_solver="dp"):
        call = aot_module(model, fw_compiler=make_boxed_func_of, partition_fn=min_cut_rematerialization_partition)
        call(x).float().square().mean().backward()
    model.zero_grad()
    return call


def make_boxed_func_of(graph, _inputs):
    return make_boxed_func(graph.forward)


def against_budget(name: str) -> list[dict]:
    rows, plain = [], step(*made(name))
    for budget in BUDGETS:
        model, x = made(name)
        theirs = step(model, x, call=partitioned(model, x, budget))
        model, x = made(name)
        ours = fitted(model, x, theirs["peak_bytes"])
        rows.append(
            {
                "model": name,
                "budget": budget,
                "whole_peak_bytes": plain["peak_bytes"],
                "peak_bytes": theirs["peak_bytes"],
                "budget_recomputed_flops": theirs["flops"] - plain["flops"],
                "fit_peak_bytes": ours and ours["peak_bytes"],
                "fit_recomputed_flops": ours and ours["flops"] - plain["flops"],
                "fit_for_flops_recomputed_flops": planned_for_flops(name, plain, theirs["peak_bytes"]),
            }
        )
    return rows


def by_half(name: str) -> dict:
    """budget="50%"."""
    model, x = made(name)
    plain = step(model, x)
    ours = fitted(model, x, plain["peak_bytes"] // 2)
    return {
        "model": name,
        "whole_peak_bytes": plain["peak_bytes"],
        "fit_peak_bytes": ours and ours["peak_bytes"],
        "flops": plain["flops"],
        "fit_recomputed_flops": ours and ours["flops"] - plain["flops"],
    }


class Empty(TorchDispatchMode):
    """The least that a dispatch mode of Python costs."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def timed(body, operators: int, fit, runs: int) -> dict[str, float]:
    """Microseconds an operator, the least of several runs. Of this thread alone: what else the machine does does not count."""
    least = {"plain": 1e9, "empty_mode": 1e9, "fit": 1e9}
    for _ in range(runs):
        for kind, context in (("plain", nullcontext()), ("empty_mode", Empty()), ("fit", fit)):
            with context:
                begun = time.thread_time()
                body()
                least[kind] = min(least[kind], (time.thread_time() - begun) / operators * 1e6)
    return {name: round(value, 2) for name, value in least.items()}


def small(body, count: int) -> dict[str, float]:
    """Times of small operators that are neither dropped nor offloaded."""

    def training() -> None:
        body()
        x = torch.randn(4, requires_grad=True)
        (x * 2).sum().backward()

    fit = tt.fit(training, budget="100%", verbose=False)
    fit()
    fit()
    return timed(body, count, fit, 60)


def model_step(name: str) -> dict[str, float]:
    """Times of all operators of a small model's step whose plan drops nothing, saves for backward and their returns included."""
    torch.manual_seed(1)
    make, inputs = MODELS[name]
    model, x = make(), inputs()[:1]

    def training() -> None:
        model(x).float().square().mean().backward()
        for p in model.parameters():
            p.grad = None

    fit = tt.fit(training, budget="100%", verbose=False)
    fit()
    fit()
    return {"operators": len(fit.record.functions), **timed(training, len(fit.record.functions), fit, 20)}


def overhead() -> dict[str, dict[str, float]]:
    count = 1000
    a, b, leaf = torch.randn(8), torch.randn(8), torch.ones(8, requires_grad=True)

    def chain() -> None:
        y = leaf
        for _ in range(count // 4):  # sin, and three operators of its backward and its save
            y = y.sin()
        y.sum().backward()
        leaf.grad = None

    return {
        "negation": small(lambda: [a.neg() for _ in range(count)], count),
        "addition in place": small(lambda: [b.add_(a) for _ in range(count)], count),
        "saved for backward": small(chain, count),
        **{name: model_step(name) for name in ("GPT-2", "ResNet")},
    }


def main() -> None:
    names = list(MODELS)
    result = {
        "schema": "thermocline-pytorch-fit/1",
        "command": "PATH=build/release/bin:$PATH python bench/fit.py > bench/results/pytorch_fit.json",
        "torch": torch.__version__,
        "half": [by_half(name) for name in names],
        "against_checkpoint_by_blocks": [row for name in names if name not in ("U-Net", "LSTM") for row in against_blocks(name)],
        "against_memory_budget": [row for name in ("GPT-2", "ViT", "Llama", "U-Net") for row in against_budget(name)],
        "microseconds_an_operator": overhead(),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
