// SPDX-License-Identifier: Apache-2.0
// Formats the statistics of running processes: as text (at most 80 columns), as JSON, and for Prometheus.
#pragma once

#include <string>
#include <vector>

#include "offload/sharing/lease_ledger.h"
#include "telemetry/live_page.h"

namespace thermocline {

struct ProcessView {
  LiveStatistics now;
  bool answered = true;                    // false: this is the last copy, or there is none
  std::chrono::nanoseconds age{0};         // age of a copy that is not a current answer
  const LiveStatistics* before = nullptr;  // an earlier copy, for rates per second; null: there is none
};

// Everything about one process.
std::string detailed(const ProcessView& process);
// One line for each process.
std::string overview(const std::vector<ProcessView>& processes);
// Which process holds how much of each shared device; `now_ns`: of CLOCK_MONOTONIC.
std::string shares(const std::vector<SharedDevice>& devices, std::uint64_t now_ns);
// One object on one line.
std::string as_json(const std::vector<ProcessView>& processes, const std::vector<SharedDevice>& devices = {},
                    std::uint64_t now_ns = 0);
// The text exposition format (https://prometheus.io/docs/instrumenting/exposition_formats/).
std::string as_prometheus(const std::vector<ProcessView>& processes);

}  // namespace thermocline
