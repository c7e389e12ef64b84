// SPDX-License-Identifier: Apache-2.0
// Host mappings: an evicted unit's addresses are mapped to its copy on the host, if the device can map that. A kernel
// that accesses the unit without having been seen to is then slow instead of wrong (docs/host_fallback.md says when,
// and when not).
//
// A unit is mapped to the host from the time it has lost its pages until it is mapped to pages again. A digest of
// samples is taken at the beginning; a different digest at the end means that something wrote unseen. Reads leave no
// trace. Guarded by the engine's lock.
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
  std::uint64_t unseen = 0;    // units whose contents were found changed when they were fetched
};

class HostMappings {
 public:
  // `readable`: host memory contains bytes (on a simulated device it may not).
  HostMappings(Heap& heap, StreamClock& clock, HostPool& host, HostFallback mode, bool readable)
      : heap_(heap), clock_(clock), host_(host), mode_(mode), readable_(readable) {}

  bool on() const { return mode_ != HostFallback::kOff; }
  // Nothing is moved ahead of need, and no mapping is changed while anything runs: then no unseen access is lost.
  bool full() const { return mode_ == HostFallback::kFull; }
  // With a full host fallback: every unit evicted so far is mapped to its copy, and at least one was.
  bool holds() const { return full() && statistics_.mapped > 0 && statistics_.unmapped == 0; }

  // Asked before a unit is mapped to the host: is the device about to run out of work? Mapping costs the host about 90
  // microseconds for each unit, so it is then put off until there is time.
  void set_hurried(std::function<bool()> hurried) { hurried_ = std::move(hurried); }

  // The unit has been evicted; its copy on the host is complete.
  void map_to_host(EvictionUnit& unit);
  // The unit is mapped to its copy, or will be.
  bool is_mapped_to_host(const EvictionUnit& unit) const {
    return unit.mapped_to_host || std::ranges::find(late_, &unit) != late_.end();
  }
  // Maps a few of the units that were put off, if there is time.
  void catch_up();
  bool has_late() const { return !late_.empty(); }
  // An operation that is being submitted uses the unit through its mapping, and may write to it.
  void used_where_it_is(EvictionUnit& unit) { unit.used_there |= unit.mapped_to_host; }
  // The unit has pages again, and its addresses map to these.
  void mapped_to_pages(EvictionUnit& unit);
  // Call it before the host copy of an evicted unit is dropped. True: its memory will be given back by collect().
  bool abandon(EvictionUnit& unit);

  // Host memory of abandoned units that is free now. `wait`: waits for more of it.
  std::vector<void*> collect(Wait wait);

  // Addresses, one for each block that was written to unseen; removes them from this object.
  std::vector<DeviceAddress> take_unseen() { return std::exchange(unseen_, {}); }
  bool has_unseen() const { return !unseen_.empty(); }
  const HostFallbackStatistics& statistics() const { return statistics_; }

 private:
  std::uint64_t digest_of(const EvictionUnit& unit) const;
  void map_to_host_now(EvictionUnit& unit);
  // Removes the unit from those that were put off.
  void forget_late(EvictionUnit& unit);

  Heap& heap_;
  StreamClock& clock_;
  HostPool& host_;
  const HostFallback mode_;
  const bool readable_;
  std::function<bool()> hurried_;
  std::vector<EvictionUnit*> late_;  // units to be mapped to the host later, the newest last
  std::vector<PageHandle> pages_;    // scratch
  std::vector<DeviceAddress> unseen_;
  HostFallbackStatistics statistics_;
};

// A digest of all bytes up to 4 KiB; beyond, of 65 evenly spread lines of 64 bytes, the first and the last among them.
std::uint64_t digest_of_samples(std::span<const unsigned char> bytes);

}  // namespace thermocline
