// SPDX-License-Identifier: Apache-2.0
// The memory limit that control groups (cgroups) set for this process.
#pragma once

#include <string>

#include "driver/units.h"

namespace thermocline {

// The smallest limit of the process's groups and all their parents; 0 if there is none. Reads cgroups of version 1 and
// 2; a machine may mount both. `groups`: /proc/self/cgroup; `mount`: the root of the cgroup file systems.
Bytes control_group_limit(const std::string& groups = "/proc/self/cgroup", const std::string& mount = "/sys/fs/cgroup");

}  // namespace thermocline
