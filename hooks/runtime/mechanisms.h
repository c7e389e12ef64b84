// SPDX-License-Identifier: Apache-2.0
// Fallbacks for mechanisms of the driver that failed their probe (driver/probes.h): each is logged, counted and not
// used.
#pragma once

#include "driver/probes.h"
#include "offload/options.h"

namespace thermocline {

// Returns false if no engine can work without what failed; `why`, a string literal, says what it is.
bool do_without(const Findings& findings, EngineOptions* options, const char** why);

}  // namespace thermocline
