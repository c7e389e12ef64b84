// SPDX-License-Identifier: Apache-2.0
// The heaps of devices without virtual memory management (allocator/caching_heap.h): one for each, from the first
// allocation there to the end of the process. hooks/submit/heap_memory.h calls the driver for them.
#pragma once

#include <condition_variable>
#include <optional>

#include "allocator/caching_heap.h"
#include "config/settings.h"
#include "driver/driver.h"
#include "driver/locks.h"
#include "hooks/interpose/cuda_api.h"
#include "hooks/interpose/lock_levels.h"
#include "offload/statistics.h"

namespace thermocline {

struct DeviceHeap {
  DeviceHeap(CUdevice of, Bytes budget, bool is_set) : device(of), budget_is_set(is_set), heap(budget) {}

  const CUdevice device;
  const bool budget_is_set;  // else the budget is all of the device
  Mutex mutex{"caching heap", lock_level::kLeaf};
  std::condition_variable_any returned;  // signalled when memory has gone back to the driver
  CachingHeap heap THERMOCLINE_GUARDED_BY(mutex);
  // The context whose freed blocks are cached: the first that allocated. Null: there is none (any more).
  CUcontext home THERMOCLINE_GUARDED_BY(mutex) = nullptr;
};

// False until a device without virtual memory management has been found. Lock-free.
bool any_caching_heap() noexcept;
// Logs once what the library does on such a device.
void begin_caching_heap(const DeviceFacts& facts, const Settings& settings);
// Null: the device has none, or there is no current context.
DeviceHeap* caching_heap_of_current_device();
// The heap that knows the block; null if none does.
DeviceHeap* caching_heap_with(DeviceAddress at);
template <class Visit>
void for_each_caching_heap(Visit visit);

EngineStatistics statistics_of(DeviceHeap& of);
// Statistics without waiting for the lock; empty if a thread holds it.
std::optional<EngineStatistics> try_statistics_of(DeviceHeap& of);
void reset_peaks_of_caching_heaps();

// Contexts of the process, of any device, as far as seen. Work of another context may use a freed block, and no wait
// covers all contexts. So blocks are cached only while there is one context.
void note_context(const void* context) noexcept;
void forget_context(const void* context);
bool is_only_context(const void* context);

// A context is about to end, or has ended, with all of its memory.
void end_blocks_in(CUcontext context);
// In the child of a fork, in which the driver does not work: none of these heaps is used again.
void abandon_caching_heaps() noexcept;

namespace detail {
DeviceHeap* caching_heap(std::size_t device) noexcept;
inline constexpr std::size_t kMostHeaps = 64;
}  // namespace detail

template <class Visit>
void for_each_caching_heap(Visit visit) {
  if (!any_caching_heap()) return;
  for (std::size_t device = 0; device < detail::kMostHeaps; ++device) {
    if (DeviceHeap* const of = detail::caching_heap(device); of != nullptr) visit(*of);
  }
}

}  // namespace thermocline
