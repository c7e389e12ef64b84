// SPDX-License-Identifier: Apache-2.0
// The order in which units are evicted. Without a VictimOrder: least recently accessed first.
#pragma once

#include <span>

#include "offload/residency/block_state.h"

namespace thermocline {

class VictimOrder {
 public:
  virtual ~VictimOrder() = default;
  // Sorts `candidates`, all of which may be evicted: the first is evicted first. They come in order of last access,
  // oldest first, and are either all clean (no copy needed) or all dirty. Must not change any unit.
  virtual void sort(std::span<EvictionUnit*> candidates) = 0;
};

}  // namespace thermocline
