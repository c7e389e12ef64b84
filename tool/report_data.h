// SPDX-License-Identifier: Apache-2.0
// The data of the report's page (tool/report/), as one JSON object for each run. Times are whole tenths of microseconds
// from the beginning of the shown steps, in lanes as differences to the previous one; tables are represented by arrays
// of equal length.
#pragma once

#include <optional>
#include <string>

#include "tool/timeline_replay.h"

namespace thermocline {

struct ReportedRun {
  TimelineReplay replayed;
  std::size_t shown_steps = 2;  // number of last steps that are shown
  double step_ms = 0, compute_ms = 0;
  std::optional<double> bound_ms;
};

std::string report_json(const ReportedRun& run);

}  // namespace thermocline
