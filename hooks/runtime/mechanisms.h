// SPDX-License-Identifier: Apache-2.0
// What becomes of an engine where the driver does not do what is assumed of it (driver/probes.h): each mechanism that
// fails is switched off, said once and counted.
#pragma once

#include "driver/probes.h"
#include "offload/options.h"

namespace thermocline {

// False: there can be no engine; `why`, a literal, says what is missing.
bool do_without(const Findings& findings, EngineOptions* options, const char** why);

}  // namespace thermocline
