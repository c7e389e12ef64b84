// SPDX-License-Identifier: Apache-2.0
// The size of the largest block allocated lately, for policies that leave room for the next one. The engine keeps it
// and does not tell policies by a virtual call, because there are many allocations that no policy cares about.
#pragma once

#include <cstdint>

#include "driver/units.h"

namespace thermocline {

class RecentAllocations {
 public:
  void add(Bytes block_bytes) {
    if (block_bytes >= largest_ || ++since_largest_ > kRecent) {
      largest_ = block_bytes;
      since_largest_ = 0;
    }
  }
  Bytes largest() const { return largest_; }

 private:
  static constexpr std::uint32_t kRecent = 64;

  Bytes largest_ = 0;
  std::uint32_t since_largest_ = 0;
};

}  // namespace thermocline
