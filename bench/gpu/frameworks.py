# SPDX-License-Identifier: Apache-2.0
"""Small programs of libraries over CUDA, one at a time: `frameworks.py NAME` prints digests of what it computed, the same in every run.
`--list` names them. Each holds some hundreds of MiB, more than it needs at any moment. Status 3: the library is not on this machine.

They ask each library for results that are the same in every run on one machine; only then is "the same output" a statement about us.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile

import numpy as np


def tell(what: str, values) -> None:
    array = np.ascontiguousarray(values)
    print(what, array.shape, hashlib.sha256(array.tobytes()).hexdigest()[:16], flush=True)


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def torch_device():
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(1)
    return torch


def network(torch, width: int = 2048, depth: int = 6):
    layers = [layer for _ in range(depth) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())]
    return torch.nn.Sequential(*layers).cuda()


def torch_matmul() -> None:
    """cuBLAS without PyTorch's cache: every tensor is an allocation."""
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    torch = torch_device()
    kept = [torch.tensor(values(i, 2048, 2048)).cuda() / 64 for i in range(24)]
    for turn in range(4):
        for i, matrix in enumerate(kept):
            kept[i] = matrix @ kept[(i + 7) % len(kept)] + matrix
        tell(f"turn {turn}", kept[turn].cpu().numpy())
    tell("sum", sum(matrix.double().cpu() for matrix in kept).numpy())


def torch_training() -> None:
    """Forward, backward, Adam, with PyTorch's allocator as it is; under `thermocline run`, without its cache."""
    torch = torch_device()
    model = network(torch)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    for step in range(6):
        x = torch.tensor(values(step, 2048, 2048)).cuda()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        tell(f"step {step}", loss.detach().cpu().numpy())
    tell("weights", model[0].weight.detach().cpu().numpy())


def torch_expandable() -> None:
    """PyTorch's own virtual memory (expandable segments)."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    torch_training()


def torch_async() -> None:
    """PyTorch over cudaMallocAsync."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "backend:cudaMallocAsync"
    torch_training()


