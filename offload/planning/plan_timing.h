// SPDX-License-Identifier: Apache-2.0
// Simulates how long an iteration takes under a plan: the profile's operations in order on one compute engine; copies
// on one engine per direction; memory is reused only when its last use or its copy out has completed, by the operation
// that needs it first in program order (as Residency does).
#pragma once

#include <memory>
#include <vector>

#include "offload/planning/planner.h"

namespace thermocline {

struct PlanTiming {
  bool runs = false;           // false: some allocation never gets memory
  double iteration_ns = 0;     // of the last of several simulated iterations
  std::vector<double> starts;  // start times of the operations in that iteration, from its beginning
};

// Times plans of one profile, one after the other; what they have in common is prepared once. Profile and link must
// outlive it. Used by one thread at a time.
class PlanTimer {
 public:
  PlanTimer(const Profile& profile, Bytes limit, const Link& link);
  ~PlanTimer();
  PlanTimer(const PlanTimer&) = delete;
  PlanTimer& operator=(const PlanTimer&) = delete;

  // The plan is indexed.
  PlanTiming time(const Plan& plan);

 private:
  class Simulation;
  std::unique_ptr<Simulation> simulation_;
};

}  // namespace thermocline
