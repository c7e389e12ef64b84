// SPDX-License-Identifier: Apache-2.0
// What pools keep of freed memory, so that a stream that frees and allocates in turn neither waits nor creates pages.
//
// Contract, as CUDA documents it for pools: memory freed in a stream is at once that stream's to take again; anybody's
// once the work before the free has completed. What a pool keeps beyond its release threshold (0 by default) goes back
// to the device when the program synchronises, and all of it when memory would run out.
#pragma once

#include <functional>
#include <optional>

#include "simulator/cuda/call.h"

namespace simulator::cuda {

// How much memory stands behind a request: pools hand out blocks of these sizes, so that freed ones fit again.
Bytes pool_block_bytes(Bytes requested);

// A kept block for the request, best fit, that wastes no more than an eighth.
struct PoolBlock {
  Address address = 0;
  Bytes bytes = 0;
};
std::optional<PoolBlock> take_kept(Call& call, CUmemoryPool pool, Bytes requested, StreamId stream);

// The block is freed in `stream`, now.
void keep(Call& call, CUmemoryPool pool, PoolBlock block, StreamId stream);

// Gives back blocks whose work has completed, the smallest first: until the pool keeps no more than so many bytes, or
// (cuMemPoolTrimTo, which promises that much) only as long as it then still keeps as many.
enum class TrimTo { kAtMost, kAtLeast };
void trim_pool(Call& call, CUmemoryPool pool, Bytes bytes, TrimTo end);
void trim_pools_to_thresholds(Call& call);

// The stream goes: its blocks are no longer anybody's before they are everybody's.
void forget_stream(State& state, StreamId stream);

// The pool goes: its blocks leave when their work has completed.
void empty_pool(Call& call, CUmemoryPool pool);

// Calls `allocate`, once more without what pools keep if it answers OUT_OF_MEMORY (by then nothing is pending).
CUresult with_room(Call& call, const std::function<CUresult()>& allocate);

}  // namespace simulator::cuda
