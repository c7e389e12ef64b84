// SPDX-License-Identifier: Apache-2.0
// Counts what programs have allocated from memory pools. The memory belongs to the engines, so the driver's own
// counters do not include it. The program is told the sum of the driver's value and the value from here
// (cuMemPoolGetAttribute).
//
// As in a driver, a pool reserves its memory in whole pages, keeps freed memory up to its release threshold, and
// releases the rest. Here that happens at once; a driver waits for the next synchronization. Thread-safe.
#pragma once

#include <optional>

#include "hooks/interpose/cuda_api.h"
#include "hooks/operands/parameters.h"

namespace thermocline {

// To be called before memory is allocated: false if it would exceed the pool's limit (CUmemPoolProps::maxSize).
bool pool_has_room(CUmemoryPool pool, Bytes bytes);
void allocated_from_pool(CUmemoryPool pool, DeviceAddress at, Bytes bytes);
// freeing: the buffer is about to be freed. If the free fails, the result must be passed to freeing_failed().
struct PoolMemory {
  CUmemoryPool pool = nullptr;
  Bytes bytes = 0;
};
std::optional<PoolMemory> freeing(DeviceAddress at);
void freeing_failed(DeviceAddress at, const PoolMemory& memory);
// The engine of these addresses has ended, and with it all of its memory.
void forget_pool_memory(OwnRange range);

// The pool that the buffer was allocated from; null: none.
CUmemoryPool pool_of(DeviceAddress at);

// A pool was created, possibly with the handle of one that was destroyed. `most`: its limit in bytes; 0: none.
void pool_made(CUmemoryPool pool, Bytes most);

// The value to add to the driver's value of the attribute; 0 if it is not a counter.
cuuint64_t of_pool(CUmemoryPool pool, CUmemPool_attribute attribute);
// To be called after the driver has accepted the value.
void set_of_pool(CUmemoryPool pool, CUmemPool_attribute attribute, const void* value);
void trim_pool_to(CUmemoryPool pool, Bytes keep);

}  // namespace thermocline
