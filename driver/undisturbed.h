// SPDX-License-Identifier: Apache-2.0
// While one lives, its thread is not cancelled (pthread_cancel): what has begun is finished, and the thread ends at the
// next point that is not ours. A thread that was unwound in the middle of a change would leave it half made; in a
// function that must not throw, the process would end.
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
