// SPDX-License-Identifier: Apache-2.0
// Allocating and freeing small buffers while nothing is out of the ordinary: in a slab that is mapped, and that has other
// buffers afterwards. No page changes its place, no block begins or ends, no record is broken, and nobody has to be
// told. Everything else is left to allocate and free, of which this does a part: what holds for them holds here.
#include <algorithm>

#include "driver/undisturbed.h"
#include "offload/engine/engine_state.h"

namespace thermocline {

bool Engine::State::allocate_small(Bytes bytes, std::optional<StreamHandle> handle, ThreadCache& cache,
                                   DeviceAddress* address) {
  StreamIndex hint;
  if (!is_plain || !detained.empty() || policy->wants().addresses || bytes > budget_bytes - external_bytes ||
      !clock.find(handle.value_or(StreamHandle{}), &hint))
    return false;
  if (caches.has_changes()) {
    const Undisturbed undisturbed;
    note_cache_changes();
  }
  // What is cached is taken back before other holes than its own are cut up, and before there is a new record.
  if (caches.has_large() || heap.live_bytes() + bytes + external_bytes > counters.peak_live_bytes) return false;
  Buffer* const buffer = heap.allocate_in_mapped_slab(bytes, hint);
  if (buffer == nullptr) return false;
  residency.adopt_beside_others(*buffer);
  allocations.add(buffer->block().bytes());
  ++counters.allocations;
  counters.allocated_bytes += bytes;
  counters.largest_allocation_bytes = std::max(counters.largest_allocation_bytes, bytes);
  counters.peak_live_buffers = std::max(counters.peak_live_buffers, heap.buffers());
  counters.peak_device_bytes = std::max(counters.peak_device_bytes, heap.created_bytes() + external_bytes);
  *address = buffer->address();
  if (!pressed && cache.has_asked_for(bytes)) {
    const Undisturbed undisturbed;
    if (Buffer* displaced = caches.remember(*buffer, handle); displaced != nullptr) release(*displaced);
  }
  return true;
}

bool Engine::State::free_small(DeviceAddress address, std::optional<StreamHandle> handle) {
  StreamIndex on;
  if (!is_plain || !detained.empty() || !pinned.empty() || !references.empty() || clock.may_be_blocked() ||
      !clock.find(handle.value_or(StreamHandle{}), &on))
    return false;
  Buffer* const buffer = heap.in_slab_at(address);
  if (buffer == nullptr || buffer->block().live_buffers() == 1 || !ThreadCache::withdraw(*buffer)) return false;
  if (handle.has_value()) freed_on(*buffer, on);
  heap.free(buffer);
  ++counters.frees;
  return true;
}

}  // namespace thermocline
