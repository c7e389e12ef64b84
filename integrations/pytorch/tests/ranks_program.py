# SPDX-License-Identifier: Apache-2.0
"""The program that test_ranks.py runs on every rank: training steps on gloo, plain and then planned. Prints the outcome as one JSON object a line."""

import contextlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from fit_steps import same  # first: it finds the package and the command

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import thermocline.torch as tt


class Net(nn.Module):
    """Each block begins with what its neighbor's matrix product made: to have that again, FSDP's parameters of the neighbor are needed."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.GELU(), nn.Linear(64, 64)) for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def wrapped(kind: str) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    model = Net()
    if kind != "fsdp":
        return model, DistributedDataParallel(model)
    for block in model.blocks:
        fully_shard(block)
    return model, fully_shard(model)


def run(kind: str, budget: str, compiled: bool) -> tuple[list[torch.Tensor], object]:
    model, call = wrapped(kind)
    context: object = contextlib.nullcontext()
    if compiled:
        torch._dynamo.reset()
        if budget:
            context = tt.compile_budget(budget, backend="aot_eager")
        call = torch.compile(call, backend=context if budget else "aot_eager")
    elif budget:
        context = tt.fit(call, budget=budget, min_bytes=256)
    left = []
    torch.manual_seed(5 + dist.get_rank())
    for _ in range(8):  # DDP arranges its buckets anew after the first: steps that differ are recorded again
        with context:
            loss = call(torch.randn(2048, 64)).square().mean()
            loss.backward()
        local = [p.grad.to_local() if hasattr(p.grad, "to_local") else p.grad for p in model.parameters()]
        left += [loss.detach(), *[gradient.clone() for gradient in local]]
        for p in model.parameters():
            p.grad = None
    return left, context


def main(kind: str, compiled: bool, budgets: list[str]) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    plain, _ = run(kind, "", compiled)
    left, context = run(kind, budgets[rank], compiled)
    plan = getattr(context, "plan", None)
    counts = getattr(context, "counts", None)
    record = getattr(context, "record", None)
    found = {
        "rank": rank,
        "same": same(plain, left),
        "planned": bool(plan) or bool(getattr(context, "units", None)),
        "dropped": counts.dropped if counts else 0,
        "reruns": sorted({record.operators[place].name for place in plan.answer["reruns"]}) if plan else [],
    }
    os.write(1, f"\n{json.dumps(found)}\n".encode())  # at once: the ranks share the file
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "compiled", sys.argv[3:])
