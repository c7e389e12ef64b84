// SPDX-License-Identifier: Apache-2.0
// Measures how long whole iterations take on the device, with an event at the beginning of each.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "driver/driver.h"

namespace thermocline {

// Guarded by the engine's lock.
class IterationMeter {
 public:
  explicit IterationMeter(const Driver& driver) : driver_(driver) {}
  ~IterationMeter();
  IterationMeter(const IterationMeter&) = delete;
  IterationMeter& operator=(const IterationMeter&) = delete;

  // The next operation that is submitted begins an iteration and ends the previous one. `kind`: which kind of iteration
  // is measured.
  void begins(unsigned kind) { beginning_ = kind; }
  // An operation is about to be submitted to the stream, which must not be capturing.
  void submitting(StreamHandle stream);
  // Discards the current measurement: the iteration has been interrupted.
  void clear();

  struct Iteration {
    unsigned kind = 0;
    double ms = 0;
  };
  // The oldest finished measurement that has not been returned yet; never blocks.
  std::optional<Iteration> next();

 private:
  struct Begin {
    unsigned kind;
    EventHandle event;
  };

  const Driver& driver_;
  std::optional<unsigned> beginning_;
  std::deque<Begin> begins_;
  std::vector<EventHandle> spare_;
};

}  // namespace thermocline
