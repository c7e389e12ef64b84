// SPDX-License-Identifier: Apache-2.0
// The forms of the driver's functions by name and version: what cuGetProcAddress chooses from.
#pragma once

namespace simulator::cuda {

struct EntryPoint {
  void* address = nullptr;
  bool is_known = false;  // some form has this name, if perhaps a newer one
};

// The newest form that is not newer than `version`; with `per_thread`, one whose stream 0 is the calling thread's where
// there is one.
EntryPoint find_entry_point(const char* name, int version, bool per_thread);

}  // namespace simulator::cuda
