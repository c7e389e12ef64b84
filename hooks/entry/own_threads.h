// SPDX-License-Identifier: Apache-2.0
// Threads of the library that call the driver independently of the program, and the end of the process: they must not
// call the driver once it may have shut down.
#pragma once

#include <atomic>

namespace thermocline {

// If this returns true, the end of the process waits for a turn in progress, but for at most a second: a signal handler
// may end the process while that thread waits for something that the interrupted thread holds.
bool end_own_threads_with_process();

// True from the time when the process begins to end. Never destroyed.
const std::atomic<bool>& process_ends();

// Only one thread at a time calls the driver. No other code waits for the lock that this holds.
class OwnThreadTurn {
 public:
  OwnThreadTurn();
  ~OwnThreadTurn();
  OwnThreadTurn(const OwnThreadTurn&) = delete;
  OwnThreadTurn& operator=(const OwnThreadTurn&) = delete;
};

}  // namespace thermocline
