// SPDX-License-Identifier: Apache-2.0
// What kind of memory an address is, and how allocations come and go: shared by everything that takes pointers.
#pragma once

#include "simulator/cuda/call.h"

namespace simulator::cuda {

enum class Place {
  kDevice,    // an allocation or a reservation, managed memory included
  kPinned,    // allocated or registered host memory
  kPageable,  // anything else
};

Place place_of(Machine& machine, Address at);

// An allocation with its buffer.
CUresult allocate(Call& call, Bytes bytes, AllocationKind kind, CUmemoryPool pool, Address* out);

// The buffer ends now, its memory when `free_memory` is called, which an operation may do later.
struct Released {
  Address address = 0;
  Allocation allocation;
};
CUresult release(Call& call, Address at, Released* out);

// Everything that was allocated in the context, as when it ends. No work is pending.
void release_all_of(Call& call, CUcontext context);

}  // namespace simulator::cuda
