// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace simulator::cuda {

// The calling thread is in a range of NVTX, of any domain, whose message is "unordered reads": what the copies that it
// submits read may be written at the same time, and it knows that (docs/race_checker.md).
bool reads_without_order();

}  // namespace simulator::cuda
