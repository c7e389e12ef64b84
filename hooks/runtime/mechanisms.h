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

// A capability that the library can do without but that `strict` requires; null: none is missing.
const char* missing_capability(const EngineOptions& options, const DeviceFacts& facts);
// What is not seen of the program's operations is not moved.
void limit_to_what_is_seen(EngineOptions* options);

}  // namespace thermocline
