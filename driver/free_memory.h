// SPDX-License-Identifier: Apache-2.0
// How much memory the machine and the control groups of this process have left. The kernel ends a process that
// accesses more, or another one: it does not refuse.
#pragma once

#include <string>

#include "driver/units.h"

namespace thermocline {

// The least of what the machine has (MemAvailable) and of what each control group of version 1 or 2, and each of their
// parents, allows. What is not known counts as without bound. `root` stands for "/".
Bytes free_host_bytes(const std::string& root = "");

}  // namespace thermocline
