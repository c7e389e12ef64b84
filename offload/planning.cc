// SPDX-License-Identifier: Apache-2.0
#include "offload/planning.h"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <utility>

#include "driver/check.h"

namespace thermocline {
namespace {

// A thread inherits its creator's mask: none of the program's signal handlers is to run on a thread that it does not
// know.
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

Planning::~Planning() { wait(); }

void Planning::wait() {
  if (thread_.joinable()) thread_.join();
}

void Planning::start(const Profile& profile, Bytes limit, Link link) {
  wait();
  begun_ = true;
  plan_ = {};
  const auto work = [this, &profile, limit, link] {
    // No plan is an answer, too.
    try {
      plan_ = plan_iteration(profile, limit, link);
    } catch (...) {
      plan_ = {};
    }
  };
  try {
    const SignalsBlocked blocked;
    thread_ = std::thread(work);
  } catch (const std::system_error&) {
    work();
  }
}

Plan Planning::take() {
  THERMOCLINE_CHECK(begun_, "A plan is taken once, after it was begun.");
  wait();
  begun_ = false;
  return std::exchange(plan_, {});
}

}  // namespace thermocline
