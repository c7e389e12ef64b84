// SPDX-License-Identifier: Apache-2.0
// Static page assignment: gives every page of addresses that is evicted and fetched in a repeated iteration a physical
// page, which it shares only with addresses that have pages at other times. This is register allocation with
// pages as registers: page owners are variables, their live ranges are known, and pages are colors (Chaitin, Register
// allocation and spilling via graph coloring, 1982). Live ranges wrap around with the iteration, and an owner may have
// several, so no greedy order is optimal. For most recorded steps the result needs no more pages than are in use at
// once; for the others, a few owners get no page.
//
// Which page is chosen matters too: an owner waits, on the device, for the page's former owner. So the iteration is
// first timed with every owner taking the pages that have been free longest, and each owner is assigned pages that are
// free by the time at which it got its pages there.
//
// A pure function; thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "offload/page_assignment/live_range_log.h"
#include "offload/page_assignment/live_range_timing.h"

namespace thermocline {

// A page of a page owner and its physical page, from one of its live ranges on.
struct AssignedPage {
  std::uint32_t page_owner = 0;
  std::uint32_t page = 0;  // index in the page owner
  std::uint32_t stay = 0;
  PageNumber physical = 0;
};

struct PageAssignment {
  std::vector<AssignedPage> assigned;
  std::uint32_t pages = 0;        // physical pages are numbered below this
  std::uint64_t owned_pages = 0;  // pages of page owners that are evicted and fetched
  std::uint64_t unassigned = 0;   // of these: pages without a physical page in some live range
  // Where some pages of addresses change their physical page: how often, in an iteration.
  std::uint64_t changing = 0;
  // Duration of an iteration if every owner takes any free page, and if each takes its assigned page.
  double anywhere_ns = 0, assigned_ns = 0;

  // An owner without an assigned page takes another owner's, which takes a third one's in turn, and each waits for the
  // page it takes. With 22 of 7,706 pages unassigned a recorded step (ResNet-50) took 16 % longer; with 22 of 17,916
  // another one (ResNet-1001, recomputed at 60 %) took 42 % less.
  bool is_nearly_complete() const { return owned_pages > 0 && unassigned * 500 <= owned_pages; }
  // False if the iteration becomes slower by more than 0.3 %. `measured_ns`: the measured duration of an iteration
  // without assignment (0: not known). It includes the driver calls, whose cost is in neither of the durations above;
  // an assignment that is expected to be clearly faster than that is worth a try.
  bool is_worth_it(double measured_ns = 0) const {
    return is_nearly_complete() && assigned_ns <= std::max(1.003 * anywhere_ns, 0.97 * measured_ns);
  }
};

// `loose`: number of free pages at the beginning of the iteration. Owners that are always resident get no assignment.
PageAssignment assign_pages(const LiveRangeHistory& history, std::uint32_t loose, PageCosts costs);

}  // namespace thermocline
