// SPDX-License-Identifier: Apache-2.0
// Handles mechanisms of the driver that failed their probe (driver/probes.h): each failure is logged and counted, and
// the mechanism is not used.
#pragma once

#include "driver/probes.h"
#include "offload/options.h"

namespace thermocline {

// Logs and counts it, once in the life of the process. For failures found after an engine has begun.
void do_without(Mechanism mechanism);

// Returns false if no engine can work without a failed mechanism; `why`, a string literal, names it.
bool do_without(const Findings& findings, EngineOptions* options, const char** why);

// A capability that the library can do without but that `strict` requires; null: none is missing.
const char* missing_capability(const EngineOptions& options, const DeviceFacts& facts);
// Restricts the engine to moving memory whose accesses are all seen.
void limit_to_what_is_seen(EngineOptions* options);

}  // namespace thermocline
