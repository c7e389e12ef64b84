// SPDX-License-Identifier: Apache-2.0
#include "config/control_group.h"

#include <algorithm>
#include <fstream>

#include "driver/control_groups.h"

namespace thermocline {
namespace {

// If there is no limit, version 1 reports the largest number of whole pages, and version 2 "max", which is no number.
constexpr Bytes kNoLimit = Bytes{1} << 62;

}  // namespace

Bytes control_group_limit(const std::string& groups, const std::string& mount) {
  Bytes least = 0;
  for (const MemoryGroup& group : memory_groups(groups, mount)) {
    Bytes limit = 0;
    if (std::ifstream file(group.limit_file()); file >> limit && limit != 0 && limit < kNoLimit)
      least = least == 0 ? limit : std::min(least, limit);
  }
  return least;
}

}  // namespace thermocline
