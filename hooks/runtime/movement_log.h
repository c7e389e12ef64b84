// SPDX-License-Identifier: Apache-2.0
// For log_level = "debug": one line for each eviction, copy out and fetch.
#pragma once

#include "offload/movement.h"

namespace thermocline {

// Null unless lines at that level are written. Lives as long as the process.
MovementObserver* movement_log();

}  // namespace thermocline
