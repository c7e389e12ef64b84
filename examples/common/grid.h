// SPDX-License-Identifier: Apache-2.0
// One thread for each element, in blocks of the same size.
#pragma once

namespace examples {

inline constexpr int kThreadsPerBlock = 128;

inline int blocks_for(int threads) { return (threads + kThreadsPerBlock - 1) / kThreadsPerBlock; }

// The calling thread's index in the grid. The last block may have more threads than there are elements left.
__device__ inline int thread_index() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

}  // namespace examples
