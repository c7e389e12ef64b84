// SPDX-License-Identifier: Apache-2.0
// Host memory that was allocated to be written only (CU_MEMHOSTALLOC_WRITECOMBINED). It is not cached: a plain load
// fetches its few bytes over the bus each time, tens of times slower than memory. Streaming loads fetch whole lines.
#pragma once

#include <cstddef>

namespace thermocline {

// Asks the driver. False of memory that it does not know.
bool is_write_combined(const void* at);

// As memcpy does, out of such memory.
void read_write_combined(void* to, const void* from, std::size_t bytes);

}  // namespace thermocline
