// SPDX-License-Identifier: Apache-2.0
// The limit of host memory that holds for all devices of the process together.
#pragma once

#include "offload/options.h"

namespace thermocline {

// For a new engine; the caller holds the runtime's lock. Nothing without a limit.
void share_host_limit_of_devices(EngineOptions* options);

}  // namespace thermocline
