// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "simulator/core/streams/operation.h"

namespace simulator::cuda {

// True if the calling thread is in an NVTX range, of any domain, with the message "unordered reads": the sources of its
// copies may be written at the same time, and the program knows that (docs/race_checker.md).
bool reads_without_order();

// The accesses of kernels that the thread launches, as declared by the innermost range: "reads 0xADDRESS BYTES" or
// "reads 0xADDRESS BYTES, may write 0xADDRESS BYTES".
std::optional<Declared> declared_accesses();

}  // namespace simulator::cuda
