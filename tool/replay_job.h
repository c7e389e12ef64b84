// SPDX-License-Identifier: Apache-2.0
// A replay that a user asked the command for: its flags and files, checked; and its results, with the budget and with
// unlimited memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/settings.h"
#include "simulator/profile.h"
#include "tool/alternatives.h"
#include "tool/plan_policies.h"
#include "tool/replay_options.h"
#include "tool/splits.h"
#include "tool/values.h"
#include "trace/replay.h"

namespace thermocline {

struct ReplayFlags : RecomputeFlags {
  std::string trace, device = "reference", alternatives = kRecordedAlternatives, split = kNoSplits;
  std::optional<std::string> budget, policy, safety, host_fallback, config, timeline;
  std::optional<std::size_t> steps;
  std::optional<std::uint32_t> streams;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> compare;
  bool digests = false, json = false, check = true, bound = true, joint_bound = false;
};

// Null: the policy is not one that exists only for replays and plans.
inline const PlanPolicy* plan_policy_of(const ReplayFlags& flags) {
  return find_plan_policy(flags.policy.value_or(""));
}

// Everything that a replay needs, once flags and files have been checked.
struct ReplayJob {
  const simulator::Profile* profile = nullptr;
  Settings settings;
  std::optional<Budget> budget;
  std::string simulator;
  Alternatives alternatives;
  Trace trace;
  bool steps_repeat = true;
  std::string why_no_plan;  // "": the policy has one for this trace
  StepProgram program;
  // With --split: the operators that needed more than the budget, and the trace and program before the split.
  std::vector<SplitOperator> too_large;
  Trace whole;
  StepProgram whole_program;
  bool is_split() const { return !whole.operators.empty(); }
  const Trace& unsplit() const { return is_split() ? whole : trace; }
  Bytes budget_bytes = 0;

  Bytes peak_bytes() const { return alternatives.recorded().peak_live_bytes; }
};

struct ReplayFindings {
  ReplayResult with_budget;
  ReplayResult unlimited;
  // None if there is no schedule, steps differ, or there are several streams; the joint bound also if it was not
  // requested.
  std::optional<double> bound_ms, joint_bound_ms;
  std::optional<Bytes> suffices;  // if memory ran out: a budget in which it does not
};

// Runs one replay, and once more with unlimited memory. Returns an exit status, with an error message unless it is
// kDone. If only the policy has no plan (ReplayJob::why_no_plan), the caller prints the message.
int replay_once(const ReplayFlags& flags, ReplayJob* job, ReplayFindings* outcome);
// Checks what must hold for every budget. Prints errors of the library; returns false then, and if memory ran
// out.
bool replay_holds(const ReplayFlags& flags, const ReplayFindings& outcome);

SteadySteps steady_steps(const ReplayJob& job, const ReplayFindings& outcome);
bool is_complete(const ReplayFindings& outcome);
std::string budget_text(const ReplayJob& job);

}  // namespace thermocline
