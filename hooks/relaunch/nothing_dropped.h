// SPDX-License-Identifier: Apache-2.0
// Why nothing was dropped in a run with recompute = "auto": the first thing that stood in the way.
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
  std::string sentence;  // without an end
};

// "policy" and so on: a setting with which nothing is ever dropped.
NothingDropped forbidden_by(const Settings& settings);
// Of the settings that the process has read, which say that it recomputes.
const NothingDropped& forbidden_by_settings();
NothingDropped why_nothing_was_dropped(const EngineStatistics& statistics, const std::vector<KernelVerdict>& verdicts,
                                       const RecomputeObstacles& obstacles, const NothingDropped& forbidden);

// A line, with its end; "": something was dropped.
std::string nothing_dropped_text(const NothingDropped& why);
// For a JSON object: `"nothing_dropped": {...}`, or null.
std::string nothing_dropped_json(const NothingDropped& why);

}  // namespace thermocline
