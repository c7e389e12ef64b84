// SPDX-License-Identifier: Apache-2.0
// Which submitted work may still use freed pages, by the time when they were freed. Free chunks merge, and a merged
// chunk has only the union of the pending uses of its parts. This log keeps the exact uses for each page, so that pages
// that were freed long ago can be reused even if they are merged with pages freed just now.
//
// Bounded: when there are more than kMost entries, the older half is replaced by the union of their uses, which is a
// safe answer for each of them. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/use_set.h"
#include "driver/check.h"

namespace thermocline {

// When pages were freed: a counter of the calls that freed any. 0: never.
using FreeTime = std::uint64_t;

class PendingLog {
 public:
  static constexpr std::size_t kMost = 4096;

  FreeTime add(const UseSet& pending) {
    if (newest_ - joined_ == kMost) join_older_half();
    const FreeTime time = ++newest_;
    if (entries_.size() < kMost) [[unlikely]] {
      entries_.emplace_back() = pending;
    } else {
      entry_of(time) = pending;
    }
    return time;
  }
  const UseSet& at(FreeTime time) const {
    THERMOCLINE_CHECK(time <= newest_, "A free time was given by add.");
    return time <= joined_ ? older_ : entries_[place_of(time)];
  }

 private:
  static std::size_t place_of(FreeTime time) { return (time - 1) % kMost; }
  UseSet& entry_of(FreeTime time) { return entries_.data()[place_of(time)]; }
  void join_older_half() {
    for (const FreeTime end = joined_ + kMost / 2; joined_ < end;) older_.join(entry_of(++joined_));
  }

  UseSet older_;  // union for all times up to joined_
  FreeTime joined_ = 0, newest_ = 0;
  std::vector<UseSet> entries_;  // a ring: of a time after joined_, at its place
};

}  // namespace thermocline
