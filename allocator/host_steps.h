// SPDX-License-Identifier: Apache-2.0
// Pinned host memory in large registrations, called steps, which are cut into extents of whole 4 KiB pages by best fit
// with coalescing. Registering costs tens of milliseconds for 100 MB (rapidsai/cudf PR 15665), so an empty step is kept
// until trim, or until the limit leaves no other choice. The buffers that a training step evicts have few different
// sizes. So a step is a whole number of extents of the size that was asked for; one extent, if that size is a quarter
// of a step or more. The first steps are smaller.
//
// If device addresses may map to host memory (mappable_host.h), steps are made of such memory as long as the driver
// provides it, and are multiples of its page size.
//
// Where the driver pins no more although the limit allows it, callers may ask for steps of ordinary, pageable memory.
//
// Thread-safe. The lock is innermost (jemalloc calls in here with its own locks held).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "allocator/bfc.h"
#include "allocator/host_account.h"
#include "allocator/lock_levels.h"
#include "allocator/mappable_host.h"
#include "driver/driver.h"
#include "driver/locks.h"
#include "driver/units.h"

namespace thermocline {

enum class StepKind : std::uint8_t { kPinned, kMappable, kPageable };

struct StepTag {
  static constexpr unsigned kOrdered = 3, kShelves = kOrdered;
  static constexpr unsigned shelf_of(StepKind kind) { return static_cast<unsigned>(kind); }
  std::uint64_t step = 0;  // address of the step
  StepKind kind = StepKind::kPinned;

  unsigned shelf() const { return shelf_of(kind); }
  // Extents of two registrations are never merged, even if the registrations are adjacent.
  bool merges_with(const StepTag& right) const { return step == right.step; }
  void join(const StepTag&) {}
  void clear() { *this = {}; }
};

// Invariants: taken bytes, pinned and pageable, are the sum of the steps, including those being returned to the driver,
// and never exceed the limit; the pageable ones are also counted by themselves; extents lie within their step and do not
// overlap. In shared limits count what is taken or what is claimed, whichever is more.
class HostSteps {
 public:
  static constexpr Bytes kPage = 4 * kKiB;

  // `node`: the NUMA node where steps should be; -1: any. `shared`: limits that others share.
  // `mappable`: the source of steps; null: cuMemHostAlloc.
  HostSteps(const Driver& driver, Bytes limit, Bytes step_bytes, int node = -1, SharedHostLimits shared = {},
            MappableHost* mappable = nullptr);
  // Returns all steps to the driver, whether or not they have extents.
  ~HostSteps();
  HostSteps(const HostSteps&) = delete;
  HostSteps& operator=(const HostSteps&) = delete;

  // `alignment` must be a power of two. Null when the limit or the driver refuses.
  void* take(Bytes bytes, Bytes alignment);
  // Takes whole pages of MappableHost; null also if there is no such memory.
  void* take_mappable(Bytes bytes);
  // Takes pageable memory: what is free of it, or more. No more unless the driver refused the last request for pinned
  // memory. Null also when the limit refuses.
  void* take_pageable(Bytes bytes);
  // False when no extent begins at `at`.
  bool give(void* at);
  bool owns(void* at) const;
  // Returns empty steps to the driver, the largest first, until at most `keep` bytes of them are left. The driver may
  // wait for the device in this call, so the lock is not held during it.
  void trim(Bytes keep = 0);
  // Until the driver has back what other threads are returning at the moment.
  void await_leaving();
  // If the limit or the driver refuses a step, empty steps of other sizes may be the reason. `later` true: this is only
  // noted; the caller releases its locks, makes way and asks again. False: empty steps are returned at once. Returns
  // the former value.
  bool trim_later(bool later);
  // Forgets that the last refusal came while steps were empty, or being returned to the driver.
  void forget_refusals() { wants_trim_.store(false, std::memory_order_relaxed); }
  bool wants_trim() const { return wants_trim_.load(std::memory_order_relaxed); }
  // Returns empty steps to the driver, and waits for those that others are returning. False: there were none.
  bool make_way();
  // Reserves memory that may be needed later, so that other holders do not take it. False: not available, and nothing
  // has changed.
  bool claim(Bytes bytes);

  Bytes limit() const { return limit_; }
  // Taken now: pinned and pageable.
  Bytes taken_bytes() const;
  Bytes peak_taken_bytes() const;
  // The part of it that is not pinned, because the driver refused it.
  Bytes pageable_bytes() const;
  Bytes peak_pageable_bytes() const;
  // Pinned bytes of all holders in the process that share a limit.
  Bytes pinned_by_all() const;
  // Bytes ever taken, in total.
  Bytes ever_taken_bytes() const;
  void reset_peak();

