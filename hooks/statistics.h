// SPDX-License-Identifier: Apache-2.0
// The line that `run --stats` ends with, and the sum of what several engines of one process did, one after the other.
#pragma once

#include <string>

#include "offload/engine.h"

namespace thermocline {

// Counts add up, peaks are the larger ones, and what is held now is what `later` holds.
EngineStatistics merge(const EngineStatistics& earlier, const EngineStatistics& later);

// Of an engine that is being taken down: what it held is given back.
EngineStatistics ended(const EngineStatistics& last);
// Peaks become what is so now.
void forget_peaks(EngineStatistics* statistics);

// key=value pairs, without "thermocline: " and the end of the line.
std::string statistics_line(const EngineStatistics& statistics);

}  // namespace thermocline
