// SPDX-License-Identifier: Apache-2.0
// What dlsym and dlvsym say to a name that may be a driver function. The rule: what is found is what would be found
// without us, and where that is the driver's own function, our hook stands for it.
#pragma once

#include <cstdint>

namespace thermocline {

// Returned in two registers, as C would.
struct Answer {
  void* address;
  std::uintptr_t given;  // 0: the next dlsym is to answer
};

}  // namespace thermocline

// Called by the entry stubs. `version` is null for dlsym; `caller` is where the call returns to.
extern "C" thermocline::Answer thermocline_answer(void* handle, const char* name, const char* version,
                                                  const void* caller);
