// SPDX-License-Identifier: Apache-2.0
// How the statistics of running processes look: for people (at most 80 columns), as JSON, and as Prometheus reads them.
#pragma once

#include <string>
#include <vector>

#include "telemetry/live_page.h"

namespace thermocline {

struct ProcessView {
  LiveStatistics now;
  bool answered = true;                    // false: this is the last copy, or there is none
  std::chrono::nanoseconds age{0};         // of a copy that is not an answer
  const LiveStatistics* before = nullptr;  // an earlier copy, for what happened per second; null: there is none
};

// Everything about one process.
std::string detailed(const ProcessView& process);
// A line for each.
std::string overview(const std::vector<ProcessView>& processes);
// One object on one line.
std::string as_json(const std::vector<ProcessView>& processes);
// The text exposition format (https://prometheus.io/docs/instrumenting/exposition_formats/).
std::string as_prometheus(const std::vector<ProcessView>& processes);

}  // namespace thermocline
