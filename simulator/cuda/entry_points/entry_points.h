// SPDX-License-Identifier: Apache-2.0
// The forms of the driver's functions by name and version, from which cuGetProcAddress chooses.
#pragma once

namespace simulator::cuda {

struct EntryPoint {
  void* address = nullptr;
  bool is_known = false;  // a form with this name exists, but perhaps only a newer one
};

// The newest form that is not newer than `version`; with `per_thread`, the form whose stream 0 is the calling thread's,
// if there is one.
EntryPoint find_entry_point(const char* name, int version, bool per_thread);

}  // namespace simulator::cuda
