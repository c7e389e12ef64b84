// SPDX-License-Identifier: Apache-2.0
// How the simulated device creates its threads.
#pragma once

#include <pthread.h>

#include <csignal>

namespace simulator {

// Calls `make`, which creates a thread, and returns its result. The program's signals are for its own threads: the new
// thread inherits a mask that blocks them from its beginning. Synchronous faults are not blocked.
template <typename Make>
auto with_signals_left_to_the_program(Make make) {
  struct Blocked {
    sigset_t before{};
    Blocked() {
      sigset_t all;
      sigfillset(&all);
      for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, fault);
      pthread_sigmask(SIG_BLOCK, &all, &before);
    }
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;
  };
  const Blocked blocked;
  return make();
}

}  // namespace simulator
