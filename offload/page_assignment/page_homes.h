// SPDX-License-Identifier: Apache-2.0
// Gives every page of addresses that comes and goes in a repeated iteration a page of memory of its own, which it
// shares only with those that have pages at other times. This is register allocation, with pages for registers: page
// owners are variables, their stays are live ranges, and pages are colours (Chaitin, Register allocation and spilling
// via graph coloring, 1982). Stays go round with the iteration and a page owner may have several, so no order of
// choosing is optimal. The recorded steps need no more pages than are in use at once in most cases; where they do, a
// few find none.
//
// Which page matters, too: who comes waits, on the device, for who has left. So the iteration is timed first, as it
// goes when everybody takes what was left longest ago, and each page owner gets pages that are free by the time when it
// came.
//
// A pure function; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/page_assignment/live_range_log.h"
#include "offload/page_assignment/live_range_timing.h"

namespace thermocline {

// A page of a page owner, from one of its stays on.
struct PageHome {
  std::uint32_t page_owner = 0;
  std::uint32_t page = 0;  // of the page owner
  std::uint32_t stay = 0;
  PageNumber home = 0;
};

struct PageHomes {
  std::vector<PageHome> homes;
  std::uint32_t pages = 0;        // their homes are below that
  std::uint64_t page_owners = 0;  // pages of page owners that come and go
  std::uint64_t unassigned = 0;   // of these, without a home for some of their stays
  // An iteration, where everybody takes any page, and at home.
  double anywhere_ns = 0, assigned_ns = 0;

  // Slower by more than three in a thousand, and the time lost weighs more than the calls that are saved. Who finds no
  // home takes another's, who takes a third one's in turn, and each waits for what it takes: with 22 of 7,706 without
  // one a recorded step (ResNet-50) took 16 % longer, with 22 of 17,916 another (ResNet-1001, recomputed at 60 %) 42 %
  // less.
  bool is_worth_it() const {
    return page_owners > 0 && unassigned * 500 <= page_owners && assigned_ns <= 1.003 * anywhere_ns;
  }
};

// `loose`: how many pages are nobody's where the iteration begins. PageOwners that always stay have no homes.
PageHomes assign_homes(const LiveRangeHistory& history, std::uint32_t loose, PageCosts costs);

}  // namespace thermocline
