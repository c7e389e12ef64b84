// SPDX-License-Identifier: Apache-2.0
// The arena's hooks, as documented in jemalloc's doc/jemalloc.xml.in (arena.<i>.extent_hooks), version 5.3.0. jemalloc
// neither splits nor merges extents (both hooks decline) and never keeps them (decay time 0): HostSteps does all that
// below, within registrations.
#include "allocator/host_pool.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <unordered_map>
#include <utility>

#include <jemalloc/jemalloc.h>

#include "allocator/host_steps.h"
#include "allocator/lock_levels.h"
#include "driver/check.h"
#include "driver/locks.h"

namespace thermocline {
namespace {

// For larger sizes jemalloc's size classes are not asked (they end at 7 EiB, and a size near that has no class).
constexpr Bytes kLargestClassed = Bytes{1} << 40;

struct ArenaHooks {
  extent_hooks_t table;  // must be first: jemalloc passes its address to the hooks
  HostSteps* steps;
};

HostSteps& steps_of(extent_hooks_t* hooks) { return *reinterpret_cast<ArenaHooks*>(hooks)->steps; }

void* extent_alloc(extent_hooks_t* hooks, void* wanted, std::size_t size, std::size_t alignment, bool* zero,
                   bool* commit, unsigned) {
  // A request for a certain address can not be granted.
  if (wanted != nullptr) return nullptr;
  void* const at = steps_of(hooks).take(size, alignment);
  if (at == nullptr) return nullptr;
  if (*zero) std::memset(at, 0, size);
  *commit = true;
  return at;
}

bool extent_dalloc(extent_hooks_t* hooks, void* at, std::size_t, bool, unsigned) {
  const bool given = steps_of(hooks).give(at);
  THERMOCLINE_CHECK(given, "jemalloc gives back extents as it took them.");
  return !given;
}

void extent_destroy(extent_hooks_t* hooks, void* at, std::size_t, bool, unsigned) {
  static_cast<void>(steps_of(hooks).give(at));
}

bool refuse_split(extent_hooks_t*, void*, std::size_t, std::size_t, std::size_t, bool, unsigned) { return true; }
bool refuse_merge(extent_hooks_t*, void*, std::size_t, void*, std::size_t, bool, unsigned) { return true; }

// arena_config_t of jemalloc 5.3.0 (include/jemalloc/internal/arena_types.h), for experimental.arenas_create_ext: with
// it the arena's metadata stays in ordinary memory.
struct ArenaConfig {
  extent_hooks_t* hooks;
  bool metadata_use_hooks;
};

bool create_arena(ArenaHooks& hooks, unsigned* arena) {
  std::size_t size = sizeof *arena;
  ArenaConfig config{&hooks.table, false};
  if (thermocline_je_mallctl("experimental.arenas_create_ext", arena, &size, &config, sizeof config) == 0) return true;
  extent_hooks_t* table = &hooks.table;
  return thermocline_je_mallctl("arenas.create", arena, &size, &table, sizeof table) == 0;
}

int control_arena(unsigned arena, const char* what, void* value, std::size_t size) {
  char name[64];
  std::snprintf(name, sizeof name, "arena.%u.%s", arena, what);
  return thermocline_je_mallctl(name, nullptr, nullptr, value, size);
}

}  // namespace

class HostPool::State {
 public:
  State(const Driver& driver, Bytes limit, Bytes step_bytes, int node, SharedHostLimits shared,
        std::unique_ptr<MappableHost> mappable_in)
      : mappable(std::move(mappable_in)),
        steps(driver, limit, step_bytes, node, shared, mappable.get()),
        hooks{{extent_alloc, extent_dalloc, extent_destroy, nullptr, nullptr, nullptr, nullptr, refuse_split,
               refuse_merge},
              &steps} {}
  ~State() {
    if (has_arena) static_cast<void>(control_arena(arena, "destroy", nullptr, 0));
  }

  int flags() const { return static_cast<int>(MALLOCX_ARENA(arena)) | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(64); }
  void* allocate_extent(Bytes bytes);
  void* keep_whole(void* at, Bytes size);
  void count(Bytes bytes);

