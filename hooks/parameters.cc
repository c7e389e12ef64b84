// SPDX-License-Identifier: Apache-2.0
#include "hooks/parameters.h"

namespace thermocline {

ExtraBlock read_extra(void* const* extra) {
  ExtraBlock block;
  if (extra == nullptr) return block;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      block.at = extra[1];
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      if (extra[1] != nullptr) block.bytes = *static_cast<const std::size_t*>(extra[1]);
    } else {
      break;
    }
  }
  return block;
}

}  // namespace thermocline
