// SPDX-License-Identifier: Apache-2.0
// Fallbacks for mechanisms of the driver that failed their probe (driver/probes.h): each is logged, counted and not
// used.
#pragma once

#include "driver/probes.h"
#include "offload/options.h"

namespace thermocline {

// Logs and counts it, once in the life of the process. For what is found out later than at an engine's beginning.
void do_without(Mechanism mechanism);

// Returns false if no engine can work without what failed; `why`, a string literal, says what it is.
bool do_without(const Findings& findings, EngineOptions* options, const char** why);

// Whether the driver has cuFuncGetParamInfo (12.4).
bool driver_tells_parameters();

}  // namespace thermocline
