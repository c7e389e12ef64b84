// SPDX-License-Identifier: Apache-2.0
// When the stays of an iteration begin and end on the device: operators, and either direction of the link, each do one
// thing after another, and who comes waits for who has left. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/page_assignment/live_range_log.h"

namespace thermocline {

// What a page costs to move.
struct PageCosts {
  double out_ns = 0, in_ns = 0;
};

// In nanoseconds from the beginning of the iteration.
struct StayTimes {
  double wanted = 0;  // the pages are needed: the copy in could begin, or what writes there
  double free = 0;    // they are somebody else's: the copy out has ended, or what used them last
};

struct LiveRangeTimes {
  std::vector<std::vector<StayTimes>> stays;  // by page owner, by stay
  double iteration_ns = 0;
};

// Pages of memory, numbered from 0.
using PageNumber = std::uint32_t;

// By page owner, by stay: the pages that it gets, as far as that is known.
using StayPages = std::vector<std::vector<std::vector<PageNumber>>>;

// If everybody takes the pages that were left longest ago. `loose`: how many pages are nobody's where the iteration
// begins.
LiveRangeTimes time_live_ranges(const LiveRangeHistory& history, std::uint64_t loose, PageCosts costs);
// The iteration, if everybody takes these pages.
double time_with_pages(const LiveRangeHistory& history, const StayPages& pages, PageCosts costs);

}  // namespace thermocline
