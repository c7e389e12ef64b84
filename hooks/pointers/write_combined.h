// SPDX-License-Identifier: Apache-2.0
// Host memory that was allocated only for writing (CU_MEMHOSTALLOC_WRITECOMBINED). It is not cached: each plain load
// reads its few bytes over the bus, tens of times slower than memory. Streaming loads read whole lines.
#pragma once

#include <cstddef>

namespace thermocline {

// Calls the driver. False for memory that the driver does not know.
bool is_write_combined(const void* at);

// Like memcpy, for a source in such memory.
void read_write_combined(void* to, const void* from, std::size_t bytes);

}  // namespace thermocline
