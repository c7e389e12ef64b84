# SPDX-License-Identifier: Apache-2.0
"""Scenarios that test_plugin.py runs in processes of their own, on a device: `on_device.py SCENARIO [LIBRARY]`. On the simulated
device kernels mix what they access, so only copied bytes mean anything; they and the order of streams are checked."""

import json
import os
import sys
import time
import weakref

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
import torch

import thermocline
import thermocline.torch as tt
from thermocline.torch._reads import storage_under
from thermocline.torch._saved import SavedTensors
from thermocline.torch._states import States

MIB = 1 << 20


def require(holds: bool, what: object) -> None:
    if not holds:
        raise AssertionError(what)


def raises(kind: type[Exception], words: str, function) -> None:
    try:
        function()
    except kind as error:
        require(words in str(error), error)
    else:
        raise AssertionError(f"{words}: nothing was raised")


def wait_for_autograd() -> None:
    """Autograd's thread has let go of what a failed backward left it: at the end of Python it must not."""
    torch.zeros(1).cuda().requires_grad_().view(1, 1).backward(torch.ones(1, 1).cuda())


def floats(mib: int, seed: int) -> torch.Tensor:
    return torch.randn(mib * MIB // 4, generator=torch.Generator().manual_seed(seed))


def allocator(late: bool) -> None:
    tt.enable()
    tt.enable()
    try:
        tt.enable(extension=True)
    except RuntimeError as error:
        require("called with extension=False before" in str(error), str(error))
    else:
        require(False, "other arguments the second time")
    require(tt.is_enabled() and torch.cuda.get_allocator_backend() == "pluggable", "backend")
    require(thermocline.sees_operations() != late, "preloaded or not")
    host = [floats(8, seed) for seed in range(3)]
    device = [tensor.cuda() for tensor in host]
    require(thermocline.statistics()["live_bytes"] == 24 * MIB, thermocline.statistics())
    require(all(torch.equal(a, b.cpu()) for a, b in zip(host, device, strict=True)), "contents")

    # The next owner is on the first stream again; the copy on the second one must still find the old contents.
    other = torch.cuda.Stream()
    other.wait_stream(torch.cuda.current_stream())
    there = torch.empty(host[0].numel(), pin_memory=True)
    with torch.cuda.stream(other):
        there.copy_(device[0], non_blocking=True)
    device[0].record_stream(other)
    device[0] = None
    device[0] = host[1].cuda()
    other.synchronize()
    require(torch.equal(there, host[0]), "record_stream")

    raises(RuntimeError, "CUDA out of memory. Tried to allocate", lambda: torch.empty(1 << 40, device="cuda"))
    raises(RuntimeError, "the budget is the library's", lambda: torch.cuda.set_per_process_memory_fraction(0.5))
    raises(RuntimeError, "PyTorch has no pools", tt.pool)
    device.clear()
    torch.cuda.empty_cache()
    require(thermocline.statistics()["live_bytes"] == 0, thermocline.statistics())
    require(thermocline.statistics()["device_bytes"] == 0, thermocline.statistics())


def graph() -> None:
    """A graph over buffers that own their pages, because a kernel of PyTorch's mixes all of a page that small ones share."""
    tt.enable()
    source, result = floats(4, 1).cuda(), torch.zeros(MIB, device="cuda")
    held = thermocline.statistics()["live_bytes"]
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        middle = torch.empty_like(source)
        middle.copy_(source)
        result.copy_(middle)
        del middle
    others = [floats(4, 2 + i).cuda() for i in range(4)]
    result.zero_()
    captured.replay()
    require(torch.equal(result.cpu(), source.cpu()), "the graph's copy")
    require(all(torch.equal(o.cpu(), floats(4, 2 + i)) for i, o in enumerate(others)), "the others")
    others.clear()
    require(thermocline.statistics()["live_bytes"] > held, "the graph keeps its memory")
    del captured
    require(thermocline.statistics()["live_bytes"] == held, "and gives it back")


def tensors() -> None:
    """Without enable(): what `thermocline run` sets lets the library see each tensor, and each leaves by itself."""
    host = [floats(8, seed) for seed in range(8)]
    device = [tensor.cuda() for tensor in host]
    seen = thermocline.statistics()
    require(seen["live_bytes"] == 64 * MIB and seen["largest_allocation_bytes"] == 8 * MIB, seen)
    require(seen["evictions"] >= 4, seen)
    require(all(torch.equal(a, b.cpu()) for a, b in zip(host, device, strict=True)), "contents")
    require(torch.cuda.memory_allocated() == 0, "PyTorch counts what its cache holds, and there is none")

    captured = torch.cuda.CUDAGraph()
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        try:
            captured.capture_begin()
            raises(RuntimeError, "captur", lambda: torch.empty_like(device[0]))
        finally:
            raises(RuntimeError, "captur", captured.capture_end)


def segments() -> None:
    """The same, told to leave PyTorch alone: its cache takes larger buffers than any tensor."""
    device = [floats(8, seed).cuda() for seed in range(8)]
    seen = thermocline.statistics()
    require(seen["largest_allocation_bytes"] > 8 * MIB, seen)
    require(torch.cuda.memory_allocated() == 64 * MIB, torch.cuda.memory_allocated())
    require(all(torch.equal(floats(8, i), b.cpu()) for i, b in enumerate(device)), "contents")


def too_late() -> None:
    torch.empty(1, device="cuda")
    raises(RuntimeError, "for the first time", tt.enable)
    require(not tt.is_enabled(), "not enabled")


def pool() -> None:
    before = torch.randn(MIB, device="cuda")
    require(not thermocline.is_active(), "PyTorch's own memory")
    chosen = tt.pool()
    host = floats(8, 3)
    with torch.cuda.use_mem_pool(chosen):
        inside = host.cuda()
    outside = host.cuda()
    require(thermocline.statistics()["live_bytes"] >= 8 * MIB, thermocline.statistics())
    require(thermocline.statistics()["live_bytes"] < 24 * MIB, thermocline.statistics())
    require(torch.cuda.memory_allocated() >= 20 * MIB, torch.cuda.memory_allocated())
    require(torch.equal(inside.cpu(), host) and torch.equal(outside.cpu(), host), "contents")
    del inside, before
    del chosen
    torch.cuda.empty_cache()
    require(thermocline.statistics()["live_bytes"] == 0, thermocline.statistics())


def extension() -> None:
    tt.enable(extension=True)
    require(torch.cuda.get_allocator_backend() == "thermocline", torch.cuda.get_allocator_backend())
    host = floats(8, 1)
    torch.cuda.memory._record_memory_history(max_entries=100)
    device = [host.cuda() for _ in range(3)]
    require(torch.cuda.memory_allocated() == 24 * MIB == thermocline.statistics()["live_bytes"], "memory_allocated")
    require(torch.cuda.memory_reserved() >= 24 * MIB, "memory_reserved")
    del device[1]
    require(torch.cuda.memory_allocated() == 16 * MIB and torch.cuda.max_memory_allocated() == 24 * MIB, "the peak")
    torch.cuda.reset_peak_memory_stats()
    require(torch.cuda.max_memory_allocated() == 16 * MIB, "the peak, reset")
    require(torch.cuda.memory_stats()["allocation.all.allocated"] == 3, torch.cuda.memory_stats())
    torch.cuda.reset_accumulated_memory_stats()
    require(torch.cuda.memory_stats()["allocation.all.allocated"] == 0, "the sum, reset")
    free, total = torch.cuda.mem_get_info()
    # Opened late, the library is not asked: the driver answers, of the whole device.
    budget = thermocline.statistics()["budget_bytes"]
    require(total == budget if thermocline.sees_operations() else total >= budget, (total, budget))
    require(free <= total - 16 * MIB, (free, total))

    segments = torch.cuda.memory_snapshot()
    require(sorted(s["address"] for s in segments) == sorted(d.data_ptr() for d in device), segments)
    require(all(s["allocated_size"] == 8 * MIB and s["blocks"][0]["state"] == "active_allocated" for s in segments), segments)
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    require([e["action"] for e in trace].count("alloc") == 3, trace)
    require([e["action"] for e in trace].count("free_completed") == 1, trace)
    times = [e["time_us"] for e in trace]
    require(times == sorted(times) and abs(times[0] / 1e6 - time.time()) < 600, times)
    require(any(f["name"] == "extension" for e in trace for f in e.get("frames", [])), "frames of the program")
    torch.cuda.memory._record_memory_history(enabled=None)

    seen: list[tuple] = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *facts: seen.append(facts))
    raises(torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate", lambda: torch.empty(1 << 40, device="cuda"))
    require(len(seen) == 1 and seen[0][:2] == (0, 4 << 40), seen)
    require(torch.cuda.memory_stats()["num_ooms"] == 1, "num_ooms")

    other = torch.cuda.Stream()
    device[0].record_stream(other)
    captured = torch.cuda.CUDAGraph()
    result = torch.zeros(host.numel(), device="cuda")
    with torch.cuda.graph(captured):
        middle = torch.empty_like(result)
        middle.copy_(device[0])
        result.copy_(middle)
        del middle
    captured.replay()
    require(torch.equal(result.cpu(), host), "the graph's copy")
    del captured, result
    chosen = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(chosen):
        inside = host.cuda()
    require(torch.equal(inside.cpu(), host), "in a pool")
    del chosen, inside
    device.clear()
    torch.cuda.empty_cache()
    require(torch.cuda.memory_allocated() == 0 == thermocline.statistics()["device_bytes"], "all given back")


def contract() -> None:
    """The calls that ask PyTorch about memory most often, in a program that knows nothing of the library; one JSON object. Sizes are multiples of
    2 MiB, for which PyTorch's own cache rounds nothing up either."""
    host = [floats(8, seed) for seed in range(3)]
    device = [tensor.cuda() for tensor in host]
    cuda = torch.cuda
    found: dict[str, object] = {"memory_allocated": cuda.memory_allocated(), "max_memory_allocated": cuda.max_memory_allocated()}
    found["memory_reserved covers it"] = cuda.memory_reserved() >= cuda.memory_allocated()
    device.pop()
    found["memory_allocated, less one"] = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    found["max_memory_allocated, reset"] = cuda.max_memory_allocated()
    found["memory_stats"] = cuda.memory_stats()["allocated_bytes.all.current"]
    blocks = [b for segment in cuda.memory_snapshot() for b in segment["blocks"] if b["state"] == "active_allocated"]
    found["memory_snapshot"] = sorted(block["size"] for block in blocks)
    free, total = cuda.mem_get_info()
    found["mem_get_info: allocated is not free"] = total - free >= cuda.memory_allocated()
    torch.empty(64 * MIB, device="cuda", dtype=torch.uint8)
    cuda.empty_cache()
    found["empty_cache"] = cuda.memory_reserved() - cuda.memory_allocated() < 64 * MIB
    found["memory_summary"] = "Allocated memory" in cuda.memory_summary()

    # As finders of batch sizes do: twice as much until it is too much, for which they wait for this error alone.
    mib, kind = 1 << 10, "none"
    while kind == "none":
        try:
            torch.empty(mib * MIB, device="cuda", dtype=torch.uint8)
            mib *= 2
        except torch.OutOfMemoryError:
            kind = "torch.OutOfMemoryError"
        except RuntimeError as error:
            kind = repr(error)
    found["out of memory"] = kind
    found["num_ooms"] = cuda.memory_stats()["num_ooms"]
    found["after it"] = cuda.memory_allocated()
    require(all(torch.equal(a, b.cpu()) for a, b in zip(host, device)), "contents")  # noqa: B905
    print(json.dumps(found))


def asked_for() -> None:
    """The extension was brought in before the first line."""
    require(tt.is_enabled() and torch.cuda.get_allocator_backend() == "thermocline", "brought in")
    tt.enable()
    tt.enable(extension=True)
    with torch.cuda.use_mem_pool(tt.pool()):
        inside = floats(8, 1).cuda()
    require(torch.equal(inside.cpu(), floats(8, 1)), "in a pool")


class Keep(torch.autograd.Function):
    """Saves what is uploaded, and shows on the way back what it was given."""

    seen: list[torch.Tensor] = []

    @staticmethod
    def forward(ctx, x: torch.Tensor, host: torch.Tensor) -> torch.Tensor:
        uploaded = host.cuda(non_blocking=True)
        ctx.save_for_backward(uploaded, uploaded[5:])
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        whole, view = ctx.saved_tensors
        require(view.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr(), "they share their storage")
        kept = torch.empty(whole.numel(), pin_memory=True)
        Keep.seen.append(kept.copy_(whole, non_blocking=True))
        return gradient, None


def train(context: tt.offload, layers: int, steps: int) -> int:
    """Uploads that are saved, and no kernel: under PyTorch's cache one would mix all that shares a segment with what it
    names. The most that PyTorch, or the library, held."""
    most = 0
    host = [floats(8, seed).pin_memory() for seed in range(layers)]
    for _ in range(steps):
        x = torch.zeros(4).cuda().requires_grad_()
        with context:
            for tensor in host:
                x = Keep.apply(x, tensor)
                live = torch.cuda.memory_allocated() if not tt.is_enabled() else thermocline.statistics()["live_bytes"]
                most = max(most, live)
        x.backward(torch.ones(4).cuda())
        tt.step()
        torch.cuda.synchronize()
        require(all(torch.equal(a, b) for a, b in zip(Keep.seen, reversed(host), strict=True)), "what came back")
        Keep.seen.clear()
    return most


def dropped_on_the_way_back(context: tt.offload) -> None:
    """Backward of the last layer alone: others begin to return, and their graph is dropped meanwhile."""
    host = [floats(8, seed).pin_memory() for seed in range(5)]
    for _ in range(3):
        with context:
            x = [torch.zeros(4).cuda().requires_grad_()]
            for tensor in host:
                x.append(Keep.apply(x[-1], tensor))
        torch.autograd.grad(x[-1], x[-2], torch.ones(4).cuda())
        x.clear()
        after = [tensor.cuda(non_blocking=True) for tensor in host]
        require(all(torch.equal(a.cpu(), b) for a, b in zip(after, host, strict=True)), "what came after")
    Keep.seen.clear()


def copies() -> None:
    most = train(tt.offload(store=tt.PinnedStore(most_evicting=16 * MIB)), layers=12, steps=3)
    require(most < 60 * MIB, most)
    uploads = tt.offload(store=tt.PinnedStore())
    dropped_on_the_way_back(uploads)
    x = torch.zeros(MIB, device="cuda", requires_grad=True)
    with uploads:
        y = x * 1
        z = y.sin()
        y.add_(1)  # PyTorch itself refuses this at backward
    torch.cuda.synchronize()
    raises(RuntimeError, "modified by an inplace operation", z.sum().backward)
    wait_for_autograd()


def streams() -> None:
    """One stream allocates memory, another one uses it, and then the first one gets it again. The race checker looks."""
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    host, other = floats(8, 1), floats(8, 2).pin_memory()
    kept = [torch.empty(host.numel(), pin_memory=True) for _ in range(2)]

    def saved_by_the_other(**options) -> tuple[SavedTensors, object]:
        """Once `main` has uploaded it. As operators do, it is saved first and then used: by a copy, because kernels mix whole segments."""
        torch.cuda.empty_cache()
        tensor = host.cuda()
        side.wait_stream(main)
        saved = SavedTensors(tt.PinnedStore(**options), min_bytes=0)
        with torch.cuda.stream(side):
            save = saved.pack(tensor)
            kept[0].copy_(tensor, non_blocking=True)
        return saved, save

    def other_owners() -> None:
        after = [other.cuda(non_blocking=True) for _ in range(4)]
        torch.cuda.synchronize()
        require(torch.equal(kept[0], host), "what the other stream has used")
        del after

    saved, save = saved_by_the_other()
    saved.store.stream("out", torch.device("cuda", 0)).synchronize()
    saved.release_copied()  # while `side` may not have used it yet
    other_owners()
    require(torch.equal(saved.unpack(save).cpu(), host), "what came back")
    del save

    saved, save = saved_by_the_other(most_evicting=8 * MIB)
    with torch.cuda.stream(torch.cuda.Stream()):
        another = saved.pack(torch.empty(MIB, device="cuda"))
    side.synchronize()
    other_owners()
    require(torch.equal(saved.unpack(save).cpu(), host), "what came back, of an original that had to go at once")
    del save, another

    saved, save = saved_by_the_other()
    side.synchronize()
    store = weakref.ref(saved.store)
    del saved, save  # while it is copied
    require(store() is None, "nothing holds the original")
    other_owners()

    # Both streams have saved it; the second one finds it fetched, and uses it when nobody else does.
    saved, tensor = SavedTensors(tt.PinnedStore(), min_bytes=0), host.cuda()
    saves = [saved.pack(tensor), saved.pack(tensor)]
    del tensor
    whole = saved.unpack(saves[0])
    kept[0].copy_(whole, non_blocking=True)
    with torch.cuda.stream(side):
        whole = saved.unpack(saves[1])
        kept[1].copy_(whole, non_blocking=True)
    del whole
    other_owners()
    require(torch.equal(kept[1], host), "what the second stream finds")


def states() -> None:
    """The states of a step, in pinned memory: on two streams, of which only the first evicts and fetches."""
    host, other = floats(8, 1), floats(8, 2).pin_memory()
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    kept = {stream: torch.empty(host.numel(), pin_memory=True) for stream in (main, side)}
    tensor = host.cuda()
    side.wait_stream(main)
    known = States([tensor], tt.PinnedStore(), 1)
    known.enter()
    state = known.of_role(("tensor", id(tensor)))

    def use(tensor: torch.Tensor, stream: torch.cuda.Stream) -> None:
        with torch.cuda.stream(stream):
            known.need(((tensor,), {}))
            kept[stream].copy_(tensor, non_blocking=True)

    def other_owners(*streams: torch.cuda.Stream) -> None:
        after = [other.cuda(non_blocking=True) for _ in range(4)]
        torch.cuda.synchronize()
        require(all(torch.equal(kept[stream], host) for stream in streams), "contents")
        del after

    for first, second in ((main, side), (side, main)):
        known.evict(state)
        require(storage_under(tensor).nbytes() == 0, "evicted")
        known.begin_fetch(state)
        use(tensor, first)
        use(tensor, second)
        known.evict(state)  # while it is read
        other_owners(main, side)
        kept[first].zero_()

    # As backward makes a gradient there, which the program frees there.
    with torch.cuda.stream(side):
        gradient = host.cuda(non_blocking=True)
        known.evict(known.adopt(storage_under(gradient)))
    use(gradient, side)
    del gradient
    other_owners(side)

    changed = floats(8, 4).pin_memory()
    with torch.cuda.stream(side):
        known.need(((tensor,), {}))
        tensor.copy_(changed, non_blocking=True)
        known.ran([], [storage_under(tensor)])
    known.evict(state)
    known.exit()
    require(tensor.device.type == "cpu" and torch.equal(tensor, changed), "what the other stream has written")


def hints() -> None:
    tt.enable()
    context = tt.offload()
    most = train(context, layers=12, steps=3)
    all_ = thermocline.statistics()
    require(most >= 96 * MIB, most)
    require(all_["peak_device_bytes"] <= all_["budget_bytes"] == 48 * MIB, all_)
    require(all_["evicted_bytes"] >= 3 * 40 * MIB, all_)
    x = torch.zeros(MIB, device="cuda", requires_grad=True)
    with context:
        y = x * 1
        z = y.sin()
        y.add_(1)
        y = z * z
    raises(RuntimeError, "modified by an inplace operation", y.sum().backward)
    wait_for_autograd()


def refused() -> None:
    """An operator on more than the budget holds, in a module, with what PyTorch tells NVTX."""
    a, b = (torch.empty(3 * MIB, device="cuda") for _ in range(2))
    with torch.autograd.profiler.emit_nvtx(), torch.cuda.nvtx.range("layer3.conv"):
        raises(RuntimeError, "out of memory", lambda: a.add_(b))
    raises(RuntimeError, "out of memory", lambda: a.add_(b))


if __name__ == "__main__":
    scenario = sys.argv[1]
    if len(sys.argv) > 2:
        thermocline.load(sys.argv[2])
    if scenario.startswith("allocator"):
        allocator(late=scenario == "allocator_late")
    else:
        scenarios = (asked_for, contract, graph, tensors, segments, too_late, pool, copies, streams, states, hints, extension, refused)
        {function.__name__: function for function in scenarios}[scenario]()
    torch.cuda.synchronize()
    print("done")
