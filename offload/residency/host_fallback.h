// SPDX-License-Identifier: Apache-2.0
// What an evicted unit's addresses lead to: its copy on the host, where the device can map that, so that a kernel that
// accesses the unit without having been seen to is slow in place of wrong (docs/host_fallback.md says when, and when
// not).
//
// A unit is mapped to the host from the time it has lost its pages until it is mapped again. What it was when that began is kept
// as a digest of samples; another digest at its end is a write that nobody saw. Reads leave no trace. Guarded by the
// engine's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "allocator/heap.h"
#include "allocator/host_pool.h"
#include "allocator/stream_clock.h"
#include "offload/options.h"
#include "offload/residency/block_state.h"

namespace thermocline {

struct HostFallbackStatistics {
  std::uint64_t mapped = 0;    // evicted with a host mapping
  std::uint64_t unmapped = 0;  // evicted without one
  std::uint64_t unseen = 0;    // units that came back with other contents than they left with
};

class HostMappings {
 public:
  // `readable`: host memory has bytes (a simulated device may do without).
  HostMappings(Heap& heap, StreamClock& clock, HostPool& host, HostFallback mode, bool readable)
      : heap_(heap), clock_(clock), host_(host), mode_(mode), readable_(readable) {}

  bool on() const { return mode_ != HostFallback::kOff; }
  // Nothing is done ahead of need, and no place is changed while anything runs: no access is lost at all.
  bool full() const { return mode_ == HostFallback::kFull; }
  // Under a full host fallback: so far whatever left leads to its copy, and something has.
  bool holds() const { return full() && statistics_.mapped > 0 && statistics_.unmapped == 0; }

  // Asked before a unit is mapped to the host: is the device about to run out of work? Each unit costs the host some 90
  // microseconds more, so it then waits until there is time.
  void set_hurried(std::function<bool()> hurried) { hurried_ = std::move(hurried); }

  // The unit has left; its copy on the host is complete.
  void map_to_host(EvictionUnit& unit);
  // It leads to its copy, or is to.
  bool is_mapped_to_host(const EvictionUnit& unit) const {
    return unit.mapped_to_host || std::ranges::find(late_, &unit) != late_.end();
  }
  // Maps a few of those that had to wait, if there is time.
  void catch_up();
  bool has_late() const { return !late_.empty(); }
  // An operation that is being submitted uses it through its mapping, and may write to it.
  void used_where_it_is(EvictionUnit& unit) { unit.used_there |= unit.mapped_to_host; }
  // It has pages again, and its addresses lead to these.
  void mapped_to_pages(EvictionUnit& unit);
  // Before its host copy is dropped while it is evicted: true when the memory is given back later (collect).
  bool abandon(EvictionUnit& unit);

  // Host memory of abandoned units that is free by now; `wait`: waits for more of it.
  std::vector<void*> collect(Wait wait);

  // Blocks that were written to unseen, by an address of each; the caller's from now on.
  std::vector<DeviceAddress> take_unseen() { return std::exchange(unseen_, {}); }
  bool has_unseen() const { return !unseen_.empty(); }
  const HostFallbackStatistics& statistics() const { return statistics_; }

 private:
  std::uint64_t digest_of(const EvictionUnit& unit) const;
  void map_to_host_now(EvictionUnit& unit);
  // It is not among those that wait any more.
  void forget_late(EvictionUnit& unit);

  Heap& heap_;
  StreamClock& clock_;
  HostPool& host_;
  const HostFallback mode_;
  const bool readable_;
  std::function<bool()> hurried_;
  std::vector<EvictionUnit*> late_;  // to be mapped to the host, the newest last
  std::vector<PageHandle> pages_;    // scratch
  std::vector<DeviceAddress> unseen_;
  HostFallbackStatistics statistics_;
};

// Of up to 64 lines of 64 bytes of them, evenly spread, the first and the last among them.
std::uint64_t digest_of_samples(std::span<const unsigned char> bytes);

}  // namespace thermocline
