// SPDX-License-Identifier: Apache-2.0
// The amount of memory that a program is told when it asks, if that is not the budget (setting `advertise`).
// docs/advertise.md describes which programs this helps.
#pragma once

#include "config/settings.h"
#include "offload/engine/engine.h"

namespace thermocline {

struct MemoryTold {
  Bytes free_bytes = 0, total_bytes = 0;
};

// "Free" is what can still be allocated within the reported total: the program's buffers count whether they are
// resident or not.
MemoryTold told_memory(Advertise advertise, Bytes device_bytes, const EngineStatistics& now);

}  // namespace thermocline
