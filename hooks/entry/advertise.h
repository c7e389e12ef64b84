// SPDX-License-Identifier: Apache-2.0
// What a program is told that asks how much memory there is, where that is not the budget (setting `advertise`).
// docs/advertise.md says whom it helps.
#pragma once

#include "config/settings.h"
#include "offload/engine/engine.h"

namespace thermocline {

struct MemoryTold {
  Bytes free_bytes = 0, total_bytes = 0;
};

// Free is what can still be allocated within what is told: the program's buffers count wherever they are.
MemoryTold told_memory(Advertise advertise, Bytes device_bytes, const EngineStatistics& now);

}  // namespace thermocline
