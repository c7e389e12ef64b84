// SPDX-License-Identifier: Apache-2.0
// Freed memory that pools keep, so that a stream that frees and allocates in turn neither waits nor creates pages.
//
// Contract, as CUDA documents it for pools: memory freed in a stream can at once be reused in that stream, and in all
// others once the work before the free has completed. Memory beyond the release threshold (0 by default) is returned to
// the device when the program synchronizes, and all kept memory if memory would run out.
#pragma once

#include <functional>
#include <optional>

#include "simulator/cuda/call.h"

namespace simulator::cuda {

// The size of the block for a request: pools use certain block sizes, so that freed blocks fit again.
Bytes pool_block_bytes(Bytes requested);

// A kept block for the request, best fit, that wastes at most an eighth.
struct PoolBlock {
  Address address = 0;
  Bytes bytes = 0;
};
std::optional<PoolBlock> take_kept(Call& call, CUmemoryPool pool, Bytes requested, StreamId stream);

// The block is freed in `stream`, now.
void keep(Call& call, CUmemoryPool pool, PoolBlock block, StreamId stream);

// Returns blocks whose work has completed, the smallest first. kAtMost: until the pool keeps at most that many bytes.
// kAtLeast (cuMemPoolTrimTo, which guarantees that much): only as long as it still keeps that many.
enum class TrimTo { kAtMost, kAtLeast };
void trim_pool(Call& call, CUmemoryPool pool, Bytes bytes, TrimTo end);
void trim_pools_to_thresholds(Call& call);

// The stream is destroyed: its blocks can be reused by others only when their work has completed.
void forget_stream(State& state, StreamId stream);

// The pool is destroyed: its blocks are returned when their work has completed.
void empty_pool(Call& call, CUmemoryPool pool);

// Calls `allocate`; if it returns OUT_OF_MEMORY, calls it again after the pools have returned what they keep (by then
// nothing is pending).
CUresult with_room(Call& call, const std::function<CUresult()>& allocate);

}  // namespace simulator::cuda
