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

#include "allocator/heap.h"
#include "allocator/stream_clock.h"
#include "offload/residency/migration.h"
#include "offload/residency/residency.h"

namespace thermocline {

struct ReactiveOptions {
  unsigned low_water_percent;
  unsigned clean_reserve_percent;
};

class Reactive {
 public:
  Reactive(const Heap& heap, StreamClock& clock, Migration& migration, Residency& residency, ReactiveOptions options)
      : heap_(heap), clock_(clock), migration_(migration), residency_(residency), options_(options) {}

  // An operation found blocks absent and waited for them.
  void missed();
  void allocated(Bytes bytes);
  // An operation has been submitted to `stream`. Never blocks.
  void after_operation(StreamIndex stream);

  std::uint64_t write_behinds() const { return write_behinds_; }
  std::uint64_t prefetches() const { return prefetches_; }

 private:
  void write_behind();
  void prefetch();
  bool filling() const;

  const Heap& heap_;
  StreamClock& clock_;
  Migration& migration_;
  Residency& residency_;
  const ReactiveOptions options_;
  bool returning_ = false;           // the program is coming back for what left
  std::uint64_t wasted_before_ = 0;  // useless prefetches when returning began
  Bytes largest_recent_ = 0;         // the largest recent allocation: prefetch leaves room for one
  std::uint32_t allocations_since_largest_ = 0;
  std::uint32_t operations_since_fence_ = 0;
  std::uint64_t write_behinds_ = 0, prefetches_ = 0;
};

}  // namespace thermocline
