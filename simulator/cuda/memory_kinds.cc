// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/memory_kinds.h"

#include <algorithm>
#include <vector>

namespace simulator::cuda {

Place place_of(Machine& machine, Address at) {
  Address begin = 0;
  Bytes bytes = 0;
  if (machine.allocation_at(at, &begin, &bytes) || machine.reservation_at(at, &begin, &bytes)) return Place::kDevice;
  return machine.pinned_at(reinterpret_cast<const void*>(at), &begin, &bytes) ? Place::kPinned : Place::kPageable;
}

CUresult allocate(Call& call, Bytes bytes, AllocationKind kind, CUmemoryPool pool, Address* out) {
  Machine& machine = call.machine();
  const bool managed = kind == AllocationKind::kManaged;
  CUresult result = machine.allocate(bytes, managed, out);
  if (result != CUDA_SUCCESS) return result;
  if (result = machine.register_buffer(*out, bytes, managed ? Fresh::kNo : Fresh::kYes); result != CUDA_SUCCESS) {
    machine.free(*out);
    return result;
  }
  State& state = call.state();
  state.allocations[*out] = {bytes, kind, state.next_id++, call.context(), pool, false};
  if (pool != nullptr) {
    pool->used += bytes;
    pool->peak_used = std::max(pool->peak_used, pool->used);
  }
  return CUDA_SUCCESS;
}

CUresult release(Call& call, Address at, Released* out) {
  const auto found = call.state().allocations.find(at);
  if (found == call.state().allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  *out = {at, found->second};
  call.state().allocations.erase(found);
  call.machine().unregister_buffer(at);
  if (CUmemoryPool pool = out->allocation.pool; pool != nullptr) {
    pool->used -= out->allocation.bytes;
    if (pool->is_destroyed && pool->used == 0) call.state().pools.remove(pool);
  }
  return CUDA_SUCCESS;
}

void release_all_of(Call& call, CUcontext context) {
  std::vector<Address> mine;
  for (const auto& [at, allocation] : call.state().allocations) {
    if (allocation.context == context) mine.push_back(at);
  }
  for (const Address at : mine) {
    Released released;
    if (release(call, at, &released) == CUDA_SUCCESS) call.machine().free(at);
  }
}

}  // namespace simulator::cuda
