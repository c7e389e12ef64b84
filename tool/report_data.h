// SPDX-License-Identifier: Apache-2.0
// What the report's page (tool/report/) draws, as one JSON object a run. Times are whole tenths of microseconds from
// the beginning of the shown steps, those of lanes as differences; arrays of equal length stand for tables.
#pragma once

#include <optional>
#include <string>

#include "tool/told.h"

namespace thermocline {

struct ReportedRun {
  Told told;
  std::size_t shown_steps = 2;  // the last ones
  double step_ms = 0, compute_ms = 0;
  std::optional<double> bound_ms;
};

std::string report_json(const ReportedRun& run);

}  // namespace thermocline
