// SPDX-License-Identifier: Apache-2.0
// What programs hold of memory pools. The memory is the engines', so that the driver's own counters do not see it: what
// it answers about a pool (cuMemPoolGetAttribute) is its own sum and this one.
//
// As a driver would, a pool reserves its memory in whole pages, keeps what is freed below its release threshold, and
// gives the rest back; here at once, where the driver waits for the next synchronisation. Thread-safe.
#pragma once

#include <optional>

#include "hooks/interpose/cuda_api.h"
#include "hooks/operands/parameters.h"

namespace thermocline {

// Before memory is asked for: false where the pool may not hold so much more (CUmemPoolProps::maxSize).
bool pool_has_room(CUmemoryPool pool, Bytes bytes);
void allocated_from_pool(CUmemoryPool pool, DeviceAddress at, Bytes bytes);
// The buffer is about to be freed. What is answered goes to freeing_failed() if it is not.
struct PoolMemory {
  CUmemoryPool pool = nullptr;
  Bytes bytes = 0;
};
std::optional<PoolMemory> freeing(DeviceAddress at);
void freeing_failed(DeviceAddress at, const PoolMemory& memory);
// The engine of these addresses has ended, and all memory in them.
void forget_pool_memory(OwnRange range);

// Of which pool the buffer is; null: of none.
CUmemoryPool pool_of(DeviceAddress at);

// A pool begins, perhaps with the handle of another that was destroyed. `most`: bytes; 0: no limit.
void pool_made(CUmemoryPool pool, Bytes most);

// What is to be added to the driver's answer; 0 for what is no counter.
cuuint64_t of_pool(CUmemoryPool pool, CUmemPool_attribute attribute);
// The driver has accepted the value.
void set_of_pool(CUmemoryPool pool, CUmemPool_attribute attribute, const void* value);
void trim_pool_to(CUmemoryPool pool, Bytes keep);

}  // namespace thermocline
