// SPDX-License-Identifier: Apache-2.0
// The kind of memory at an address, and creation and release of allocations: shared by all calls that take pointers.
#pragma once

#include "simulator/cuda/call.h"

namespace simulator::cuda {

enum class MemoryKind {
  kDevice,    // an allocation or a reservation, managed memory included
  kPinned,    // allocated or registered host memory
  kPageable,  // anything else
};

MemoryKind memory_kind_at(Machine& machine, Address at);
// Whether the address is in managed memory: an allocation or a variable of a module.
bool is_managed(Call& call, Address at);

// Allocates memory and registers its buffer.
CUresult allocate(Call& call, Bytes bytes, AllocationKind kind, Address* out);
CUresult allocate_in_pool(Call& call, Bytes bytes, CUmemoryPool pool, StreamId stream, Address* out);

// The buffer ends now; the caller must return its memory to the machine or to the pool.
struct Released {
  Address address = 0;
  Allocation allocation;
};
CUresult release(Call& call, Address at, Released* out);

// Releases everything that was allocated in the context, because it ends. No work is pending.
void release_all_of(Call& call, CUcontext context);

}  // namespace simulator::cuda
