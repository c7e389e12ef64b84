// SPDX-License-Identifier: Apache-2.0
// The joint plan (offload/recompute/joint_plan.h) of one recorded step, for an executor that is not the engine: a
// framework that keeps, offloads or recomputes the values it saved for backward. The executor says by StepTerms what it
// is able to do; the plan says what it should do, by the buffers and operators of the trace.
//
// The step is the trace's last. What was alive before it or outlives it stays on the device, unless the terms say that
// it moves. An operator's place is its ordinal in the step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/options.h"
#include "offload/planning/planner.h"
#include "offload/recompute/schedule.h"
#include "trace/trace.h"

namespace thermocline {

struct StepTerms {
  // By buffer of the trace: its contents leave only after this place of the step. kStays: never.
  static constexpr std::uint32_t kStays = ~std::uint32_t{0};
  std::vector<std::uint32_t> held_until;
  // By buffer: the executor keeps old contents of it aside, so that recomputing need not account for it.
  std::vector<bool> is_aside;
  // By buffer: the operator that makes it allocates it, when all that runs again before that is done.
  std::vector<bool> is_result;
  // By buffer: state, such as a parameter, its gradient or what an optimizer keeps. Copied to the host and back between
  // uses, also across the end of the step, and never dropped.
  std::vector<bool> moves;
  // By place: the operator must not run again.
  std::vector<bool> runs_once;

  // Terms without restrictions, for a trace whose last step has this many operators.
  static StepTerms free_for(const Trace& trace, std::size_t operators);
};

// Number of operators of the last step.
std::size_t last_step_operators(const Trace& trace);

// Which plans are considered (RecomputePlans in offload/options.h); kOffload: copies alone.
enum class StepPlanKind { kJoint, kRecompute, kOffload };

struct PlannedDrop {
  static constexpr std::uint32_t kNotRecomputed = ~std::uint32_t{0};
  std::uint32_t buffer = 0;  // of the trace
  // Dropped after `last_use`, and its contents are there again before `next_use`; kNotRecomputed: nobody reads them.
  std::uint32_t last_use = 0, next_use = kNotRecomputed;
};

struct PlannedOffload {
  std::uint32_t buffer = 0;  // of the trace
  // Copied out after `last_use`, on the device again before `next_use`; the copy in may begin after `fetch_after`.
  std::uint32_t last_use = 0, next_use = 0, fetch_after = 0;
  bool is_fetched = true;
};

// Of a buffer that moves. Places count what runs again, too: StepPlan::rerun_before. The contents leave after `last_use`;
// the copy back may begin after `fetch_after`, in the next step if that is before `last_use`, and ends before `next_use`.
struct PlannedMove {
  std::uint32_t buffer = 0;  // of the trace
  std::uint32_t last_use = 0, next_use = 0, fetch_after = 0;
  bool is_fetched = true;  // false: it is not used again
};

// What an operator alone needs: everything that stays, and all its operands.
struct LeastMemory {
  Bytes bytes = 0;
  std::uint32_t place = 0;
};

struct StepPlan {
  bool fits = false;
  std::vector<PlannedDrop> drops;           // by `last_use`
  std::vector<PlannedOffload> offloads;     // by `last_use`
  std::vector<std::uint32_t> reruns;        // places of the operators that run again, in order, with repetitions
  std::vector<std::uint32_t> rerun_before;  // by index in reruns: the place of the operator that it runs before
  std::vector<PlannedMove> moves;           // by `last_use`
  double compute_ms = 0;                    // of the step's operators
  double step_ms = 0;                       // expected
  double recomputed_ms = 0;
  Bytes peak_bytes = 0;        // expected
  Bytes whole_peak_bytes = 0;  // with everything kept
  Bytes offloaded_bytes = 0;   // those that move are counted
};

// The plan of the last step of `trace`, with at most `budget` bytes live at any place. The trace must have operators in
// its last step. `effort`: for joint plans. `schedules`: only these, whatever `kind`; null: all. Pure; takes up to
// seconds.
StepPlan plan_step(const Trace& trace, const DeviceRates& rates, Bytes budget, const StepTerms& terms,
                   StepPlanKind kind, PlanEffort effort = PlanEffort::kFull, const ScheduleSource* schedules = nullptr);
// Why these schedules plan no step like this one; empty: they do.
std::string why_no_schedules(const Trace& trace, const DeviceRates& rates, const StepTerms& terms,
                             const ScheduleSource& schedules);

// No plan under these terms needs less.
LeastMemory least_memory(const Trace& trace, const StepTerms& terms);

}  // namespace thermocline
