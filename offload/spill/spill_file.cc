// SPDX-License-Identifier: Apache-2.0
#include "offload/spill/spill_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace thermocline {

std::uint64_t SpillFile::checksum(const void* memory, Bytes bytes) {
  return XXH3_64bits(memory, static_cast<std::size_t>(bytes));
}

}  // namespace thermocline
