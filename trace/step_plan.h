// SPDX-License-Identifier: Apache-2.0
// The joint plan (offload/recompute/joint_plan.h) of one recorded step, for an executor other than the engine: a
// framework that keeps, offloads or recomputes the values it saved for backward. The executor states in StepTerms what
// it is able to do. The plan states what it should do, in terms of the trace's buffers and operators.
//
// The step is the trace's last. Buffers that were alive before it or outlive it stay on the device, unless the terms
// say that they move. An operator's place is its index in the step.
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
  // By buffer of the trace: its contents may be evicted only after this place of the step. kStays: never.
  static constexpr std::uint32_t kStays = ~std::uint32_t{0};
  std::vector<std::uint32_t> held_until;
  // By buffer: the executor keeps old contents of it aside, so that recomputing need not account for it.
  std::vector<bool> is_aside;
  // By buffer: the operator that makes it allocates it, after everything that runs again before it.
  std::vector<bool> is_result;
  // By buffer: it is state, such as a parameter, its gradient or an optimizer's data. It is copied to the host and back
  // between uses, also across the end of the step, and never dropped.
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
  // Dropped after `last_use`, and recomputed before `next_use`; kNotRecomputed: its contents are not read again.
  std::uint32_t last_use = 0, next_use = kNotRecomputed;
};

struct PlannedOffload {
  std::uint32_t buffer = 0;  // of the trace
  // Copied out after `last_use`, and on the device again before `next_use`; the fetch may begin after `fetch_after`.
  std::uint32_t last_use = 0, next_use = 0, fetch_after = 0;
  bool is_fetched = true;
};

// A move of state. Places count reruns, too: StepPlan::rerun_before. The contents are evicted after `last_use`. The
// fetch may begin after `fetch_after` (in the next step if that is before `last_use`), and ends before `next_use`.
struct PlannedMove {
  std::uint32_t buffer = 0;  // of the trace
  std::uint32_t last_use = 0, next_use = 0, fetch_after = 0;
  bool is_fetched = true;  // false: it is not used again
};

// The memory that an operator alone needs: everything that stays, and all its operands.
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
  Bytes offloaded_bytes = 0;   // including state that moves
};

// The plan of the last step of `trace`, with at most `budget` bytes live at any place. The trace must have operators in
// its last step. `effort`: for joint plans. `schedules`: only these, whatever `kind`; null: all. Pure; takes up to
// seconds.
StepPlan plan_step(const Trace& trace, const DeviceRates& rates, Bytes budget, const StepTerms& terms,
                   StepPlanKind kind, PlanEffort effort = PlanEffort::kFull, const ScheduleSource* schedules = nullptr);
// Why these schedules give no plan for this step; empty: they give one.
std::string why_no_schedules(const Trace& trace, const DeviceRates& rates, const StepTerms& terms,
                             const ScheduleSource& schedules);

// No plan under these terms needs less memory.
LeastMemory least_memory(const Trace& trace, const StepTerms& terms);

}  // namespace thermocline
