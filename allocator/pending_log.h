// SPDX-License-Identifier: Apache-2.0
// Who may still use freed pages, by the time when they were freed. Free chunks merge, and a merged chunk knows only the
// union of what is pending on its parts; page by page this log knows it exactly, so that what was freed long ago can be
// taken from beside what was freed just now.
//
// Bounded: of more than kMost entries the older half becomes one, which is the union of their uses, a safe answer for
// each of them. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>

#include "allocator/use_set.h"
#include "driver/check.h"

namespace thermocline {

// When pages were freed: counts the calls that freed any. 0: never.
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

  UseSet older_;  // of all times up to joined_
  FreeTime joined_ = 0;
  std::deque<UseSet> entries_;
};

}  // namespace thermocline