  std::unique_ptr<MappableHost> mappable;  // null: none
  HostSteps steps;
  ArenaHooks hooks;
  unsigned arena = 0;
  bool has_arena = false;
  std::atomic<Bytes> live{0};
  std::atomic<Bytes> peak_live{0};
  Mutex mutex{"host pool", lock_level::kHostPool};
  std::unordered_map<void*, Bytes> whole THERMOCLINE_GUARDED_BY(mutex);  // allocations that are an extent of their own
};

void* HostPool::State::allocate_extent(Bytes bytes) {
  return keep_whole(steps.take(bytes, HostSteps::kPage), round_up(bytes, HostSteps::kPage));
}

void* HostPool::State::keep_whole(void* at, Bytes size) {
  if (at == nullptr) return nullptr;
  const MutexLock lock(mutex);
  whole.emplace(at, size);
  count(size);
  return at;
}

void HostPool::State::count(Bytes bytes) {
  const Bytes now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  Bytes peak = peak_live.load(std::memory_order_relaxed);
  while (peak < now && !peak_live.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

Status HostPool::create(const Driver& driver, Bytes limit, Bytes step_bytes, std::unique_ptr<HostPool>* out, int node,
                        SharedHostLimits shared, std::unique_ptr<MappableHost> mappable) {
  THERMOCLINE_CHECK(thermocline_je_malloc_conf != nullptr, "jemalloc is linked with our settings.");
  auto state = std::make_unique<State>(driver, limit, step_bytes, node, shared, std::move(mappable));
  if (!create_arena(state->hooks, &state->arena)) return Status::out_of_memory();
  state->has_arena = true;
  // Freed extents return to HostSteps at once.
  ssize_t never_kept = 0;
  for (const char* option : {"dirty_decay_ms", "muzzy_decay_ms"}) {
    if (control_arena(state->arena, option, &never_kept, sizeof never_kept) != 0) return Status::not_supported();
  }
  out->reset(new HostPool(std::move(state)));
  return Status();
}

HostPool::HostPool(std::unique_ptr<State> state) : state_(std::move(state)) {}
HostPool::~HostPool() = default;

void* HostPool::allocate(Bytes bytes) {
  const int flags = state_->flags();
  const Bytes size = bytes == 0 || bytes > kLargestClassed ? 0 : thermocline_je_nallocx(bytes, flags);
  // Size classes are a quarter to a fifth apart, and pinned memory is taken whether or not it is accessed. If the class
  // would waste more than 1/32, the allocation becomes an extent of its own.
  if (size == 0 || (size - bytes > bytes / 32 && bytes > HostSteps::kPage)) return state_->allocate_extent(bytes);
  void* const at = thermocline_je_mallocx(bytes, flags);
  if (at != nullptr) state_->count(size);
  return at;
}

void* HostPool::allocate_whole(Bytes bytes) { return state_->allocate_extent(bytes); }

void HostPool::try_mappable_on(StreamHandle stream, void (*failed)()) {
  if (state_->mappable != nullptr) state_->mappable->try_on(stream, failed);
}

void HostPool::mapping_waits(WaitingCalls calls) {
  if (state_->mappable != nullptr) state_->mappable->mapping_waits(calls);
}

void* HostPool::allocate_pages(Bytes bytes) {
  if (state_->mappable == nullptr) return nullptr;
  return state_->keep_whole(state_->steps.take_mappable(bytes), round_up(bytes, state_->mappable->page_bytes()));
}

void* HostPool::allocate_pageable(Bytes bytes) {
  return state_->keep_whole(state_->steps.take_pageable(bytes), round_up(bytes, HostSteps::kPage));
}

bool HostPool::pages_of(const void* at, Bytes bytes, std::vector<PageHandle>* out) const {
  return state_->mappable != nullptr && state_->mappable->pages_of(at, bytes, out);
}

void HostPool::free(void* at) {
  if (at == nullptr) return;
  {
    const MutexLock lock(state_->mutex);
    if (const auto found = state_->whole.find(at); found != state_->whole.end()) {
      state_->live.fetch_sub(found->second, std::memory_order_relaxed);
      state_->whole.erase(found);
      const bool given = state_->steps.give(at);
      THERMOCLINE_CHECK(given, "An extent is freed once.");
      return;
    }
  }
  state_->live.fetch_sub(thermocline_je_sallocx(at, state_->flags()), std::memory_order_relaxed);
  thermocline_je_dallocx(at, state_->flags());
}

void HostPool::trim(Bytes keep) { state_->steps.trim(keep); }
void HostPool::await_leaving() { state_->steps.await_leaving(); }
bool HostPool::trim_later(bool later) { return state_->steps.trim_later(later); }
void HostPool::forget_refusals() { state_->steps.forget_refusals(); }
bool HostPool::wants_trim() const { return state_->steps.wants_trim(); }
bool HostPool::make_way() { return state_->steps.make_way(); }
bool HostPool::claim(Bytes bytes) { return state_->steps.claim(bytes); }
Bytes HostPool::limit() const { return state_->steps.limit(); }
Bytes HostPool::live_bytes() const { return state_->live.load(std::memory_order_relaxed); }
Bytes HostPool::peak_live_bytes() const { return state_->peak_live.load(std::memory_order_relaxed); }
Bytes HostPool::taken_bytes() const { return state_->steps.taken_bytes(); }
Bytes HostPool::peak_taken_bytes() const { return state_->steps.peak_taken_bytes(); }
Bytes HostPool::pageable_bytes() const { return state_->steps.pageable_bytes(); }
Bytes HostPool::pinned_by_all() const { return state_->steps.pinned_by_all(); }
Bytes HostPool::peak_pageable_bytes() const { return state_->steps.peak_pageable_bytes(); }
Bytes HostPool::ever_taken_bytes() const { return state_->steps.ever_taken_bytes(); }

void HostPool::reset_peaks() {
  state_->peak_live.store(live_bytes(), std::memory_order_relaxed);
  state_->steps.reset_peak();
}

void HostPool::validate() const {
  state_->steps.validate();
  THERMOCLINE_CHECK(live_bytes() <= taken_bytes(), "What is live is taken.");
}

}  // namespace thermocline
