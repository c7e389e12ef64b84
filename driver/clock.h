// SPDX-License-Identifier: Apache-2.0
// Time, as a thing that is handed in: what decides never asks the machine itself.
#pragma once

#include <chrono>

namespace thermocline {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic; the origin has no meaning.
  virtual std::chrono::nanoseconds now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  std::chrono::nanoseconds now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

}  // namespace thermocline
