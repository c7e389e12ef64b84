// SPDX-License-Identifier: Apache-2.0
// The options of a replay on a device profile that `replay` and `estimate` have in common.
#pragma once

#include <optional>
#include <string>

#include "config/settings.h"
#include "simulator/profile.h"
#include "trace/replay.h"
#include "trace/step_plan.h"

namespace thermocline {

// `simulator`: the simulated device's library (places.h).
ReplayOptions replay_options(const Settings& settings, const simulator::Profile& profile, const std::string& simulator,
                             Bytes budget_bytes);

// The plans that the engine makes under these options; none: nothing leaves the device.
std::optional<StepPlanKind> possible_plans(const ReplayOptions& options);

// Says on stderr where the settings ask for recomputing and nothing is recomputed. `exact`: the library is told what
// each operator reads and writes.
void remark_on_recompute(const Settings& settings, bool exact);

// Options for a replay of the same steps with more memory than they can use, and without evictions.
ReplayOptions unlimited_options(const ReplayOptions& options, const Trace& trace);

}  // namespace thermocline
