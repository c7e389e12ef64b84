// SPDX-License-Identifier: Apache-2.0
// Threads that the simulated device makes.
#pragma once

#include <pthread.h>

#include <csignal>

namespace simulator {

// Calls `make`, which makes a thread, and returns what it returns. The program's signals are for its own threads: they are
// blocked in the new one, which inherits that, from its beginning. Synchronous faults are not.
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
