// SPDX-License-Identifier: Apache-2.0
// While an object of this class lives, its thread can not be cancelled (pthread_cancel); the cancellation takes effect
// at the next cancellation point outside the library. A thread that was unwound in the middle of a change would leave
// it half made, and unwinding through a noexcept function would end the process.
#pragma once

#include <pthread.h>

namespace thermocline {

class Undisturbed {
 public:
  Undisturbed() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Undisturbed() { pthread_setcancelstate(before_, nullptr); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace thermocline
