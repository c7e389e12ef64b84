// SPDX-License-Identifier: Apache-2.0
// The maximum of the last values of a growing sequence: of any number of them up to the size of the window, in O(log
// window).
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

  // `ordinal`: one more than that of the previous value.
  void add(std::uint64_t ordinal, Value value) {
    newest_ = ordinal;
    while (!peaks_.empty() && peaks_.back().second <= value) peaks_.pop_back();
    peaks_.emplace_back(ordinal, value);
    while (peaks_.front().first + window_ <= ordinal) peaks_.pop_front();
  }
  void clear() { peaks_.clear(); }

  // The maximum of the whole window. Both functions: at least one value must have been added.
  Value highest() const { return peaks_.front().second; }
  // `count`: from 1 to the size of the window.
  Value highest_of_last(std::size_t count) const {
    // Peaks decrease, so the first one that is recent enough is the highest.
    const auto old = [](const Peak& peak, std::uint64_t limit) { return peak.first < limit; };
    return std::lower_bound(peaks_.begin(), peaks_.end(), newest_ + 1 - std::min<std::uint64_t>(count, newest_), old)
        ->second;
  }

 private:
  using Peak = std::pair<std::uint64_t, Value>;
  std::size_t window_;
  std::uint64_t newest_ = 0;
  std::deque<Peak> peaks_;  // of the window, decreasing
};

}  // namespace thermocline
