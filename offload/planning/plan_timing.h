// SPDX-License-Identifier: Apache-2.0
// Simulates how long an iteration takes under a plan: the profile's operations in order on one compute engine; copies
// on one engine per direction; memory is reused only when its last use or its copy out has completed, by the operation
// that needs it first in program order (as Residency does).
#pragma once

#include <vector>

#include "offload/planning/planner.h"

namespace thermocline {

struct PlanTiming {
  bool runs = false;           // false: some allocation never gets memory
  double iteration_ns = 0;     // of the last of several simulated iterations
  std::vector<double> starts;  // start times of the operations in that iteration, from its beginning
};

PlanTiming time_plan(const Profile& profile, const Plan& plan, Bytes limit, const Link& link);

}  // namespace thermocline
