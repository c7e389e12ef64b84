// SPDX-License-Identifier: Apache-2.0
// State that a part of the hooks keeps for the whole process.
#pragma once

namespace thermocline {

// Made at its first use and never destroyed: programs call CUDA from destructors of their own static objects, and other
// threads go on while `exit` runs, so there is no moment at which the hooks are no longer called. Each T is a type of
// its user's alone; thread-safe as T is. The child of a fork finds what the parent had (see Runtime for what it
// resets).
template <class T>
T& process_lifetime() {
  static T* const only = new T;
  return *only;
}

}  // namespace thermocline
