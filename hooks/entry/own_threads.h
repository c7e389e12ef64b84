// SPDX-License-Identifier: Apache-2.0
// Threads of the library that call the driver while the program is elsewhere, at the end of the process: they must not
// call it once it may have shut down.
#pragma once

#include <atomic>

namespace thermocline {

// Once this has returned true, the end of the process waits for a turn that has begun, for a second at most: a signal
// handler may end the process while the thread waits for something that the interrupted thread holds.
bool end_own_threads_with_process();

// True from when the process begins to end. Never destroyed.
const std::atomic<bool>& process_ends();

// One thread at a time calls the driver. Nobody else waits for the lock that this holds.
class OwnThreadTurn {
 public:
  OwnThreadTurn();
  ~OwnThreadTurn();
  OwnThreadTurn(const OwnThreadTurn&) = delete;
  OwnThreadTurn& operator=(const OwnThreadTurn&) = delete;
};

}  // namespace thermocline
