// SPDX-License-Identifier: Apache-2.0
#include "tests/preload/programs/workload.h"

namespace program {

void Digest::add(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) value_ = (value_ ^ at[i]) * 0x100000001b3u;
}

}  // namespace program
