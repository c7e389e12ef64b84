// SPDX-License-Identifier: Apache-2.0
// What a launch writes through one word of its parameters, from the forms of the places.
#pragma once

#include <cstdint>
#include <vector>

#include "hooks/relaunch/ptx_guards.h"
#include "hooks/relaunch/uniform.h"

namespace thermocline {

// Each thread stores `bytes` in a row, each time around a loop, wherever the guards hold. Or it loads them.
struct StoredPlaces {
  int word = -1;
  int loop = -1;  // that the place depends on; -1: none
  LinearForm begin;
  std::int64_t bytes = 0;
  std::vector<LinearForm> widened;
  PtxGuards::Set guards;
};

// The number of bytes from the begin on that are written, each of them by one thread once for each time around the
// loop, and nothing else is. False: that is not so, or not known.
bool find_written(const StoredPlaces& places, const PtxGuards& guards, const Uniform& uniform, std::uint64_t* written);
// Where the places lie: none before where the pointer leads, or some.
enum class PlacesReach : std::uint8_t { kUnknown, kFromBegin, kBefore };
PlacesReach reach_of(const StoredPlaces& places, const PtxGuards& guards, const Uniform& uniform);

}  // namespace thermocline
