// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/caching_heaps.h"

#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <set>

#include "hooks/interpose/log.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/interpose/symbols.h"
#include "hooks/runtime/engine_observer.h"

namespace thermocline {
namespace {

constinit std::array<std::atomic<DeviceHeap*>, detail::kMostHeaps> heaps{};
std::atomic<bool> any{false};

struct Contexts {
  Mutex mutex{"contexts of the process", lock_level::kLeaf};
  std::set<const void*> known THERMOCLINE_GUARDED_BY(mutex);
};
Contexts& contexts() { return process_lifetime<Contexts>(); }
// Host memory ran out when a context was to be recorded.
std::atomic<bool> are_incomplete{false};

}  // namespace

DeviceHeap* detail::caching_heap(std::size_t device) noexcept {
  return device < heaps.size() ? heaps[device].load(std::memory_order_acquire) : nullptr;
}

bool any_caching_heap() noexcept { return any.load(std::memory_order_acquire); }

void begin_caching_heap(const DeviceFacts& facts, const Settings& settings) {
  const Bytes set = settings.budget.resolve(facts.total_memory);
  // Never freed: other threads may be using it.
  auto* const made = new DeviceHeap(facts.device, set == 0 ? facts.total_memory : set, set != 0);
  heaps.at(static_cast<std::size_t>(facts.device)).store(made, std::memory_order_release);
  any.store(true, std::memory_order_release);
  notify(&EngineObserver::caching_heap_began, settings);
  log_line(LogLevel::kWarning,
           "device %d has no virtual memory management: its memory is cached and held to the budget, and nothing is "
           "evicted",
           facts.device);
}

DeviceHeap* caching_heap_of_current_device() {
  CUdevice device = 0;
  if (!any_caching_heap() || real<Function::cuCtxGetDevice>(&device) != CUDA_SUCCESS || device < 0) return nullptr;
  return detail::caching_heap(static_cast<std::size_t>(device));
}

DeviceHeap* caching_heap_with(DeviceAddress at) {
  DeviceHeap* found = nullptr;
  for_each_caching_heap([&](DeviceHeap& of) {
    const MutexLock lock(of.mutex);
    if (of.heap.state_of(at) != CachingHeap::State::kUnknown) found = &of;
  });
  return found;
}

namespace {

EngineStatistics as_statistics(const CachingHeap::Statistics& from, Bytes budget) {
  EngineStatistics to;
  to.budget_bytes = budget;
  to.live_bytes = from.live_bytes;
  to.peak_live_bytes = from.peak_live_bytes;
  to.device_bytes = from.device_bytes;
  to.peak_device_bytes = from.peak_device_bytes;
  to.external_bytes = from.external_bytes;
  to.allocations = from.allocations;
  to.frees = from.allocations - from.live_buffers;
  to.creates = from.creates;
  to.out_of_memory = from.out_of_memory;
  to.live_buffers = from.live_buffers;
  to.peak_live_buffers = from.peak_live_buffers;
  to.allocated_bytes = from.allocated_bytes;
  to.freed_bytes = from.allocated_bytes - from.live_bytes;
  to.largest_allocation_bytes = from.largest_allocation_bytes;
  to.block_bytes = from.block_bytes;
  to.created_bytes = from.created_bytes;
  to.destroyed_bytes = from.destroyed_bytes;
  to.free_mapped_bytes = from.cached_bytes;
  to.available_bytes = to.budget_bytes - from.block_bytes - from.external_bytes;
  to.size_classes = from.size_classes;
  return to;
}

}  // namespace

EngineStatistics statistics_of(DeviceHeap& of) {
  const MutexLock lock(of.mutex);
  return as_statistics(of.heap.statistics(), of.heap.budget());
}

std::optional<EngineStatistics> try_statistics_of(DeviceHeap& of) THERMOCLINE_NOT_ANALYSED {
  const std::unique_lock lock(of.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  return as_statistics(of.heap.statistics(), of.heap.budget());
}

void reset_peaks_of_caching_heaps() {
  for_each_caching_heap([](DeviceHeap& of) {
    const MutexLock lock(of.mutex);
    of.heap.reset_peaks();
  });
}

void note_context(const void* context) noexcept {
  try {
    const MutexLock lock(contexts().mutex);
    contexts().known.insert(context);
  } catch (const std::bad_alloc&) {
    are_incomplete.store(true);
  }
}

void forget_context(const void* context) {
  const MutexLock lock(contexts().mutex);
  contexts().known.erase(context);
}

bool is_only_context(const void* context) {
  Contexts& all = contexts();
  const MutexLock lock(all.mutex);
  return !are_incomplete.load() && all.known.size() == 1 && *all.known.begin() == context;
}

void end_blocks_in(CUcontext context) {
  for_each_caching_heap([context](DeviceHeap& of) {
    {
      const MutexLock lock(of.mutex);
      of.heap.end_of_context(reinterpret_cast<std::uintptr_t>(context));
      if (of.home == context) of.home = nullptr;
    }
    of.returned.notify_all();
  });
}

void abandon_caching_heaps() noexcept { any.store(false, std::memory_order_release); }

}  // namespace thermocline
