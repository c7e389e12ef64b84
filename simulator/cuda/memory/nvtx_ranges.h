// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "simulator/core/streams/operation.h"

namespace simulator::cuda {

// The calling thread is in an NVTX range, of any domain, whose message is "unordered reads": the sources of the copies
// that it submits may be written at the same time, and the program knows that (docs/race_checker.md).
bool reads_without_order();

// The innermost range says "reads 0xADDRESS BYTES" or "reads 0xADDRESS BYTES, may write 0xADDRESS BYTES": what kernels
// access that the thread launches.
std::optional<Declared> declared_accesses();

}  // namespace simulator::cuda
