// SPDX-License-Identifier: Apache-2.0
// The memory limit of the control groups that hold this process.
#pragma once

#include <string>

#include "driver/units.h"

namespace thermocline {

// The least of them, up to the root; 0 where there is none. Of both versions, which a machine may mount side by side.
// `groups`: /proc/self/cgroup; `mount`: where the groups are.
Bytes control_group_limit(const std::string& groups = "/proc/self/cgroup", const std::string& mount = "/sys/fs/cgroup");

}  // namespace thermocline
