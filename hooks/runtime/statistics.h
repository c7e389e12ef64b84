// SPDX-License-Identifier: Apache-2.0
// The output of `run --stats` in its three forms, and combining the statistics of several engines: one after the other,
// and side by side.
#pragma once

#include <optional>
#include <string>

#include "offload/engine/engine.h"

namespace thermocline {

// Counts are added, peaks are the maximum, and current values are those of `later`.
EngineStatistics merge(const EngineStatistics& earlier, const EngineStatistics& later);
// For engines of several devices: adds budgets, counts, current values, and peaks, although these need not be of one
// moment. Values of the process as a whole, and maxima, are not added.
EngineStatistics add(const EngineStatistics& one, const EngineStatistics& other);
// The fault of the first argument that has one.
AuditStatistics add(const AuditStatistics& one, const AuditStatistics& other);

// For an engine that is being destroyed: its current values become 0.
EngineStatistics ended(const EngineStatistics& last);
// Sets peaks to the current values.
void forget_peaks(EngineStatistics* statistics);

// key=value pairs, without "thermocline: " and the line end.
std::string statistics_line(const EngineStatistics& statistics);
// The statistics as one JSON object on a line, with the line end. `more`: further members, "" or `"name": value, ...`.
std::string statistics_json(const EngineStatistics& statistics, int process, std::optional<int> rank,
                            const std::string& more = "");
// For people: some lines, the first beginning with "thermocline: ". `of`: whose statistics they are; `budget_origin`:
// what the budget is a part of, or "".
std::string statistics_table(const EngineStatistics& statistics, const std::string& of,
                             const std::string& budget_origin);

}  // namespace thermocline
