// SPDX-License-Identifier: Apache-2.0
#include "tool/plan_policies.h"

#include <algorithm>

#include "trace/comparison_policies.h"

namespace thermocline {
namespace {

std::vector<PlanPolicy> all_of_them() {
  std::vector<PlanPolicy> all = {
      {"joint", "copies and recomputing", Recompute::kAuto, RecomputePlans::kJoint, StepPlanKind::kJoint, nullptr},
      {"recompute", "without copies", Recompute::kAuto, RecomputePlans::kRecomputeOnly, StepPlanKind::kRecompute,
       nullptr},
      {"swap", "copies alone", Recompute::kOff, RecomputePlans::kJoint, StepPlanKind::kOffload, nullptr}};
  for (const ComparisonPolicy& one : comparison_policies()) {
    all.push_back({one.name, std::string(one.description), Recompute::kAuto, RecomputePlans::kRecomputeOnly,
                   StepPlanKind::kRecompute, one.source});
  }
  return all;
}

}  // namespace

std::span<const PlanPolicy> plan_policies() {
  static const std::vector<PlanPolicy> all = all_of_them();
  return all;
}

const PlanPolicy* find_plan_policy(std::string_view name) {
  const std::span<const PlanPolicy> all = plan_policies();
  const auto found = std::ranges::find(all, name, &PlanPolicy::name);
  return found == all.end() ? nullptr : &*found;
}

std::string plan_policy_names() {
  std::string names;
  for (const PlanPolicy& policy : plan_policies()) names.append(names.empty() ? "" : ", ").append(policy.name);
  return names;
}

std::string why_no_plan(const PlanPolicy& policy, const Trace& trace, const DeviceRates& rates,
                        const StepTerms& terms) {
  if (policy.schedules == nullptr || last_step_operators(trace) == 0) return "";
  return why_no_schedules(trace, rates, terms, *policy.schedules);
}

}  // namespace thermocline
