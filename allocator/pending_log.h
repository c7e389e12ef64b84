// SPDX-License-Identifier: Apache-2.0
// Which submitted work may still use freed pages, by the time when they were freed. Free chunks merge, and a merged
// chunk has only the union of the pending uses of its parts. This log keeps the exact uses for each page, so that pages
// that were freed long ago can be reused even if they are merged with pages freed just now.
//
// Bounded: when there are more than kMost entries, the older half is replaced by the union of their uses, which is a
// safe answer for each of them. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>

#include "allocator/use_set.h"
#include "driver/check.h"

namespace thermocline {

// When pages were freed: a counter of the calls that freed any. 0: never.
using FreeTime = std::uint64_t;

class PendingLog {
 public:
  static constexpr std::size_t kMost = 4096;

  FreeTime add(const UseSet& pending) {
    if (entries_.size() == kMost) join_older_half();
    entries_.push_back(pending);
    return joined_ + entries_.size();
  }
  const UseSet& at(FreeTime time) const {
    THERMOCLINE_CHECK(time <= joined_ + entries_.size(), "A free time was given by add.");
    return time <= joined_ ? older_ : entries_[time - joined_ - 1];
  }

 private:
  void join_older_half() {
    for (std::size_t i = 0; i < kMost / 2; ++i) {
      older_.join(entries_.front());
      entries_.pop_front();
    }
    joined_ += kMost / 2;
  }

  UseSet older_;  // union for all times up to joined_
  FreeTime joined_ = 0;
  std::deque<UseSet> entries_;
};

}  // namespace thermocline
