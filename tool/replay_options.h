// SPDX-License-Identifier: Apache-2.0
// Common to all commands that replay on a device profile: the flags for recomputing, and the replay's options.
#pragma once

#include <optional>
#include <string>

#include "config/settings.h"
#include "simulator/profile.h"
#include "trace/replay.h"
#include "trace/step_plan.h"

namespace CLI {  // NOLINT(readability-identifier-naming): theirs
class App;
}

namespace thermocline {

struct RecomputeFlags {
  bool exact = false;  // the library is told what each operator reads and writes
  std::optional<std::string> recompute;
};
// `about`: the help of --recompute.
void add_recompute_flags(CLI::App* command, RecomputeFlags* flags,
                         const char* about =
                             "off or auto: whether contents may be dropped and recomputed; with --exact "
                             "(default: the setting's)");
// False, after a message, if a value is wrong.
bool take_recompute_flag(const RecomputeFlags& flags, Settings* settings);

// `simulator`: the simulated device's library (places.h).
ReplayOptions replay_options(const Settings& settings, const simulator::Profile& profile, const std::string& simulator,
                             Bytes budget_bytes);

// The plans that the engine makes under these options; none: nothing leaves the device.
std::optional<StepPlanKind> possible_plans(const ReplayOptions& options);

// Whether contents may be dropped and recomputed under these settings. `exact`: the library is told what each operator
// reads and writes.
bool may_recompute(const Settings& settings, bool exact);

// Says on stderr if the settings enable recomputing but nothing will be recomputed.
void remark_on_recompute(const Settings& settings, bool exact);

// Options for a replay of the same steps with more memory than they can use, and without evictions.
ReplayOptions unlimited_options(const ReplayOptions& options, const Trace& trace);

}  // namespace thermocline
