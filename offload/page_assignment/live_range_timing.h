// SPDX-License-Identifier: Apache-2.0
// Estimates when the live ranges of an iteration begin and end on the device. The compute engine, and each direction of
// the link, do one thing after another; an owner that gets pages waits for their former owner. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/page_assignment/live_range_log.h"

namespace thermocline {

// The time that moving a page takes.
struct PageCosts {
  double out_ns = 0, in_ns = 0;
};

// In nanoseconds from the beginning of the iteration.
struct StayTimes {
  double wanted = 0;  // the pages are needed: for the copy in, or for the operation that writes them
  double free = 0;    // the pages can be taken by others: after the copy out, or after the last use
};

struct LiveRangeTimes {
  std::vector<std::vector<StayTimes>> stays;  // by page owner, by live range
  double iteration_ns = 0;
};

// Physical pages, numbered from 0.
using PageNumber = std::uint32_t;

// By page owner, by live range: the pages that it gets, as far as they are known.
using StayPages = std::vector<std::vector<std::vector<PageNumber>>>;

// The times if every owner takes the pages that have been free longest. `loose`: number of free pages at the beginning
// of the iteration.
LiveRangeTimes time_live_ranges(const LiveRangeHistory& history, std::uint64_t loose, PageCosts costs);
// The duration of the iteration if every owner gets these pages.
double time_with_pages(const LiveRangeHistory& history, const StayPages& pages, PageCosts costs);

}  // namespace thermocline
