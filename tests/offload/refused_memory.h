// SPDX-License-Identifier: Apache-2.0
// A malloc that refuses, of programs that are linked with --wrap=malloc (no_memory_test.cc).
#pragma once

#include <cstdint>
#include <utility>

namespace thermocline {

// In this thread: how many requests are granted before all others are refused; negative: all are granted.
inline thread_local std::int64_t granted = -1;
inline thread_local std::uint64_t refused = 0;

inline bool refuses() {
  if (granted < 0) return false;
  if (granted > 0) return --granted, false;
  return ++refused, true;
}

// Within it every request is granted.
class Granted {
 public:
  Granted() : before_(std::exchange(granted, -1)) {}
  ~Granted() { granted = before_; }

 private:
  std::int64_t before_;
};

}  // namespace thermocline
