// SPDX-License-Identifier: Apache-2.0
// Who may use how much of a device that several processes share: pure functions of what each of them has written down.
// Each process calls them and changes only its own lease, so nobody has to be obeyed, and one that is stopped only keeps
// what it has.
//
// - A sharer's minimum is its own at any time, used or not: leases and unused minimums together never exceed the device.
// - What is left goes to the active, by their weights, as far as they have use for it; then to the idle.
// - With the same input nothing is given back that would be taken again: leases only move towards the targets, which do
//   not depend on leases. Something is given back only where one that is active lacks it, and by more than a small part of
//   the device.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "driver/units.h"

namespace thermocline {

struct Sharer {
  Bytes minimum = 0;
  unsigned weight = 1;
  Bytes demand = 0;  // what it would use if it had it
  Bytes lease = 0;   // what it may use now
  bool is_active = false;
};

// What of a device a process leaves to the driver: its context, code that is loaded later, streams.
Bytes reserve_of_process(Bytes device_bytes);

// Of a minimum that a process wishes for, what the minimums of those before it leave.
Bytes admitted_minimum(Bytes capacity, std::span<const Sharer> others, Bytes wished);

// What each should come to have. Their sum is no more than `capacity` where that of the minimums is not.
std::vector<Bytes> lease_targets(Bytes capacity, std::span<const Sharer> sharers);

// What the lease of one of them should be now. A larger one than before fits beside the others' leases and minimums.
Bytes next_lease(Bytes capacity, std::span<const Sharer> sharers, std::size_t self);

// The share of one of them if all had use for everything.
Bytes fair_share(Bytes capacity, std::span<const Sharer> sharers, std::size_t self);

// What the minimums of the others leave: no lease becomes larger.
Bytes largest_lease(Bytes capacity, std::span<const Sharer> sharers, std::size_t self);

// Nobody gives back less than the device's memory divided by this.
inline constexpr Bytes kLeastMovedDivisor = 64;

}  // namespace thermocline
