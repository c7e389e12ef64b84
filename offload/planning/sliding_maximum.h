// SPDX-License-Identifier: Apache-2.0
// The highest of the last values of a row that grows: of any number of them up to the window's, in O(log window).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace thermocline {

template <typename Value>
class SlidingMaximum {
 public:
  explicit SlidingMaximum(std::size_t window) : window_(window) {}

  // `ordinal`: one more than that of the value before.
  void add(std::uint64_t ordinal, Value value) {
    newest_ = ordinal;
    while (!peaks_.empty() && peaks_.back().second <= value) peaks_.pop_back();
    peaks_.emplace_back(ordinal, value);
    while (peaks_.front().first + window_ <= ordinal) peaks_.pop_front();
  }
  void clear() { peaks_.clear(); }

  // Of the whole window. Both: at least one has been added.
  Value highest() const { return peaks_.front().second; }
  // `count`: from 1 to the window's.
  Value highest_of_last(std::size_t count) const {
    // Peaks fall: the first one that is not too old is the highest.
    const auto old = [](const Peak& peak, std::uint64_t limit) { return peak.first < limit; };
    return std::lower_bound(peaks_.begin(), peaks_.end(), newest_ + 1 - std::min<std::uint64_t>(count, newest_), old)
        ->second;
  }

 private:
  using Peak = std::pair<std::uint64_t, Value>;
  std::size_t window_;
  std::uint64_t newest_ = 0;
  std::deque<Peak> peaks_;  // of the window: falling; the first is the highest
};

}  // namespace thermocline
