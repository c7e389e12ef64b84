// SPDX-License-Identifier: Apache-2.0
// The only file that takes the addresses of all hooks, so that code that needs only names does not have to link them.
#include "hooks/interpose/symbols.h"

namespace thermocline {

void* hook_of(int index) {
  switch (static_cast<Function>(index)) {
#define THERMOCLINE_X(symbol, ...) \
  case Function::symbol:           \
    return reinterpret_cast<void*>(&::symbol);
    THERMOCLINE_HOOKED_FUNCTIONS(THERMOCLINE_X)
#undef THERMOCLINE_X
    default:
      return nullptr;
  }
}

}  // namespace thermocline
