// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace simulator::cuda {

// The calling thread is in an NVTX range, of any domain, whose message is "unordered reads": the sources of the copies
// that it submits may be written at the same time, and the program knows that (docs/race_checker.md).
bool reads_without_order();

}  // namespace simulator::cuda
