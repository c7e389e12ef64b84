// SPDX-License-Identifier: Apache-2.0
// The control groups (cgroups) that may limit this process's memory.
#pragma once

#include <string>
#include <vector>

#include "driver/units.h"

namespace thermocline {

struct MemoryGroup {
  enum class Version { kFirst, kSecond };
  std::string folder;  // may not exist
  Version version;

  // Its limit: of version 2 memory.max, of version 1 memory.limit_in_bytes. If there is none, the first is no number,
  // and the second a large one.
  std::string limit_file() const;
};

// The process's groups and all their parents, of version 1 and 2; a machine may mount both. `groups`:
// /proc/self/cgroup; `mount`: the root of the cgroup file systems. In a container the path may be the host's while the
// mount begins at the container's own group: then the files of some folders do not exist, and are to be skipped.
std::vector<MemoryGroup> memory_groups(const std::string& groups, const std::string& mount);

}  // namespace thermocline
