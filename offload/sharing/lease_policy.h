// SPDX-License-Identifier: Apache-2.0
// Decides how much each process may use of a device that several processes share: pure functions of what the processes
// have written to the ledger. Each process calls them and changes only its own lease. So no process has to obey
// another, and a stopped process only keeps what it has.
//
// - A process always has its minimum, used or not: leases and unused minimums together never exceed the device.
// - The rest goes to active processes, by weight, as far as they can use it; then to idle ones.
// - With constant input nothing is given back that would be taken again: leases only move towards the targets, and the
//   targets do not depend on leases. Something is given back only if an active process lacks it, and only if it is more
//   than a small part of the device.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "driver/units.h"

namespace thermocline {

struct Sharer {
  Bytes minimum = 0;
  unsigned weight = 1;
  Bytes demand = 0;  // the bytes that it would use if it could
  Bytes lease = 0;   // the bytes that it may use now
  bool is_active = false;
};

// The part of a device that each process leaves to the driver: for its context, code that is loaded later, streams.
Bytes reserve_of_process(Bytes device_bytes);

// The part of the minimum that a process wishes for that the minimums of earlier processes allow.
Bytes admitted_minimum(Bytes capacity, std::span<const Sharer> others, Bytes wished);

// The lease that each should end up with. Their sum is at most `capacity`, unless the minimums alone are more.
std::vector<Bytes> lease_targets(Bytes capacity, std::span<const Sharer> sharers);

// The lease that process `self` should have now. If it grows, it fits beside the others' leases and minimums.
Bytes next_lease(Bytes capacity, std::span<const Sharer> sharers, std::size_t self);

// The share of process `self` if all processes could use everything.
Bytes fair_share(Bytes capacity, std::span<const Sharer> sharers, std::size_t self);

// The part that the minimums of the others leave: no lease becomes larger.
Bytes largest_lease(Bytes capacity, std::span<const Sharer> sharers, std::size_t self);

// A process gives back at least the device's memory divided by this, or nothing.
inline constexpr Bytes kLeastMovedDivisor = 64;

}  // namespace thermocline
