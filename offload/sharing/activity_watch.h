// SPDX-License-Identifier: Apache-2.0
// Decides when a process counts as idle for the processes that share its device. If it becomes active soon after it
// counted as idle, it has to rest longer the next time, so that its memory does not move back and forth.
//
// Reads no clock: the caller passes the time.
#pragma once

#include <cstdint>

namespace thermocline {

class ActivityWatch {
 public:
  static constexpr std::uint64_t kLeastRestNs = 100'000'000;
  static constexpr std::uint64_t kMostRests = 16;  // times the least
  static constexpr std::uint64_t kWorthIt = 4;     // a rest this many times longer than required was worth it

  // `activity`: a number that changes with each operation and allocation. `works`: some of its work may still be
  // running. Returns the time until which the process counts as active.
  std::uint64_t look(std::uint64_t now_ns, std::uint64_t activity, bool works) {
    if (activity == activity_ && !works && is_known_) return active_until_ns_;
    if (is_known_ && now_ns > active_until_ns_) {
      const std::uint64_t rest_ns = now_ns - active_until_ns_ + required_rest_ns_;
      const bool was_soon = rest_ns < kWorthIt * required_rest_ns_;
      if (!was_soon) {
        required_rest_ns_ = kLeastRestNs;
      } else if (required_rest_ns_ < kMostRests * kLeastRestNs) {
        required_rest_ns_ *= 2;
      }
    }
    is_known_ = true;
    activity_ = activity;
    active_until_ns_ = now_ns + required_rest_ns_;
    return active_until_ns_;
  }

 private:
  bool is_known_ = false;
  std::uint64_t activity_ = 0;
  std::uint64_t active_until_ns_ = 0;
  std::uint64_t required_rest_ns_ = kLeastRestNs;
};

}  // namespace thermocline
