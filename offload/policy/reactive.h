// SPDX-License-Identifier: Apache-2.0
// Offloading without a history: what to copy out before anybody asks for the room, and what to bring back before it is
// accessed.
//
// Write-behind: once something has had to leave, while memory is filling and the link out is idle, the oldest idle
// dirty block is copied out and keeps its pages; it is then clean, and dropping it is free. Prefetch: training comes
// back through its activations in reverse, so after the first access of an absent block the blocks that left last are
// brought back first, into free pages only, and only as far ahead of what the program has used as keeps the link busy:
// memory that is filled with guesses is missing where the program allocates next. A guess that was evicted again before
// its use counts against prefetching, which stops after a few until the next miss that it would have served.
#pragma once

#include <cstdint>

#include "offload/policy/eviction_policy.h"

namespace thermocline {

class ReactivePolicy final : public EvictionPolicy {
 public:
  explicit ReactivePolicy(const PolicyParts& parts)
      : heap_(parts.heap),
        clock_(parts.clock),
        migration_(parts.migration),
        residency_(parts.residency),
        allocations_(parts.allocations),
        low_water_percent_(parts.options.low_water_percent),
        clean_reserve_percent_(parts.options.clean_reserve_percent) {}

  void missed() override;
  void submitted(StreamIndex stream) override {
    // Before anything has had to leave everything may fit: then nothing is copied.
    if (residency_.statistics().evictions != 0 || residency_.any_nonresident()) move_ahead(stream);
  }
  PolicyStatistics statistics() const override { return {.prefetches = prefetches_, .write_behinds = write_behinds_}; }

 private:
  void move_ahead(StreamIndex stream);
  void write_behind();
  void prefetch();
  bool filling() const;

  const Heap& heap_;
  StreamClock& clock_;
  Migration& migration_;
  Residency& residency_;
  const RecentAllocations& allocations_;  // prefetch leaves room for the largest one
  const unsigned low_water_percent_, clean_reserve_percent_;
  bool returning_ = false;           // the program is coming back for what left
  std::uint64_t wasted_before_ = 0;  // useless prefetches when returning began
  std::uint32_t operations_since_fence_ = 0;
  std::uint64_t write_behinds_ = 0, prefetches_ = 0;
};

}  // namespace thermocline
