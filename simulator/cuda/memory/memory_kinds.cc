// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/memory/memory_kinds.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "simulator/cuda/graph/graph_memory.h"
#include "simulator/cuda/memory/pool_cache.h"

namespace simulator::cuda {

MemoryKind memory_kind_at(Machine& machine, Address at) {
  Address begin = 0;
  Bytes bytes = 0;
  if (machine.allocation_at(at, &begin, &bytes)) return MemoryKind::kDevice;
  // A copy to or from host memory uses the link, through whatever address it is accessed.
  if (machine.reservation_at(at, &begin, &bytes))
    return machine.is_host_physical_at(at) ? MemoryKind::kPinned : MemoryKind::kDevice;
  return machine.pinned_at(reinterpret_cast<const void*>(at), &begin, &bytes) ? MemoryKind::kPinned
                                                                              : MemoryKind::kPageable;
}

bool is_managed(Call& call, Address at) {
  if (const auto* const found = call.state().allocation_at(at)) return found->second.kind == AllocationKind::kManaged;
  bool is_managed = false;
  call.state().modules.for_each([&](const CUmod_st& module) {
    for (const auto& [name, variable] : module.variables) {
      is_managed |= variable.managed && at >= variable.address && at - variable.address < variable.bytes;
    }
  });
  return is_managed;
}

namespace {

CUresult enroll(Call& call, Address at, Allocation allocation) {
  const Fresh fresh = allocation.kind == AllocationKind::kManaged ? Fresh::kNo
                      : allocation.kind == AllocationKind::kPool  ? Fresh::kInOrder
                                                                  : Fresh::kYes;
  if (const CUresult result = call.machine().register_buffer(at, allocation.bytes, fresh); result != CUDA_SUCCESS) {
    call.machine().free(at);
    return result;
  }
  allocation.id = call.state().next_id++;
  allocation.context = call.context();
  call.state().allocations[at] = allocation;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult allocate(Call& call, Bytes bytes, AllocationKind kind, Address* out) {
  const CUresult result = with_room(
      call, [&] { return call.machine().allocate(bytes, kind == AllocationKind::kManaged, out, call.device()); });
  if (result != CUDA_SUCCESS) return result;
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.kind = kind;
  return enroll(call, *out, allocation);
}

CUresult allocate_in_pool(Call& call, Bytes bytes, CUmemoryPool pool, StreamId stream, Address* out) {
  if (bytes > call.machine().capacity()) return CUDA_ERROR_OUT_OF_MEMORY;
  std::optional<PoolBlock> block = take_kept(call, pool, bytes, stream);
  if (!block) {
    block = PoolBlock{0, pool_block_bytes(bytes)};
    const CUresult result =
        with_room(call, [&] { return call.machine().allocate(block->bytes, false, &block->address, pool->heap); });
    if (result != CUDA_SUCCESS) return result;
  }
  *out = block->address;
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.kind = AllocationKind::kPool;
  allocation.pool = pool;
  allocation.block_bytes = block->bytes;
  if (const CUresult result = enroll(call, *out, allocation); result != CUDA_SUCCESS) return result;
  call.machine().submit(stream, Lifetime{*out, block->bytes, true});
  pool->used += bytes;
  pool->blocks += block->bytes;
  pool->peak_used = std::max(pool->peak_used, pool->used);
  pool->peak_reserved = std::max(pool->peak_reserved, pool->blocks + pool->kept_bytes);
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
    pool->blocks -= out->allocation.block_bytes;
    if (pool->is_destroyed) {
      out->allocation.pool = nullptr;
      if (pool->used == 0) call.state().pools.remove(pool);
    }
  }
  return CUDA_SUCCESS;
}

void release_all_of(Call& call, CUcontext context) {
  std::vector<Address> mine;
  for (const auto& [at, allocation] : call.state().allocations) {
    if (allocation.context == context && allocation.kind != AllocationKind::kGraph) mine.push_back(at);
  }
  for (const Address at : mine) {
    Released released;
    if (release(call, at, &released) == CUDA_SUCCESS) call.machine().free(at);
  }
  drop_graph_memory(call, context);
}

}  // namespace simulator::cuda
