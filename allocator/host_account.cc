// SPDX-License-Identifier: Apache-2.0
#include "allocator/host_account.h"

#include <algorithm>

#include "allocator/host_ledger.h"
#include "driver/check.h"

namespace thermocline {

bool HostAccount::change(Bytes from, Bytes to) {
  Bytes held = held_.load(std::memory_order_relaxed);
  for (;;) {
    THERMOCLINE_CHECK(from <= held, "What a holder has is a part of what the process has.");
    const Bytes others = held - from;
    if (to > from && (others > limit_ || to > limit_ - others)) return false;
    if (held_.compare_exchange_weak(held, others + to, std::memory_order_relaxed)) return true;
  }
}

Bytes HostAccount::left_for(Bytes own) const {
  const Bytes now = held(), others = now - std::min(now, own);
  return limit_ - std::min(limit_, others);
}

bool SharedHostLimits::change(Bytes from, Bytes to) const {
  if (of_devices != nullptr && !of_devices->change(from, to)) return false;
  if (of_processes == nullptr || of_processes->change(from, to)) return true;
  // The ledger refuses increases alone, and the account grants what takes one back.
  if (of_devices != nullptr) static_cast<void>(of_devices->change(to, from));
  return false;
}

}  // namespace thermocline
