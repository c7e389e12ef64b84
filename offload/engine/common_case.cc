// SPDX-License-Identifier: Apache-2.0
// Allocates and frees small buffers in the ordinary case: in a mapped slab that still has other buffers afterwards. No
// page moves, no block begins or ends, no peak is exceeded, and nobody has to be told. All other cases are left to
// allocate and free. This does a part of what these do, under the same rules.
//
// Between taking and releasing the lock no function is called at which the thread could be cancelled.
#include "allocator/slabs_inline.h"
#include "driver/undisturbed.h"
#include "offload/engine/engine_state.h"

namespace thermocline {

namespace {

// cuMemAlloc names no stream; the memory is likely used first on the legacy stream.
StreamHandle handle_of(std::uint64_t stream) {
  return stream != ThreadCache::kNoStream ? StreamHandle{stream} : StreamHandle{};
}

}  // namespace

[[gnu::always_inline]] inline bool Engine::State::allocate_small(Bytes bytes, std::uint64_t key, ThreadCache& cache,
                                                                 DeviceAddress* address) {
  StreamIndex hint;
  if (slow_to_allocate || policy->wants().addresses || bytes > budget_bytes - external_bytes ||
      !clock.find(handle_of(key), &hint))
    return false;
  if (caches.has_changes()) [[unlikely]] {
    const Undisturbed undisturbed;
    note_cache_changes();
  }
  // Cached buffers are taken back before other holes than theirs are split, and before there is a new peak.
  if (caches.has_large() || heap.live_bytes() + bytes + external_bytes > counters.peak_live_bytes) return false;
  Buffer* const buffer = heap.allocate_in_mapped_slab(bytes, hint);
  if (buffer == nullptr) return false;
  residency.adopt_beside_others(*buffer);
  allocations.add(buffer->block().bytes());
  ++counters.allocations;
  counters.allocated_bytes += bytes;
  if (bytes > counters.largest_allocation_bytes) counters.largest_allocation_bytes = bytes;
  if (heap.buffers() > counters.peak_live_buffers) counters.peak_live_buffers = heap.buffers();
  if (heap.created_pages() > noted_created_pages) [[unlikely]]
    note_device_peak();
  *address = buffer->address();
  if (!pressed && cache.has_asked_for(bytes)) [[unlikely]]
    remember_small(*buffer, key);
  return true;
}

[[gnu::noinline]] void Engine::State::remember_small(Buffer& buffer, std::uint64_t key) {
  const Undisturbed undisturbed;
  if (Buffer* const displaced = caches.remember(buffer, ThreadCaches::stream_of(key)); displaced != nullptr)
    release(*displaced);
}

[[gnu::always_inline]] inline bool Engine::State::free_small(DeviceAddress address, std::uint64_t key) {
  StreamIndex on;
  if (slow_to_free || clock.may_be_blocked() || !clock.find(handle_of(key), &on)) return false;
  const Heap::InSlab found = heap.beside_others_at(address);
  if (found.buffer == nullptr || !caches.withdraw(*found.buffer)) return false;
  if (key != ThreadCache::kNoStream) freed_on(*found.buffer, on);
  heap.free_beside_others(found);
  ++counters.frees;
  return true;
}

Status Engine::allocate_past_cache(Bytes bytes, std::uint64_t stream, DeviceAddress* out, ThreadCache* cache) {
  std::unique_lock lock(mutex_);
  if (cache != nullptr && state_->allocate_small(bytes, stream, *cache, out)) [[likely]]
    return {};
  lock.release();
  return allocate_slowly(bytes, ThreadCaches::stream_of(stream), out);
}

Status Engine::free_past_cache(DeviceAddress address, std::uint64_t stream) {
  std::unique_lock lock(mutex_);
  if (state_->free_small(address, stream)) [[likely]]
    return {};
  lock.release();
  return free_slowly(address, ThreadCaches::stream_of(stream));
}

}  // namespace thermocline
