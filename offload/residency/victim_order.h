// SPDX-License-Identifier: Apache-2.0
// Who is evicted first. Without a VictimOrder: what has been accessed longest ago.
#pragma once

#include <span>

#include "offload/residency/block_state.h"

namespace thermocline {

class VictimOrder {
 public:
  virtual ~VictimOrder() = default;
  // Sorts `candidates`, which all may be evicted: the first is evicted first. They come in order of last access, oldest
  // first, and are either all clean (no copy needed) or all dirty. Changes no unit.
  virtual void sort(std::span<EvictionUnit*> candidates) = 0;
};

}  // namespace thermocline
