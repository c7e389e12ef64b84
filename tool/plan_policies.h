// SPDX-License-Identifier: Apache-2.0
// Policies that exist only for replays and plans: learned plans with copies alone, with recomputing alone, with both,
// or by a published policy (trace/comparison_policies.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "offload/options.h"
#include "trace/step_plan.h"

namespace thermocline {

struct PlanPolicy {
  std::string_view name;
  std::string description;  // for the help text
  Recompute recompute;
  RecomputePlans plans;
  StepPlanKind kind;
  const ScheduleSource* schedules;
};

std::span<const PlanPolicy> plan_policies();
// Null: there is none of this name.
const PlanPolicy* find_plan_policy(std::string_view name);
// "joint, recompute, ...".
std::string plan_policy_names();
// Why the policy makes no plan for the trace's last step; "": it makes one.
std::string why_no_plan(const PlanPolicy& policy, const Trace& trace, const DeviceRates& rates, const StepTerms& terms);

}  // namespace thermocline
