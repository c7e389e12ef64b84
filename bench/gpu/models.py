# SPDX-License-Identifier: Apache-2.0
"""A few training steps of a model of our own definition, in one of several ways to save memory, and what they took: one
JSON object on stdout. `./dev gpu` runs it in a process for each way; it needs PyTorch and nothing else.

Losses are printed as the bits of a float, so that "the same" is meant exactly. What is not there on this machine (an
integration, a device) is said as "available": false with the reason, and the status is 0.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import statistics
import struct
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

MODES = ("plain", "save_on_cpu", "checkpoint", "memory_budget", "managed", "plugin", "offload", "fit")


class Bottleneck(nn.Module):
    """He et al., Deep Residual Learning (arXiv 1512.03385), figure 5, right."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
        )
        self.short: nn.Module = nn.Identity()
        if stride != 1 or channels != 4 * width:
            self.short = nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.short(x))


class ResNet(nn.Module):
    """Table 1 of the same paper; depths (3, 4, 6, 3) and width 64 are ResNet-50."""

    def __init__(self, depths: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        blocks, channels = [], width
        for stage, depth in enumerate(depths):
            for i in range(depth):
                blocks.append(Bottleneck(channels, width << stage, 2 if stage > 0 and i == 0 else 1))
                channels = 4 * (width << stage)
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor, run) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = run(block, x)
        return self.head(x.mean((2, 3)))