  void validate() const;

 private:
  using Space = Bfc<StepTag>;
  using Chunk = Space::Chunk;
  struct Step {
    Chunk* first;
    Bytes bytes;
    std::uint64_t used_pages;
  };

  Chunk* take_locked(unsigned shelf, std::uint64_t pages, std::uint64_t alignment_pages) THERMOCLINE_REQUIRES(mutex_);
  void* hand_out(Chunk* chunk) THERMOCLINE_REQUIRES(mutex_);
  // Adds a step for `bytes`, a multiple of `unit`: the page size of MappableHost, or of this class.
  bool add_step(Bytes bytes, Bytes unit, StepKind kind) THERMOCLINE_REQUIRES(mutex_);
  Bytes room_for(Bytes wanted) const THERMOCLINE_REQUIRES(mutex_);
  bool register_step(Bytes bytes, StepKind kind) THERMOCLINE_REQUIRES(mutex_);
  Status take_step(Bytes bytes, StepKind kind, void** out) THERMOCLINE_REQUIRES(mutex_);
  bool free_step(std::uint64_t at, Bytes bytes, StepKind kind);
  void count(StepKind kind, Bytes bytes) THERMOCLINE_REQUIRES(mutex_);
  void discount(StepKind kind, Bytes bytes) THERMOCLINE_REQUIRES(mutex_);
  // A step that is being returned to the driver without the lock held: no longer usable, but still taken.
  struct Leaving {
    std::uint64_t at;
    Bytes bytes;
    StepKind kind;
  };
  std::vector<Leaving> let_leave(Bytes keep);
  void has_left(const Leaving& step, bool given);
  bool enter(Bytes taken, Bytes claimed) THERMOCLINE_REQUIRES(mutex_);
  void give_back(std::map<std::uint64_t, Step>::iterator step) THERMOCLINE_REQUIRES(mutex_);
  // Whether the step is empty, and may be the reason why the last request for memory of this kind was refused.
  bool is_in_the_way(const Step& step, StepKind wanted) const THERMOCLINE_REQUIRES(mutex_);
  bool any_in_the_way(StepKind wanted) const THERMOCLINE_REQUIRES(mutex_);
  void trim_locked(StepKind wanted) THERMOCLINE_REQUIRES(mutex_);
  // Whether the driver need not be asked, because it has just refused to pin as much.
  bool is_refused_again(Bytes bytes) THERMOCLINE_REQUIRES(mutex_);

  const Driver* driver_;
  const Bytes limit_;  // 0: none
  const Bytes step_bytes_;
  const int node_;
  const SharedHostLimits shared_;
  MappableHost* const source_;  // where the existing mappable steps came from
  std::atomic<bool> wants_trim_{false};
  std::condition_variable_any left_;  // none is leaving any more

  mutable Mutex mutex_{"steps of pinned memory", lock_level::kHostSteps};
  Bytes entered_ THERMOCLINE_GUARDED_BY(mutex_) = 0;       // in the shared limits, of these steps
  MappableHost* mappable_ THERMOCLINE_GUARDED_BY(mutex_);  // null once it has refused
  bool driver_refused_ THERMOCLINE_GUARDED_BY(mutex_) = false;
  bool pinning_refused_ THERMOCLINE_GUARDED_BY(mutex_) = false;  // by the driver, at the last request
  // Pageable memory of so many bytes was given instead; 0: none since the driver has pinned, or got memory back. And how
  // many requests go there before the driver is asked again.
  Bytes refused_bytes_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  int unasked_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  Space space_ THERMOCLINE_GUARDED_BY(mutex_);                          // in pages of host addresses
  std::map<std::uint64_t, Step> steps_ THERMOCLINE_GUARDED_BY(mutex_);  // by address
  // By the address handed out.
  std::unordered_map<std::uint64_t, Chunk*> extents_ THERMOCLINE_GUARDED_BY(mutex_);
  bool trims_later_ THERMOCLINE_GUARDED_BY(mutex_) = false;
  Bytes leaving_ THERMOCLINE_GUARDED_BY(mutex_) = 0;  // of steps that are being returned to the driver
  Bytes taken_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  Bytes peak_taken_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  Bytes pageable_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  Bytes peak_pageable_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  Bytes ever_taken_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
  Bytes claimed_ THERMOCLINE_GUARDED_BY(mutex_) = 0;
};

}  // namespace thermocline
