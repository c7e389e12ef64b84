// SPDX-License-Identifier: Apache-2.0
// What `run --stats` ends with, in three forms, and what several engines of one process come to, one after the other,
// and one beside the other.
#pragma once

#include <optional>
#include <string>

#include "offload/engine/engine.h"

namespace thermocline {

// Counts add up, peaks are the larger ones, and what is held now is what `later` holds.
EngineStatistics merge(const EngineStatistics& earlier, const EngineStatistics& later);
// Of engines of several devices: budgets, counts, and what is held add up; so do peaks, which are each device's own and
// need not be of one moment. What is of the process as a whole, and what is the largest of something, does not.
EngineStatistics add(const EngineStatistics& one, const EngineStatistics& other);
// A fault of the first that has one.
AuditStatistics add(const AuditStatistics& one, const AuditStatistics& other);

// Of an engine that is being taken down: what it held is given back.
EngineStatistics ended(const EngineStatistics& last);
// Peaks become what is so now.
void forget_peaks(EngineStatistics* statistics);

// key=value pairs, without "thermocline: " and the end of the line.
std::string statistics_line(const EngineStatistics& statistics);
// The same as one JSON object on a line, with its end.
std::string statistics_json(const EngineStatistics& statistics, int process, std::optional<int> rank);
// For people: some lines, the first with "thermocline: ". `of`: whose they are; `budget_origin`: what the budget is a
// part of, or "".
std::string statistics_table(const EngineStatistics& statistics, const std::string& of,
                             const std::string& budget_origin);

}  // namespace thermocline