class Layer(nn.Module):
    """Radford et al., Language Models are Unsupervised Multitask Learners: norm before, attention, four times as wide."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        # Written out: fused kernels add in no fixed order when they go backward.
        scores = (q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5
        mask = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Gpt2(nn.Module):
    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 50257, tokens: int = 1024) -> None:
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, words: torch.Tensor, run) -> torch.Tensor:
        x = self.word(words) + self.place(torch.arange(words.shape[1], device=words.device))
        for layer in self.layers:
            x = run(layer, x)
        return self.norm(x) @ self.word.weight.T


def double_convolution(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
        nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """Ronneberger et al., U-Net (arXiv 1505.04597), figure 1, with padding."""

    def __init__(self, width: int = 64, depth: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(double_convolution(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * b, b, 2, 2) for b in reversed(widths[:-1]))
        self.join = nn.ModuleList(double_convolution(2 * b, b) for b in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor, run) -> torch.Tensor:
        kept = []
        for level, block in enumerate(self.down):
            x = run(block, x if level == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, reversed(kept[:-1]), strict=True):
            x = run(join, torch.cat([skip, up(x)], 1))
        return self.head(x)


def make(name: str, size: str, device: torch.device) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """The model, its input and its target: the same bits on every device, since they are made on the host."""
    tiny = size == "tiny"
    torch.manual_seed(1)
    if name == "resnet50":
        model: nn.Module = ResNet((1, 1), 8, 10) if tiny else ResNet()
        x = torch.randn(2 if tiny else 64, 3, 64 if tiny else 224, 64 if tiny else 224)
        y = torch.randint(0, 10 if tiny else 1000, (x.shape[0],))
    elif name == "gpt2":
        model = Gpt2(2, 32, 4, 101, 16) if tiny else Gpt2()
        x = torch.randint(0, 101 if tiny else 50257, (2 if tiny else 4, 16 if tiny else 1024))
        y = x.roll(-1, 1)
    else:
        model = UNet(4, 2) if tiny else UNet()
        x = torch.randn(1 if tiny else 8, 3, 32 if tiny else 256, 32 if tiny else 256)
        y = torch.randint(0, 2, (x.shape[0], *x.shape[2:]))
    return model.to(device), x.to(device), y.to(device)


class NotAvailable(Exception):
    pass


def thermocline_torch():
    try:
        import thermocline.torch as package
    except ImportError as error:
        raise NotAvailable(f"thermocline.torch: {error}") from error
    return package


def use_managed_memory(library: str, leave_bytes: int) -> None:
    """All of PyTorch's device memory from cuMemAllocManaged, and so much plain memory taken that `leave_bytes` are left:
    what is more has to be paged by the driver."""
    if not library or not os.path.exists(library):
        raise NotAvailable("the managed allocator was not built")
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "managed_allocate", "managed_free")
    torch.cuda.memory.change_current_allocator(allocator)
    torch.zeros(1, device="cuda")
    if leave_bytes <= 0:
        return
    free, _ = torch.cuda.mem_get_info()
    take = ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2
    address = ctypes.c_uint64()
    if free > leave_bytes and take(ctypes.byref(address), ctypes.c_size_t(free - leave_bytes)) != 0:
        raise NotAvailable("the rest of the device can not be taken")


def prepare(arguments: argparse.Namespace) -> torch.device:
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise NotAvailable("PyTorch finds no CUDA device")
    if arguments.mode == "plugin":
        if device.type != "cuda":
            raise NotAvailable("the plug-in is an allocator of device memory")
        thermocline_torch().enable()
    if arguments.mode == "managed":
        if device.type != "cuda":
            raise NotAvailable("managed memory is a device's")
        use_managed_memory(arguments.managed_library, arguments.leave_bytes)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return device


def around_forward(mode: str, model: nn.Module, device: torch.device):
    if mode == "save_on_cpu":
        return torch.autograd.graph.save_on_cpu(pin_memory=device.type == "cuda")
    if mode == "offload":
        try:
            return thermocline_torch().offload(model)
        except RuntimeError as error:
            raise NotAvailable(str(error)) from error
    return contextlib.nullcontext()


def make_step(arguments: argparse.Namespace, model: nn.Module, device: torch.device):
    """A function of (x, y): one step, which returns its loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    context = around_forward(arguments.mode, model, device)
    recompute = arguments.mode == "checkpoint"
    call = with_memory_budget(model, arguments.part) if arguments.mode == "memory_budget" else model

    def run(block: nn.Module, value: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, value, use_reentrant=False) if recompute else block(value)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with context:
            out = call(x, run)
            # In rows: the loss of images adds in no fixed order.
            rows = out.permute(0, 2, 3, 1) if arguments.model == "unet" else out
            loss = F.cross_entropy(rows.flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return fitted(step, arguments) if arguments.mode == "fit" else step


def with_memory_budget(model: nn.Module, part: float):
    """Compiled with PyTorch's own budget: a part of what is saved for backward. Not by inductor, so that kernels and bits are those of eager
    mode, and the time is that of what runs again."""
    import torch._functorch.config

    torch._functorch.config.activation_memory_budget = part
    return torch.compile(model, backend="aot_eager")


def fitted(step, arguments: argparse.Namespace):
    """The step by the joint plan, within arguments.budget bytes; the optimizer's state is part of them."""
    try:
        return thermocline_torch().fit(step, budget=arguments.budget, device=arguments.profile)
    except FileNotFoundError as error:
        raise NotAvailable(str(error)) from error


def promised(step) -> dict:
    """The time of a step by its plan."""
    answer = step.plan.answer
    names = ("budget_bytes", "whole_peak_bytes", "peak_bytes", "compute_ms", "step_ms", "bound_ms", "recomputed_ms", "offloaded_bytes")
    return {
        **{name: answer[name] for name in names},
        "dropped": step.plan.dropped,
        "reran": len(answer["reruns"]),
        "as_recorded": step.counts is not None and step.counts.diverged_at is None,
    }


def train(arguments: argparse.Namespace) -> dict:
    device = prepare(arguments)
    model, x, y = make(arguments.model, arguments.size, device)
    step = make_step(arguments, model, device)
    step_ends = getattr(sys.modules.get("thermocline.torch"), "step", lambda: None)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    has_counters = device.type == "cuda" and arguments.mode not in ("plugin", "managed")
    losses, times = [], []
    for i in range(arguments.steps):
        if has_counters and i == arguments.steps // 2:
            torch.cuda.reset_peak_memory_stats()  # the first steps of a plan need everything
        wait()
        begin = time.perf_counter()
        loss = step(x, y)
        step_ends()
        wait()
        times.append((time.perf_counter() - begin) * 1e3)
        losses.append(struct.pack(">f", loss.item()).hex())
    result = {
        "losses": losses,
        "step_ms": statistics.median(times[len(times) // 2 :]),
        "times_ms": [round(each, 2) for each in times],
        "weights": hash_of(model),
    }
    if arguments.mode == "fit":
        result["promised"] = promised(step)
    if has_counters:
        result["peak_allocated_bytes"] = torch.cuda.max_memory_allocated()
        result["peak_reserved_bytes"] = torch.cuda.max_memory_reserved()
    return result


def hash_of(model: nn.Module) -> str:
    import hashlib

    digest = hashlib.sha256()
    for value in model.state_dict().values():
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("resnet50", "gpt2", "unet"), required=True)
    parser.add_argument("--mode", choices=MODES, default="plain")
    parser.add_argument("--size", choices=("full", "tiny"), default="full")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--managed-library", default="")
    parser.add_argument("--leave-bytes", type=int, default=0)
    parser.add_argument("--budget", type=int, default=1 << 40, metavar="BYTES", help="of mode fit")
    parser.add_argument("--profile", default="reference", metavar="NAME", help="device profile that mode fit plans for")
    parser.add_argument("--part", type=float, default=1.0, help="of what is saved for backward, for mode memory_budget")
    arguments = parser.parse_args()
    out = {"schema": "thermocline-model/1", "model": arguments.model, "mode": arguments.mode, "torch": torch.__version__}
    try:
        out |= {"available": True, **train(arguments)}
    except NotAvailable as error:
        out |= {"available": False, "reason": str(error)}
    except RuntimeError as error:
        # Neither PyTorch's plug for allocators nor PyTorch without its cache has an exception of its own for this.
        without_a_type = ("CUDA out of memory", "CUDA error: out of memory")
        if type(error).__name__ == "DoesNotFitError":
            print(json.dumps(out | {"available": True, "outcome": "does not fit", "reason": str(error)}))
            return 0
        if not isinstance(error, torch.OutOfMemoryError) and not str(error).startswith(without_a_type):
            raise
        out |= {"available": True, "outcome": "out_of_memory", "reason": str(error).splitlines()[0]}
    print(json.dumps(out))
    return 0


if __name__ == "__main__":
    # cuBLAS asks for it where results are to be the same bits in every run; read when it begins.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    sys.exit(main())
