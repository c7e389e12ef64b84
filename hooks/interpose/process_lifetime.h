// SPDX-License-Identifier: Apache-2.0
// State that a part of the hooks keeps for the whole process.
#pragma once

namespace thermocline {

// Creates T at the first use and never destroys it: programs call CUDA from destructors of their own static
// objects, and other threads run while `exit` runs, so hooks may be called at any time. Each T must be a type used
// by one module only; thread-safe as T is. The child of a fork finds the parent's state (see Runtime for what it
// resets).
template <class T>
T& process_lifetime() {
  static T* const only = new T;
  return *only;
}

}  // namespace thermocline
