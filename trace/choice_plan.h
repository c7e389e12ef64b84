// SPDX-License-Identifier: Apache-2.0
// Chooses alternatives of a trace's operators (trace/choices.h) for a device and a budget. Starting from the fastest,
// it first changes those that save most bytes where memory is short for each second that they add (choice_costs.h). It
// finds the number of changes by planning the step with several numbers of them (step_plan.h) and comparing the planned
// times; then it changes single choices. The recorded selection is among the candidates.
#pragma once

#include <cstddef>
#include <optional>

#include "trace/read.h"
#include "trace/step_plan.h"

namespace thermocline {

struct ChoicePlan {
  ChoiceSelection selection;
  bool fits = false;        // false: no selection has a plan; this one needs least memory
  double step_ms = 0;       // as planned, if it fits
  std::size_t planned = 0;  // selections that were planned
};

// `plans`: which plans are possible; none: nothing can leave the device. Pure; takes up to seconds.
ChoicePlan choose_alternatives(const TraceFamily& family, const DeviceRates& rates, Bytes budget,
                               std::optional<StepPlanKind> plans);

// The planned result of one selection.
struct PlannedSelection {
  bool fits = false;
  double step_ms = 0;     // if it fits
  Bytes least_bytes = 0;  // the least bytes that any plan needs
  // Planned times beyond a tenth of a percent of each other are different.
  bool is_better_than(const PlannedSelection& other) const;
};
PlannedSelection plan_selection(const TraceFamily& family, const ChoiceSelection& selection, const DeviceRates& rates,
                                Bytes budget, std::optional<StepPlanKind> plans, PlanEffort effort);

}  // namespace thermocline
