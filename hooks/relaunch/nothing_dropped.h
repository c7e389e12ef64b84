// SPDX-License-Identifier: Apache-2.0
// Why nothing was dropped in a run with recompute = "auto": the first obstacle found.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"
#include "hooks/relaunch/kernel_verdicts.h"
#include "offload/recompute/obstacles.h"
#include "offload/statistics.h"

namespace thermocline {

struct NothingDropped {
  std::string word;      // docs/statistics.md lists them; "": something was dropped
  std::string sentence;  // without a full stop
};

// "policy" and so on: the setting that forbids all drops; "": none does.
NothingDropped forbidden_by(const Settings& settings);
// The same for the settings that the process has read, which enable recomputing.
const NothingDropped& forbidden_by_settings();
NothingDropped why_nothing_was_dropped(const EngineStatistics& statistics, const std::vector<KernelVerdict>& verdicts,
                                       const RecomputeObstacles& obstacles, const NothingDropped& forbidden);

// A line, with a line end; "": something was dropped.
std::string nothing_dropped_text(const NothingDropped& why);
// A member of a JSON object: `"nothing_dropped": {...}`, or null.
std::string nothing_dropped_json(const NothingDropped& why);

}  // namespace thermocline
