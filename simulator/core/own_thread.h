// SPDX-License-Identifier: Apache-2.0
// For threads that the simulated device makes: the program's signals are for its own threads.
#pragma once

#include <pthread.h>

#include <csignal>

namespace simulator {

// Blocks signals in this thread, except for synchronous faults.
inline void leave_signals_to_the_program() {
  sigset_t all;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, fault);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace simulator
