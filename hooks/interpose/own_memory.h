// SPDX-License-Identifier: Apache-2.0
// Reads memory of this process that may be gone, as a debugger would: no fault, and an answer that says which it is.
#pragma once

#include <cstdint>

#include "driver/units.h"

namespace thermocline {

// kGone: nothing is there, or no longer. kRefused: the system does not let us look.
enum class Reading { kRead, kGone, kRefused };

// By process_vm_readv, and where a sandbox forbids that (older container runtimes do) by /proc/self/mem.
Reading read_own_memory(std::uint64_t from, void* to, Bytes bytes);
Reading read_through_file(std::uint64_t from, void* to, Bytes bytes);

}  // namespace thermocline
