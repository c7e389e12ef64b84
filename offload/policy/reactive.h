// SPDX-License-Identifier: Apache-2.0
// Offloading without a history: copies out before room is needed, and prefetches.
//
// Write-behind: once something has been evicted, and while memory is filling and the link out is idle, the oldest idle
// dirty unit is copied out and keeps its pages. It is then clean, so evicting it costs no copy. While hardly any of
// these copies is used, write-behind pauses: a program that almost fits gains nothing from them.
//
// Prefetch: training goes back through its activations in reverse order. So after the first access of a non-resident
// unit, the units that were evicted last are fetched first, into free pages only, and only as far ahead of the program
// as keeps the link busy: memory filled with wrong guesses is missing for the next allocations. A unit that is evicted
// again before its use counts against prefetching, which stops after a few of these until the next miss.
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
    // Until something had to be evicted everything may fit: then nothing is copied.
    if (residency_.has_evicted_for_room() || residency_.any_nonresident()) move_ahead(stream);
  }
  PolicyStatistics statistics() const override { return {.write_behinds = write_behinds_}; }

 private:
  void move_ahead(StreamIndex stream);
  void write_behind();
  bool copies_in_vain() const;
  void prefetch();
  bool filling() const;

  const Heap& heap_;
  StreamClock& clock_;
  Migration& migration_;
  Residency& residency_;
  const RecentAllocations& allocations_;  // prefetch leaves room for the largest one
  const unsigned low_water_percent_, clean_reserve_percent_;
  bool returning_ = false;           // the program is accessing again what was evicted
  std::uint64_t wasted_before_ = 0;  // useless prefetches when that began
  std::uint32_t operations_since_fence_ = 0;
  std::uint64_t write_behinds_ = 0;
};

}  // namespace thermocline
