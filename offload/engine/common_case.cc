// SPDX-License-Identifier: Apache-2.0
// Allocates and frees in the ordinary case: in a mapped slab that still has other buffers afterwards, or a buffer with
// pages of its own in free space that has pages. No page moves, no peak is exceeded, there is room for everything that
// is live, and no driver function is called. All other cases are left to allocate and free. This does a part of what
// these do, under the same rules.
//
// Between taking and releasing the lock no function is called at which the thread could be cancelled.
//
// Most often no function has to be called at all (allocate_at_once, free_at_once): the slab that is being filled, or a
// mapped one, has a hole; the next record is at hand; the space was used on one stream. That is tried first, and is
// compiled apart: code that may call somebody keeps its values in memory across the call, here a quarter of its work.
//
// Whether that is allowed depends on a dozen things that others change, all of them under the lock. What they come to is
// noted (Engine::State::Allowed), and the lock is given back as it was: as long as nobody else takes it (try_lock_again),
// the next call looks at nothing else. Whoever takes it otherwise clears what is noted, or gives it back as any mutex.
#include "allocator/slabs_inline.h"
#include "driver/undisturbed.h"
#include "offload/engine/engine_state.h"

namespace thermocline {

namespace {

// cuMemAlloc names no stream; the memory is likely used first on the legacy stream.
StreamHandle handle_of(std::uint64_t stream) {
  return stream != ThreadCache::kNoStream ? StreamHandle{stream} : StreamHandle{};
}

// Calls ask() with the lock taken. True: all is done, and the lock released; else the caller goes on with it. Nobody has
// it if ask() throws: host memory may run out, and under the hooks a broken invariant is an exception.
template <class Mutex, class Ask>
[[gnu::always_inline]] inline bool done_at_once(Mutex& mutex, Ask ask)
    THERMOCLINE_TRY_ACQUIRE(false, mutex) THERMOCLINE_NOT_ANALYSED {
  try {
    if (!ask()) return false;
  } catch (...) {
    mutex.unlock();
    throw;
  }
  if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
    mutex.unlock();
  else
    mutex.unlock_as_it_was();
  return true;
}

}  // namespace

[[gnu::noinline]] void Engine::State::take_back_large() {
  const Undisturbed undisturbed;
  allowed = {};
  note_cache_changes();
  if (caches.has_large()) reclaim(Reclaim::kLarge);
}

// Null: there is no such space, or somebody has to be asked.
[[gnu::always_inline]] inline Buffer* Engine::State::allocate_in_mapped_pages(Bytes bytes, StreamIndex hint) {
  const Bytes page = heap.page_bytes();
  const Bytes held = held_block_bytes + ((bytes + page - 1) & ~(page - 1));
  if (held > budget_bytes - external_bytes || options.budget_source != nullptr || policy->wants().allocating)
    return nullptr;
  Buffer* const buffer = heap.allocate_in_mapped_pages(bytes, hint);
  if (buffer == nullptr) return nullptr;
  const Block& block = buffer->block();
  // No unit is larger than its block.
  if (block.bytes() > largest_unit) note_unit_of(block);
  residency.adopt(*buffer);
  held_block_bytes = held;
  tell_of_allocation(block);
  if (policy->wants().addresses) [[unlikely]]
    allowed = {};
  return buffer;
}

[[gnu::always_inline]] inline void Engine::State::count_allocation(const Buffer& buffer, Bytes bytes) {
  allocations.add(buffer.block().bytes());
  ++counters.allocations;
  counters.allocated_bytes += bytes;
  if (heap.buffers() > counters.peak_live_buffers) counters.peak_live_buffers = heap.buffers();
}

[[gnu::always_inline]] inline bool Engine::State::allocate_commonly(Bytes bytes, std::uint64_t key, ThreadCache& cache,
                                                                    DeviceAddress* address) {
  StreamIndex hint;
  if (slow_to_allocate || !HostReserve::has_enough() || policy->wants().addresses ||
      bytes > budget_bytes - external_bytes || !clock.find(handle_of(key), &hint))
    return false;
  // Large cached buffers are taken back before other space than theirs is divided, and all before there is a new peak.
  if (has_cache_changes()) [[unlikely]]
    take_back_large();
  if (heap.live_bytes() + bytes + external_bytes > counters.peak_live_bytes) return false;
  Buffer* buffer = nullptr;
  if (heap.owns_pages(bytes)) {
    buffer = allocate_in_mapped_pages(bytes, hint);
    if (buffer == nullptr) return false;
  } else {
    buffer = heap.allocate_in_mapped_slab(bytes, hint);
    if (buffer == nullptr) return false;
    residency.adopt_beside_others(*buffer);
  }
  count_allocation(*buffer, bytes);
  if (bytes > counters.largest_allocation_bytes) counters.largest_allocation_bytes = bytes;
  if (heap.created_pages() > noted_created_pages) [[unlikely]]
    note_device_peak();
  *address = buffer->address();
  if (!pressed && cache.has_asked_for(bytes)) [[unlikely]]
    remember(*buffer, key);
  return true;
}

// Allocations are those in slabs that change no peak.
Engine::State::Allowed Engine::State::what_is_allowed(std::uint64_t key) const {
  Allowed what;
  if (!clock.find(handle_of(key), &what.newest.stream)) return {};
  what.newest.ordinal = clock.submitted(what.newest.stream);
  if (!slow_to_free && !clock.may_be_blocked()) what.key_to_free = key;
  if (slow_to_allocate || policy->wants().addresses || external_bytes > counters.peak_live_bytes ||
      heap.created_pages() > noted_created_pages)
    return what;
  what.key_to_allocate = key;
  what.most_live = std::min(heap.peak_live_bytes(), counters.peak_live_bytes - external_bytes);
  what.most_bytes = std::min({budget_bytes - external_bytes, heap.shares_until(), counters.largest_allocation_bytes});
  what.only_cache = caches.has_large() ? nullptr : caches.only_one();
  return what;
}

void Engine::State::validate_allowed() const {
  for (const std::uint64_t key : {allowed.key_to_allocate, allowed.key_to_free}) {
    if (key == Allowed::kNobody) continue;
    const Allowed now = what_is_allowed(key);
    THERMOCLINE_CHECK(allowed.newest == now.newest && (allowed.key_to_free != key || now.key_to_free == key),
                      "what is noted for frees is so");
    THERMOCLINE_CHECK(
        allowed.key_to_allocate != key ||
            (now.key_to_allocate == key && allowed.most_live <= now.most_live && allowed.most_bytes <= now.most_bytes &&
             (allowed.only_cache == nullptr || allowed.only_cache == now.only_cache)),
        "what is noted for allocations is so");
  }
}

void Engine::validate() const {
  const bool as_it_was = mutex_.try_lock_again();
  if (!as_it_was) mutex_.lock();
  const std::lock_guard lock(mutex_, std::adopt_lock);
  if (as_it_was) state_->validate_allowed();
  state_->validate();
}

[[gnu::always_inline]] inline bool Engine::State::may_allocate_at_once(Bytes bytes, std::uint64_t key,
                                                                       const ThreadCache& cache) const {
  // No bytes are as many as there can be.
  return key == allowed.key_to_allocate && bytes - 1 < allowed.most_bytes &&
         heap.live_bytes() + bytes <= allowed.most_live &&
         (&cache == allowed.only_cache ? !cache.has_changes() : !has_cache_changes());
}

[[gnu::always_inline]] inline Buffer* Engine::State::allocate_at_once(Bytes bytes) {
  Buffer* const buffer = heap.allocate_at_once(
      bytes, allowed.newest.stream,
      [this](const Block& slab, const UseSet& former) { return residency.adopt_at_once(slab, former); });
  if (buffer != nullptr) count_allocation(*buffer, bytes);
  return buffer;
}

[[gnu::noinline]] void Engine::State::remember(Buffer& buffer, std::uint64_t key) {
  const Undisturbed undisturbed;
  allowed = {};
  if (Buffer* const displaced = caches.remember(buffer, ThreadCaches::stream_of(key)); displaced != nullptr)
    release(*displaced);
}

// A buffer with pages of its own. Host memory goes back to the driver, and addresses that stay reserved give their pages
// up: those are not here.
[[gnu::always_inline]] inline bool Engine::State::free_pages(DeviceAddress address, std::uint64_t key, StreamIndex on) {
  Buffer* const buffer = heap.owner_at(address);
  if (buffer == nullptr || policy->wants().addresses || !residency.has_no_copy(buffer->block()) ||
      !caches.withdraw(*buffer))
    return false;
  Block& block = buffer->block();
  if (key != ThreadCache::kNoStream) freed_on(*buffer, on);
  // release(), where no stream is blocked, and nothing is detained, pinned or referred to.
  held_block_bytes -= block.bytes();
  policy->freed(block);
  forget_held(block);
  residency.forget(block);
  heap.free_owner(buffer);
  ++counters.frees;
  if (policy->wants().addresses) [[unlikely]]
    allowed = {};
  return true;
}

[[gnu::always_inline]] inline bool Engine::State::free_commonly(DeviceAddress address, std::uint64_t key) {
  StreamIndex on;
  if (slow_to_free || clock.may_be_blocked() || !clock.find(handle_of(key), &on)) return false;
  const Block* const slab = heap.slab_of_several_at(address);
  if (slab == nullptr) return free_pages(address, key, on);
  std::uint64_t window = 0;
  Buffer* const buffer = Heap::begins_in(*slab, address, &window);
  if (buffer == nullptr) return false;
  if (!caches.withdraw(*buffer)) return false;
  if (key != ThreadCache::kNoStream) freed_on(*buffer, on);
  heap.free_beside_others(buffer, window);
  ++counters.frees;
  return true;
}

[[gnu::always_inline]] inline bool Engine::State::free_at_once(DeviceAddress address, std::uint64_t key,
                                                               const Block& slab) {
  std::uint64_t window = 0;
  Buffer* const buffer = Heap::begins_in(slab, address, &window);
  if (buffer == nullptr || ThreadCache::of(*buffer) != nullptr || !Heap::can_free_at_once(*buffer)) return false;
  if (key != ThreadCache::kNoStream) {
    UseSet& uses = buffer->block().uses;
    if (!uses.can_add_at_once(allowed.newest.stream)) return false;
    uses.add_at_once(allowed.newest);
  }
  heap.free_at_once(buffer, window);
  ++counters.frees;
  return true;
}

// Here and in free_past_cache every call is the last thing that is done, so that neither has a stack frame.
Status Engine::allocate_past_cache(Bytes bytes, std::uint64_t stream, DeviceAddress* out, ThreadCache* cache) {
  if (cache == nullptr || !mutex_.try_lock_again()) [[unlikely]]
    return allocate_anew(bytes, stream, out, cache);
  if (!state_->may_allocate_at_once(bytes, stream, *cache)) [[unlikely]]
    return allocate_where_allowed(bytes, stream, out, cache);
  return allocate_in_slab_taken(bytes, stream, out, cache);
}

// Somebody else has had the lock since the common case did.
[[gnu::noinline]] Status Engine::allocate_anew(Bytes bytes, std::uint64_t stream, DeviceAddress* out,
                                               ThreadCache* cache) {
  if (cache == nullptr || !mutex_.try_lock_at_once()) return allocate_after_waiting(bytes, stream, out, cache);
  state_->allowed = {};
  return allocate_where_allowed(bytes, stream, out, cache);
}

[[gnu::noinline]] Status Engine::allocate_where_allowed(Bytes bytes, std::uint64_t stream, DeviceAddress* out,
                                                        ThreadCache* cache) {
  if (state_->heap.owns_pages(bytes)) return allocate_taken(bytes, stream, out, cache);
  state_->allowed = state_->what_is_allowed(stream);
  if (!state_->may_allocate_at_once(bytes, stream, *cache)) return allocate_taken(bytes, stream, out, cache);
  return allocate_in_slab_taken(bytes, stream, out, cache);
}

[[gnu::noinline]] Status Engine::allocate_in_slab_taken(Bytes bytes, std::uint64_t stream, DeviceAddress* out,
                                                        ThreadCache* cache) {
  Buffer* const buffer = state_->allocate_at_once(bytes);
  if (buffer == nullptr) [[unlikely]]
    return allocate_taken(bytes, stream, out, cache);
  *out = buffer->address();
  if (!state_->pressed && cache->has_asked_for(bytes)) [[unlikely]]
    return remember_taken(*buffer, stream);
  mutex_.unlock_as_it_was();
  return {};
}

[[gnu::noinline]] Status Engine::allocate_after_waiting(Bytes bytes, std::uint64_t stream, DeviceAddress* out,
                                                        ThreadCache* cache) {
  mutex_.lock();
  state_->allowed = {};
  return allocate_taken(bytes, stream, out, cache);
}

[[gnu::noinline]] Status Engine::allocate_taken(Bytes bytes, std::uint64_t stream, DeviceAddress* out,
                                                ThreadCache* cache) {
  if (cache != nullptr && done_at_once(mutex_, [&] { return state_->allocate_commonly(bytes, stream, *cache, out); }))
    return {};
  return allocate_slowly(bytes, ThreadCaches::stream_of(stream), out);
}

[[gnu::noinline]] Status Engine::remember_taken(Buffer& buffer, std::uint64_t stream) {
  done_at_once(mutex_, [&] {
    state_->remember(buffer, stream);
    return true;
  });
  return {};
}

Status Engine::free_past_cache(DeviceAddress address, std::uint64_t stream) {
  if (!mutex_.try_lock_again()) [[unlikely]]
    return free_anew(address, stream);
  const Block* const slab = state_->heap.slab_of_several_at(address);
  if (slab == nullptr) return free_taken(address, stream);
  if (stream != state_->allowed.key_to_free) [[unlikely]]
    return free_where_allowed(address, stream);
  return free_in_slab_taken(address, stream, *slab);
}

[[gnu::noinline]] Status Engine::free_anew(DeviceAddress address, std::uint64_t stream) {
  if (!mutex_.try_lock_at_once()) return free_after_waiting(address, stream);
  state_->allowed = {};
  return free_where_allowed(address, stream);
}

[[gnu::noinline]] Status Engine::free_where_allowed(DeviceAddress address, std::uint64_t stream) {
  const Block* const slab = state_->heap.slab_of_several_at(address);
  if (slab == nullptr) return free_taken(address, stream);
  state_->allowed = state_->what_is_allowed(stream);
  if (stream != state_->allowed.key_to_free) return free_taken(address, stream);
  return free_in_slab_taken(address, stream, *slab);
}

[[gnu::noinline]] Status Engine::free_in_slab_taken(DeviceAddress address, std::uint64_t stream, const Block& slab) {
  if (!state_->free_at_once(address, stream, slab)) [[unlikely]]
    return free_taken(address, stream);
  mutex_.unlock_as_it_was();
  return {};
}

[[gnu::noinline]] Status Engine::free_after_waiting(DeviceAddress address, std::uint64_t stream) {
  mutex_.lock();
  state_->allowed = {};
  return free_taken(address, stream);
}

[[gnu::noinline]] Status Engine::free_taken(DeviceAddress address, std::uint64_t stream) {
  if (done_at_once(mutex_, [&] { return state_->free_commonly(address, stream); })) return {};
  return free_slowly(address, ThreadCaches::stream_of(stream));
}

}  // namespace thermocline