def torch_graph() -> None:
    """A training step captured in a graph and launched again."""
    torch = torch_device()
    model = network(torch)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    x = torch.zeros(1024, 2048, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    idle = [torch.tensor(values(100 + i, 4096, 4096)).cuda() for i in range(8)]
    for turn in range(8):
        x.copy_(torch.tensor(values(turn, 1024, 2048)))
        graph.replay()
        tell(f"turn {turn}", loss.detach().cpu().numpy())
        idle[turn] = idle[turn] * 2 + idle[(turn + 3) % 8]
    tell("idle", sum(a.double().cpu() for a in idle).numpy())
    tell("weights", model[0].weight.detach().cpu().numpy())


def torch_compiled() -> None:
    """torch.compile: kernels of Triton, made at run time."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp())
    torch = torch_device()
    model = network(torch, depth=4)
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for step in range(4):
        x = torch.tensor(values(step, 1024, 2048)).cuda()
        loss = compiled(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        tell(f"step {step}", loss.detach().cpu().numpy())


def torch_convolution() -> None:
    """cuDNN, in bfloat16 and channels last, with streams of its own."""
    torch = torch_device()
    torch.backends.cudnn.deterministic = True
    layers = [torch.nn.Conv2d(64, 64, 3, padding=1) for _ in range(6)]
    model = torch.nn.Sequential(*layers).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    side = torch.cuda.Stream()
    for step in range(4):
        with torch.cuda.stream(side):
            x = torch.tensor(values(step, 16, 64, 128, 128)).pin_memory().cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x.to(memory_format=torch.channels_last)).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        tell(f"step {step}", loss.detach().cpu().numpy())
    tell("weights", layers[0].weight.detach().cpu().numpy())


def torch_attention() -> None:
    """Generation by a transformer with a growing cache of keys and values."""
    torch = torch_device()
    import torch.nn.functional as functional

    heads, width = 16, 64
    caches = [[torch.zeros(4, heads, 0, width, device="cuda", dtype=torch.half)] * 2 for _ in range(12)]
    weights = [torch.tensor(values(i, heads * width, 3 * heads * width)).cuda().half() / 32 for i in range(12)]
    x = torch.tensor(values(99, 4, 64, heads * width)).cuda().half()
    for turn in range(12):
        for layer, weight in enumerate(weights):
            q, k, v = (x @ weight).view(4, 64, 3, heads, width).permute(2, 0, 3, 1, 4)
            keys, old = (torch.cat([a, b], 2) for a, b in zip(caches[layer], (k, v), strict=True))
            caches[layer] = [keys, old]
            mixed = functional.scaled_dot_product_attention(q, keys, old)
            x = functional.layer_norm(x + mixed.transpose(1, 2).reshape(x.shape), x.shape[-1:])
        tell(f"turn {turn}", x.cpu().numpy())


def torch_nccl() -> None:
    """NCCL with one rank, which still registers and copies."""
    torch = torch_device()
    import torch.distributed as distributed

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "NCCL_SOCKET_IFNAME": "lo"}
    folder = tempfile.mkdtemp()
    distributed.init_process_group("nccl", init_method=f"file://{folder}/store", rank=0, world_size=1)
    tensors = [torch.tensor(values(i, 2048, 2048)).cuda() for i in range(16)]
    for turn in range(3):
        for tensor in tensors:
            distributed.all_reduce(tensor)
            distributed.broadcast(tensor, 0)
        tensors = [a + b for a, b in zip(tensors, tensors[1:] + tensors[:1], strict=True)]
        tell(f"turn {turn}", tensors[turn].cpu().numpy())
    gathered = torch.empty_like(tensors[0])
    distributed.all_gather_into_tensor(gathered, tensors[0])
    tell("gathered", gathered.cpu().numpy())
    distributed.destroy_process_group()


def triton_kernels() -> None:
    os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp())
    torch = torch_device()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import triton_kernel

    kept = [torch.tensor(values(i, 1 << 22)).cuda() for i in range(24)]
    for turn in range(3):
        for i in range(len(kept)):
            triton_kernel.scale_and_add(kept[i], kept[(i + 5) % len(kept)], 0.5)
        tell(f"turn {turn}", kept[turn].cpu().numpy())
    tell("last", kept[-1].cpu().numpy())


def cupy_arrays() -> None:
    import cupy

    kept = [cupy.asarray(values(i, 2048, 2048)) for i in range(24)]
    raw = cupy.RawKernel(
        'extern "C" __global__ void twice(float* a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] *= 2; }',
        "twice",
    )
    for turn in range(3):
        for i in range(len(kept)):
            kept[i] = kept[i] @ kept[(i + 5) % len(kept)] / 64 + cupy.sqrt(cupy.abs(kept[i]))
            raw((16384,), (256,), (kept[i], np.int32(kept[i].size)))
        tell(f"turn {turn}", cupy.asnumpy(kept[turn]))
    tell("fft", cupy.asnumpy(cupy.fft.fft2(kept[0])))
    tell("sorted", cupy.asnumpy(cupy.sort(kept[1].ravel())))


def cupy_async() -> None:
    """CuPy over cudaMallocAsync."""
    import cupy

    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    cupy_arrays()


def jax_training(flags: str | None = None, **environment: str) -> None:
    flags = os.environ.get("XLA_FLAGS", "") if flags is None else flags
    os.environ |= {"XLA_FLAGS": f"{flags} --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0", **environment}
    import jax
    import jax.numpy as jnp

    def loss_of(weights, x):
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return jnp.square(x).mean()

    @jax.jit
    def step(weights, x):
        loss, gradients = jax.value_and_grad(loss_of)(weights, x)
        return loss, [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]

    weights = [jnp.asarray(values(i, 2048, 2048)) / 45 for i in range(8)]
    idle = [jnp.asarray(values(50 + i, 2048, 2048)) for i in range(12)]
    for turn in range(4):
        loss, weights = step(weights, jnp.asarray(values(turn, 1024, 2048)))
        idle = [a @ b / 45 for a, b in zip(idle, idle[1:] + idle[:1], strict=True)]
        tell(f"turn {turn}", np.asarray(loss))
    tell("weights", np.asarray(weights[0]))
    tell("idle", np.asarray(idle[0]))


def jax() -> None:
    """XLA as it is; under `thermocline run`, with its settings."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax_training()


def jax_graphs() -> None:
    """XLA with its CUDA graphs (command buffers) and cudaMallocAsync."""
    jax_training("", XLA_PYTHON_CLIENT_ALLOCATOR="cuda_async", XLA_PYTHON_CLIENT_PREALLOCATE="false")


def numba_kernels() -> None:
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # numba-cuda 0.30 asks for it, NumPy 2.5 has it no more
    from numba import cuda

    @cuda.jit
    def mix(a, b):
        i = cuda.grid(1)
        if i < a.size:
            a[i] = a[i] * 0.5 + b[i]

    kept = [cuda.to_device(values(i, 1 << 22)) for i in range(24)]
    for turn in range(3):
        for i in range(len(kept)):
            mix[16384, 256](kept[i], kept[(i + 5) % len(kept)])
        tell(f"turn {turn}", kept[turn].copy_to_host())


def transformers_training() -> None:
    torch = torch_device()
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=6, attn_implementation="eager")).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    for step in range(4):
        words = torch.tensor(np.random.default_rng(step).integers(0, 50257, (4, 256))).cuda()
        loss = model(words, labels=words).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        tell(f"step {step}", loss.detach().cpu().numpy())
    model.eval()
    out = model.generate(words[:2, :16], max_new_tokens=16, do_sample=False, pad_token_id=0)
    tell("generated", out.cpu().numpy())


PROGRAMS = {
    f.__name__: f
    for f in (
        torch_matmul, torch_training, torch_expandable, torch_async, torch_graph, torch_compiled, torch_convolution, torch_attention,
        torch_nccl, triton_kernels, cupy_arrays, cupy_async, jax, jax_graphs, numba_kernels, transformers_training,
    )
}  # fmt: skip


# Percent of the peak that a program gets, and flags of `thermocline run`, where these are not half of it and none: all that one
# graph uses has to fit at once; PyTorch captures with its cache only; expandable segments are part of that cache, and nothing
# in them is evicted.
PERCENT = {"torch_graph": 60, "torch_expandable": 100, "jax_graphs": 70}
FLAGS = {"torch_graph": ["--no-frameworks"], "torch_expandable": ["--no-frameworks"]}


def main() -> int:
    if sys.argv[1:] == ["--list"]:
        for name in PROGRAMS:
            print(name, PERCENT.get(name, 50), *FLAGS.get(name, []))
        return 0
    if len(sys.argv) != 2 or sys.argv[1] not in PROGRAMS:
        print("usage: frameworks.py --list | NAME", file=sys.stderr)
        return 2
    # cuBLAS asks for it where results are to be the same bits in every run; read when it begins.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        PROGRAMS[sys.argv[1]]()
    except ImportError as error:
        print(error)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
