// SPDX-License-Identifier: Apache-2.0
// How many blocks fit on a multiprocessor: threads, blocks, shared memory and registers, by the rules of the CUDA
// occupancy calculator without its rounding to allocation units.
#include <algorithm>

#include "simulator/cuda/call.h"
#include "simulator/cuda/context/device_attributes.h"
#include "simulator/cuda/module/function.h"
#include "simulator/cuda/module/module.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

int blocks_that_fit(const Profile& profile, const CUfunc_st& function, int block_size, std::size_t dynamic_shared) {
  const Limits& limits = limits_of(profile);
  if (block_size > function_attribute(profile, function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)) return 0;
  const int threads = (block_size + 31) / 32 * 32;
  int blocks = std::min(limits.threads_per_multiprocessor / threads, limits.blocks_per_multiprocessor);
  blocks = std::min(blocks, kRegistersPerMultiprocessor /
                                (function_attribute(profile, function, CU_FUNC_ATTRIBUTE_NUM_REGS) * threads));
  const int reserved = profile.compute_capability.value >= 80 ? kReservedShared : 0;
  const std::size_t shared = function.kernel.shared_bytes + dynamic_shared + static_cast<std::size_t>(reserved);
  if (shared > 0)
    blocks = static_cast<int>(std::min<std::size_t>(
        static_cast<std::size_t>(blocks), static_cast<std::size_t>(limits.shared_per_multiprocessor) / shared));
  return blocks;
}

CUresult max_blocks(int* blocks, const void* handle, int block_size, std::size_t dynamic_shared,
                    const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  const CUfunction function = find_function(call, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks == nullptr || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = load_function(call, function); result != CUDA_SUCCESS) return result;
  *blocks = blocks_that_fit(call.machine().profile(), *function, block_size, dynamic_shared);
  return CUDA_SUCCESS;
}

CUresult potential_size(int* grid, int* block, const void* handle, CUoccupancyB2DSize shared_of,
                        std::size_t dynamic_shared, int limit, const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  const CUfunction function = find_function(call, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = load_function(call, function); result != CUDA_SUCCESS) return result;
  const Profile& profile = call.machine().profile();
  int most = function_attribute(profile, *function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (limit > 0) most = std::min(most, limit);
  int best_threads = 0, best_blocks = 0;
  *block = 0;
  for (int size = std::max(most / 32 * 32, std::min(most, 32)); size > 0; size -= 32) {
    const int blocks =
        blocks_that_fit(profile, *function, size, shared_of != nullptr ? shared_of(size) : dynamic_shared);
    if (blocks * size <= best_threads) continue;
    best_threads = blocks * size;
    best_blocks = blocks;
    *block = size;
  }
  *grid = best_blocks * profile.multiprocessors.value;
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int block_size,
                                                                   std::size_t dynamic_shared) {
  return max_blocks(blocks, function, block_size, dynamic_shared);
}

SIMULATED_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                                            int block_size, std::size_t dynamic_shared,
                                                                            unsigned) {
  return max_blocks(blocks, function, block_size, dynamic_shared);
}

SIMULATED_API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                                        CUoccupancyB2DSize shared_of, std::size_t dynamic_shared,
                                                        int limit) {
  return potential_size(grid, block, function, shared_of, dynamic_shared, limit);
}

SIMULATED_API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                                 CUoccupancyB2DSize shared_of,
                                                                 std::size_t dynamic_shared, int limit, unsigned) {
  return potential_size(grid, block, function, shared_of, dynamic_shared, limit);
}

SIMULATED_API CUresult cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, CUfunction handle, int blocks,
                                                               int block_size) {
  Call call;
  if (!call) return call.result();
  const CUfunction function = find_function(call, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == nullptr || blocks <= 0 || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  const Profile& profile = call.machine().profile();
  const int reserved = profile.compute_capability.value >= 80 ? kReservedShared : 0;
  const int share = limits_of(profile).shared_per_multiprocessor / blocks - reserved -
                    static_cast<int>(function->kernel.shared_bytes);
  *bytes = static_cast<std::size_t>(std::clamp(share, 0, limits_of(profile).shared_per_block_on_request));
  return CUDA_SUCCESS;
}
