// SPDX-License-Identifier: Apache-2.0
// Device time per step, measured as a program would measure it: at each mark a timed event in every stream. A step ends
// when the last of its streams reaches the mark. The measurement makes no stream wait for another.
#pragma once

#include <cstddef>
#include <vector>

#include "driver/driver.h"
#include "driver/owned.h"
#include "driver/status.h"

namespace thermocline {

class StepClock {
 public:
  StepClock(const Driver& driver, std::vector<StreamHandle> streams) : driver_(driver), streams_(std::move(streams)) {}

  // The first mark is the beginning of the first step.
  Status mark();
  // Milliseconds between marks. Everything submitted must have completed.
  Status read(std::vector<double>* steps) const;

 private:
  const Driver& driver_;
  std::vector<StreamHandle> streams_;
  std::vector<std::vector<EventOwner>> marks_;  // [mark][stream]
};

}  // namespace thermocline
