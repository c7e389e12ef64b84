// SPDX-License-Identifier: Apache-2.0
// How long an iteration takes under a plan: the profile's operations in order on one compute engine, copies on one
// engine a direction, memory given away only when its last use or its copy out has passed, to whom asks first in
// program order (as Residency does).
#pragma once

#include <vector>

#include "offload/planning/planner.h"

namespace thermocline {

struct PlanTiming {
  bool runs = false;           // false: something never gets memory
  double iteration_ns = 0;     // of the last of several iterations
  std::vector<double> starts;  // of the operations in that iteration, from its begin
};

PlanTiming time_plan(const Profile& profile, const Plan& plan, Bytes limit, const Link& link);

}  // namespace thermocline
