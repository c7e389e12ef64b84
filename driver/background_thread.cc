// SPDX-License-Identifier: Apache-2.0
#include "driver/background_thread.h"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <utility>

namespace thermocline {
namespace {

// Blocks all signals: a thread inherits its creator's mask, and none of the program's signal handlers should run on a
// thread that the program does not know.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    blocked_ = pthread_sigmask(SIG_SETMASK, &all, &before_) == 0;
  }
  ~SignalsBlocked() {
    if (blocked_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
  bool blocked_ = false;
};

}  // namespace

std::thread try_in_background(std::function<void()> work) {
  try {
    const SignalsBlocked blocked;
    return std::thread(std::move(work));
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace thermocline
