// SPDX-License-Identifier: Apache-2.0
// One thread for each element, in blocks of the same size.
#pragma once

namespace examples {

inline constexpr int kThreadsPerBlock = 128;

inline int blocks_for(int threads) { return (threads + kThreadsPerBlock - 1) / kThreadsPerBlock; }

// Of the calling thread. The last block has more threads than there may be elements.
__device__ inline int thread_index() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

}  // namespace examples
