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
CUresult allocate(Call& call, Bytes bytes, AllocationKind kind, Address* out);
CUresult allocate_in_pool(Call& call, Bytes bytes, CUmemoryPool pool, StreamId stream, Address* out);

// The buffer ends now; its memory is the caller's to give back, to the machine or to the pool.
struct Released {
  Address address = 0;
  Allocation allocation;
};
CUresult release(Call& call, Address at, Released* out);

// Everything that was allocated in the context, as when it ends. No work is pending.
void release_all_of(Call& call, CUcontext context);

}  // namespace simulator::cuda
