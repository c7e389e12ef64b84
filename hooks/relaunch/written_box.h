// SPDX-License-Identifier: Apache-2.0
// The memory that a launch writes through one word of its parameters, computed from the forms of the addresses.
#pragma once

#include <cstdint>
#include <vector>

#include "hooks/relaunch/ptx_guards.h"
#include "hooks/relaunch/uniform.h"

namespace thermocline {

// Each thread stores (or loads) `bytes` contiguous bytes, in each iteration of a loop, if the guards hold.
struct StoredPlaces {
  int word = -1;
  int loop = -1;  // the loop that the address depends on; -1: none
  LinearForm begin;
  std::int64_t bytes = 0;
  std::vector<LinearForm> widened;
  PtxGuards::Set guards;
};

// Finds the number of bytes, from the beginning on, that are written, each by exactly one thread in one iteration, and
// no others are. False: there is no such number, or it is not known.
bool find_written(const StoredPlaces& places, const PtxGuards& guards, const Uniform& uniform, std::uint64_t* written);
// Where the addresses lie: none before the address that the pointer has, or some.
enum class PlacesReach : std::uint8_t { kUnknown, kFromBegin, kBefore };
PlacesReach reach_of(const StoredPlaces& places, const PtxGuards& guards, const Uniform& uniform);

}  // namespace thermocline
