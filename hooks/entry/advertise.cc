// SPDX-License-Identifier: Apache-2.0
#include "hooks/entry/advertise.h"

#include <algorithm>

namespace thermocline {

MemoryTold told_memory(Advertise advertise, Bytes device_bytes, const EngineStatistics& now) {
  MemoryTold told;
  told.total_bytes = now.budget_bytes;
  // Never reports less than the budget, which, if it is unlimited, is the whole device already.
  if (advertise == Advertise::kDevice) told.total_bytes = std::max(device_bytes, now.budget_bytes);
  if (advertise == Advertise::kBudgetAndHost) told.total_bytes += now.host_limit_bytes;
  const Bytes taken = now.block_bytes + now.external_bytes;
  told.free_bytes = taken < told.total_bytes ? told.total_bytes - taken : 0;
  return told;
}

}  // namespace thermocline
