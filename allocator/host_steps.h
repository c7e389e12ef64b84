// SPDX-License-Identifier: Apache-2.0
// Pinned host memory in large registrations, called steps, cut into extents of whole 4 KiB pages by best fit with
// coalescing. Registering costs tens of milliseconds for 100 MB (rapidsai/cudf PR 15665), so a step that has become
// empty is kept until trim, or until the limit leaves no other way. What leaves the device in a training step comes in
// few sizes: a step is made of a whole number of the extents that asked for it, and of one where that is a quarter of a
// step or more.
//
// Where device addresses may lead to host memory (mappable_host.h), steps are made of such memory as long as the driver
// gives it, and are multiples of its pages.
//
// Thread-safe; the lock is innermost (jemalloc calls in here with its own locks held).
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "allocator/bfc.h"
#include "allocator/lock_levels.h"
#include "allocator/mappable_host.h"
#include "driver/driver.h"
#include "driver/locks.h"
#include "driver/units.h"

namespace thermocline {

class HostLedger;

struct StepTag {
  static constexpr unsigned kShelves = 2;
  static constexpr bool kBinned = false;
  static constexpr unsigned shelf_of(bool mappable) { return mappable ? 1 : 0; }
  std::uint64_t step = 0;  // address of the step
  bool mappable = false;

  unsigned shelf() const { return shelf_of(mappable); }
  // Two registrations never become one extent, even when they lie side by side.
  bool merges_with(const StepTag& right) const { return step == right.step; }
  void join(const StepTag&) {}
  void clear() { *this = {}; }
};

// Invariants: pinned bytes are the sum of the steps and of what is being given back, never above the limit; extents lie
// in their step and do not overlap. In the ledger, where there is one, this process holds at least what is pinned and
// what is claimed.
class HostSteps {
 public:
  static constexpr Bytes kPage = 4 * kKiB;

  // `node`: of the machine's memory, where steps should lie; -1: anywhere. `ledger`: of a limit that processes share;
  // null: there is none. `mappable`: where steps come from; null: from cuMemHostAlloc.
  HostSteps(const Driver& driver, Bytes limit, Bytes step_bytes, int node = -1, HostLedger* ledger = nullptr,
            MappableHost* mappable = nullptr);
  // Gives all steps back, extents or not.
  ~HostSteps();
  HostSteps(const HostSteps&) = delete;
  HostSteps& operator=(const HostSteps&) = delete;

  // `alignment` a power of two. Null when the limit or the driver refuses.
  void* take(Bytes bytes, Bytes alignment);
  // The same in whole pages of MappableHost; null, too, where there is none.
  void* take_mappable(Bytes bytes);
  // False when `at` is no extent's address.
  bool give(void* at);
  bool owns(void* at) const;
  // Gives back empty steps, the largest first, until no more than `keep` bytes of them are left. The driver may wait
  // for the device within that: the lock is not held.
  void trim(Bytes keep = 0);
  // What may come to be needed, so that other processes do not take it. False: it is not to be had, and nothing has
  // changed.
  bool claim(Bytes bytes);

  Bytes limit() const { return limit_; }
  Bytes pinned_bytes() const;
  Bytes peak_pinned_bytes() const;
  // All that was ever taken from the driver.
  Bytes taken_bytes() const;
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

  Chunk* take_locked(unsigned shelf, std::uint64_t pages, std::uint64_t alignment_pages);
  void* hand_out(Chunk* chunk);
  // A step for `bytes`; of `unit`s, which are pages of MappableHost or of our own.
  bool add_step(Bytes bytes, Bytes unit);
  bool register_step(Bytes bytes, bool from_mappable);
  bool free_step(std::uint64_t at);
  // A step that is being given back without the lock: nobody's, and pinned still.
  struct Leaving {
    std::uint64_t at;
    Bytes bytes;
    bool mappable;
  };
  std::vector<Leaving> let_leave(Bytes keep);
  void has_left(const Leaving& step, bool given);
  bool enter(Bytes pinned, Bytes claimed);
  void give_back(std::map<std::uint64_t, Step>::iterator step);
  void trim_locked();

  const Driver* driver_;
  const Bytes limit_;  // 0: none
  const Bytes step_bytes_;
  const int node_;
  HostLedger* const ledger_;
  MappableHost* mappable_;  // null once it has refused

  MappableHost* const source_;  // of the mappable steps there are
  bool driver_refused_ = false;

  mutable Mutex mutex_{"steps of pinned memory", lock_level::kHostSteps};  // guards all below
  Space space_;                                                            // in pages of host addresses
  std::map<std::uint64_t, Step> steps_;                                    // by address
  std::unordered_map<std::uint64_t, Chunk*> extents_;                      // by the address handed out
  Bytes leaving_ = 0;                                                      // of steps that are being given back
  Bytes pinned_ = 0;
  Bytes peak_pinned_ = 0;
  Bytes taken_ = 0;
  Bytes claimed_ = 0;
};

}  // namespace thermocline
