// SPDX-License-Identifier: Apache-2.0
// Compiled alone: its instructions are counted (scripts/count_instructions.sh), so inlining must be as in a package.
#include "hooks/submit/heap_memory.h"

#include <chrono>
#include <new>
#include <string>
#include <vector>

#include "config/size.h"
#include "hooks/capture/capture_state.h"
#include "hooks/capture/captures.h"
#include "hooks/runtime/refusals.h"
#include "hooks/runtime/stream_context.h"
#include "hooks/submit/stream_queues.h"

namespace thermocline {
namespace {

using Leaving = CachingHeap::Leaving;
using State = CachingHeap::State;

// How long a request waits for memory that another thread is giving to the driver. That thread may wait for a kernel
// that waits for this one.
constexpr std::chrono::seconds kMostWait{10};
// How often the driver is asked while other threads, too, give memory to it and get it.
constexpr int kMostAttempts = 64;

CUcontext current_context() {
  CUcontext current = nullptr;
  return real<Function::cuCtxGetCurrent>(&current) == CUDA_SUCCESS ? current : nullptr;
}

// Frees blocks that nobody uses. An error means a lost context, whose memory is lost too.
void give_back(DeviceHeap& of, const std::vector<Leaving>& blocks) {
  const Inside inside;
  const CaptureTruce truce;
  for (const Leaving& one : blocks) {
    // A context that has ended took its memory along; the address may belong to others now.
    if (real<Function::cuCtxPushCurrent_v2>(reinterpret_cast<CUcontext>(one.block.context)) == CUDA_SUCCESS) {
      real<Function::cuMemFree_v2>(one.at.value);
      CUcontext popped = nullptr;
      real<Function::cuCtxPopCurrent_v2>(&popped);
    }
    {
      const MutexLock lock(of.mutex);
      of.heap.left(one);
    }
    of.returned.notify_all();
  }
}

// False: nothing came back in time, or nothing is on its way.
bool wait_for_others(DeviceHeap& of) {
  MutexLock lock(of.mutex);
  const std::uint64_t before = of.heap.returns();
  const auto deadline = std::chrono::steady_clock::now() + kMostWait;
  while (of.heap.returns() == before) {
    if (!of.heap.is_any_leaving()) return false;
    if (of.returned.wait_until(lock, deadline) == std::cv_status::timeout) return of.heap.returns() != before;
  }
  return true;
}

// Counts the bytes against the budget; cached blocks are freed for them. False: they do not fit.
bool reserve(DeviceHeap& of, Bytes bytes) {
  for (;;) {
    std::vector<Leaving> surplus;
    CachingHeap::Reserved reserved{};
    {
      const MutexLock lock(of.mutex);
      try {
        reserved = of.heap.reserve(bytes, &surplus);
      } catch (const std::bad_alloc&) {
        // Blocks that have already left the cache must be returned to the driver.
        if (surplus.empty()) throw;
        reserved = CachingHeap::Reserved::kNotYet;
      }
    }
    give_back(of, surplus);
    if (reserved == CachingHeap::Reserved::kYes) return true;
    if (surplus.empty() && (reserved == CachingHeap::Reserved::kNo || !wait_for_others(of))) return false;
  }
}

bool empty_cache(DeviceHeap& of) {
  std::vector<Leaving> all;
  {
    const MutexLock lock(of.mutex);
    all = of.heap.empty_cache();
  }
  give_back(of, all);
  return !all.empty();
}

void report_refusal(DeviceHeap& of, Bytes bytes, bool by_driver) {
  {
    const MutexLock lock(of.mutex);
    of.heap.count_refusal();
  }
  const EngineStatistics now = statistics_of(of);
  const std::string budget = human_bytes(now.budget_bytes), wanted = human_bytes(bytes);
  std::string text = "thermocline: out of memory: an allocation of " + wanted + " was refused (" +
                     std::to_string(bytes) + " bytes; the budget is " + budget + ")\n";
  if (by_driver) {
    text += "  why    the driver gave no more than " + human_bytes(now.device_bytes) + " of a budget of " + budget +
            ": something else uses the device\n";
  } else {
    text += "  why    the program holds " + human_bytes(now.live_bytes) +
            ", and nothing can be evicted: the device has no virtual memory management\n";
    text += of.budget_is_set ? "  do     a larger budget (THERMOCLINE_BUDGET, run --budget), or use less at once\n"
                             : "  do     use less at once\n";
  }
  keep_report(text);
}

// Asks the driver until it grants the bytes, or nothing more can be given to it first.
CUresult ask_driver(DeviceHeap& of, Call call) {
  for (int attempts = 1;; ++attempts) {
    std::uint64_t before = 0;
    {
      const MutexLock lock(of.mutex);
      before = of.heap.returns();
    }
    const CUresult result = call();
    if (result != CUDA_ERROR_OUT_OF_MEMORY || attempts == kMostAttempts) return result;
    static_cast<void>(empty_cache(of));
    static_cast<void>(wait_for_others(of));
    const MutexLock lock(of.mutex);
    if (of.heap.returns() == before) return result;
  }
}

// False: host memory is exhausted. The bytes are no longer reserved.
bool note_allocated(DeviceHeap& of, CUdeviceptr at, const CachingHeap::Block& block) {
  try {
    const MutexLock lock(of.mutex);
    of.heap.allocated(DeviceAddress{at}, block);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

CUresult allocate(DeviceHeap& of, CUdeviceptr* out, Bytes bytes, CachingHeap::Block block, Call call) {
  if (!reserve(of, bytes)) {
    report_refusal(of, bytes, false);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = ask_driver(of, call);
  if (result == CUDA_SUCCESS) {
    // External memory is the program's even if it is not counted: only the program knows how to free it.
    if (note_allocated(of, *out, block) || block.is_external) return result;
    const Inside inside;
    real<Function::cuMemFree_v2>(*out);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  {
    const MutexLock lock(of.mutex);
    of.heap.unreserve(bytes);
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY) report_refusal(of, bytes, true);
  return result;
}

// Whether freed memory of the current context may be cached now, except for conditions that depend on the memory, and
// for captures, which the wait handles.
bool may_cache(DeviceHeap& of, CUcontext current) {
  if (current == nullptr || any_stream_may_block() || !sees_operations()) return false;
  {
    const MutexLock lock(of.mutex);
    if (of.home != current) return false;
  }
  return is_only_context(current);
}

// True: the block's users are done and it is cached. False: it is as before.
bool cache_after_wait(DeviceHeap& of, DeviceAddress at) {
  const CUresult waited = [] {
    const Inside inside;
    return captures().synchronize_current();
  }();
  const MutexLock lock(of.mutex);
  // The lock is held, so that a thread that blocks a stream for the first time finds the block in the cache.
  if (waited == CUDA_SUCCESS && !any_stream_may_block()) {
    try {
      of.heap.cache(at);
      return true;
    } catch (const std::bad_alloc&) {
      // The block is returned to the driver instead.
    }
  }
  of.heap.wait_failed(at);
  return false;
}

CUresult free_block(DeviceHeap& of, DeviceAddress at, bool in_order, Call otherwise) {
  bool caches = !in_order && may_cache(of, current_context());
  {
    const MutexLock lock(of.mutex);
    // The program frees it twice: it is cached, or another thread has just freed it.
    if (of.heap.state_of(at) != State::kLive) return CUDA_ERROR_INVALID_VALUE;
    const CachingHeap::Block block = of.heap.block_at(at);
    caches =
        caches && !block.is_external && !block.is_shared && block.context == reinterpret_cast<std::uintptr_t>(of.home);
    if (caches) of.heap.wait_began(at);
  }
  if (caches && cache_after_wait(of, at)) return CUDA_SUCCESS;
  Leaving leaving;
  {
    const MutexLock lock(of.mutex);
    if (of.heap.state_of(at) != State::kLive) return CUDA_ERROR_INVALID_VALUE;
    leaving = of.heap.take_out(at);
  }
  const CUresult result = otherwise();
  {
    const MutexLock lock(of.mutex);
    if (result == CUDA_SUCCESS) {
      of.heap.left(leaving);
    } else {
      of.heap.put_back(leaving);
    }
  }
  of.returned.notify_all();
  return result;
}

}  // namespace

CUresult allocate_buffer(DeviceHeap& of, CUdeviceptr* out, std::size_t bytes) {
  return guarded([&] {
    const CUcontext current = current_context();
    const auto context = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(current));
    {
      const MutexLock lock(of.mutex);
      if (of.home == nullptr) of.home = current;
      if (const std::optional<DeviceAddress> cached = of.heap.reuse(bytes, context); cached.has_value()) {
        *out = cached->value;
        return CUDA_SUCCESS;
      }
    }
    return allocate(of, out, bytes, {.bytes = bytes, .context = context},
                    [&] { return real<Function::cuMemAlloc_v2>(out, bytes); });
  });
}

CUresult allocate_beside(DeviceHeap& of, CUdeviceptr* out, std::size_t bytes, Call call) {
  return guarded([&] {
    const auto context = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(current_context()));
    return allocate(of, out, bytes, {.bytes = bytes, .context = context, .is_external = true}, call);
  });
}

std::optional<CUresult> free_in_heap(CUdeviceptr at, bool in_order, Call otherwise) {
  if (at == 0 || !any_caching_heap() || Inside::now()) return std::nullopt;
  DeviceHeap* const of = caching_heap_with(DeviceAddress{at});
  if (of == nullptr) return std::nullopt;
  return guarded([&] { return free_block(*of, DeviceAddress{at}, in_order, otherwise); });
}

bool empty_caches() {
  bool any = false;
  if (Inside::now()) return false;
  for_each_caching_heap([&](DeviceHeap& of) {
    static_cast<void>(guarded([&] {
      any |= empty_cache(of);
      return CUDA_SUCCESS;
    }));
  });
  return any;
}

void keep_from_cache(CUdeviceptr at) {
  for_each_caching_heap([at](DeviceHeap& of) {
    const MutexLock lock(of.mutex);
    of.heap.share(DeviceAddress{at});
  });
}

}  // namespace thermocline
