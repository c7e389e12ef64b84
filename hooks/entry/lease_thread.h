// SPDX-License-Identifier: Apache-2.0
// A background thread that maintains the leases on shared devices (hooks/runtime/device_lease.h): it writes what the
// process uses to the ledger, takes memory that becomes free, and gives back memory that others need.
#pragma once

namespace thermocline {

// Called when an engine with a lease has begun; starts the thread once in the life of the process. If no thread can be
// created, the lease is only raised when the program asks, and nothing is given back.
void look_after_leases();

}  // namespace thermocline
