// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>

#include "driver/units.h"

namespace thermocline {

// The least number of pages in a budget. A buffer that has pages to itself wastes half of one on average (buffers
// below half a page share pages), so an operation with four needs 1 % of the budget more.
inline constexpr Bytes kLeastPages = 256;
// From this size on, mapping costs next to nothing compared with copying.
inline constexpr Bytes kLargestPageBytes = 16 * kMiB;
// The upper limit of the setting: blocks are evicted in units of 32 MiB (residency/unit_size.h), of at least one page.
inline constexpr Bytes kLargestWantedBytes = 32 * kMiB;

// The size of an engine's pages. A driver call for a mapping takes equally long for any size: on an H200 30 us to give
// access and 20 us to unmap, for each of several mappings in one call, too. For pages of 2 MiB that is as long as
// copying them takes (bench/results/gpu-nvidia-h200.json). So pages are as large as the budget allows.
//
// `wanted`: the setting, 0 if not set; at most an eighth of the budget and 32 MiB. `granularity`: the device's; 2^n.
constexpr Bytes page_bytes_for(Bytes budget, Bytes wanted, Bytes granularity) {
  const Bytes chosen = wanted != 0 ? std::min({wanted, budget / 8, kLargestWantedBytes})
                                   : std::min(budget / kLeastPages, kLargestPageBytes);
  return std::max(granularity, std::bit_floor(chosen));
}

}  // namespace thermocline
