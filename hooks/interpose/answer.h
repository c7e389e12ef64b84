// SPDX-License-Identifier: Apache-2.0
// The results of dlsym and dlvsym for names that may be driver functions. The rule: the result is what would be found
// without this library; if that is the driver's own function, its hook is returned instead.
#pragma once

#include <cstdint>

namespace thermocline {

// Returned in two registers, as a C structure is.
struct Answer {
  void* address;
  std::uintptr_t given;  // 0: the real dlsym decides
};

}  // namespace thermocline

// Called by the entry stubs. `version` is null for dlsym; `caller` is the return address of the call.
extern "C" thermocline::Answer thermocline_answer(void* handle, const char* name, const char* version,
                                                  const void* caller);
