// SPDX-License-Identifier: Apache-2.0
// A background thread that looks after the leases on shared devices (hooks/runtime/device_lease.h): it writes down what
// the process uses, takes what becomes free, and gives back what others need, whatever the program does meanwhile.
#pragma once

namespace thermocline {

// Called when an engine with a lease has begun; starts the thread once in the life of the process. Without a thread the
// lease is raised when the program asks, and nothing is given back.
void look_after_leases();

}  // namespace thermocline
