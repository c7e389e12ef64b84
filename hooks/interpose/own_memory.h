// SPDX-License-Identifier: Apache-2.0
// Reads memory of this process that may have been unmapped, as a debugger would: without a fault, and with a result
// that says whether it was there.
#pragma once

#include <cstdint>

#include "driver/units.h"

namespace thermocline {

// kGone: nothing is mapped there. kRefused: the system does not permit such reads.
enum class Reading { kRead, kGone, kRefused };

// Uses process_vm_readv or, if a sandbox forbids that (older container runtimes do), /proc/self/mem.
Reading read_own_memory(std::uint64_t from, void* to, Bytes bytes);
Reading read_through_file(std::uint64_t from, void* to, Bytes bytes);

}  // namespace thermocline
