// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory. Allocations of a pool come from the device, and freed memory is returned to it when the stream
// gets there (apart from what pool_cache.h keeps); so memory that one pool has returned is available to all.
#include "simulator/cuda/graph/capture.h"
#include "simulator/cuda/graph/graph_memory.h"
#include "simulator/cuda/memory/memory_kinds.h"
#include "simulator/cuda/memory/pool_cache.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

CUmemoryPool default_pool(Call& call, int device) {
  State::OfDevice& of = call.state().devices[static_cast<std::size_t>(device)];
  if (of.default_pool == nullptr) {
    CUmemPoolHandle_st pool;
    pool.properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    pool.properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    pool.properties.location.id = device;
    pool.heap = call.machine().create_heap(static_cast<DeviceId>(device));
    of.default_pool = call.state().pools.add(pool);
    of.current_pool = of.default_pool;
  }
  return of.default_pool;
}

CUmemoryPool current_pool(Call& call, int device) {
  default_pool(call, device);
  return call.state().devices[static_cast<std::size_t>(device)].current_pool;
}

bool is_live(State& state, CUmemoryPool pool) { return state.pools.has(pool) && !pool->is_destroyed; }

CUresult allocate_in_order(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool, bool use_current, CUstream stream,
                           const char* caller = __builtin_FUNCTION()) {
  Call call(Needs::kContext, caller);
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (use_current) pool = current_pool(call, call.machine().device_of(id));
  if (out == nullptr || !is_live(call.state(), pool)) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (Captured* const recording = captured(call.state(), id)) {
    Address at = 0;
    const CUresult result = allocate_captured(call, *recording, bytes, pool, &at);
    if (result == CUDA_SUCCESS) *out = at;
    return result;
  }
  if (pool->properties.maxSize != 0 && pool->used + bytes > pool->properties.maxSize) return CUDA_ERROR_OUT_OF_MEMORY;
  Address at = 0;
  if (const CUresult result = allocate_in_pool(call, bytes, pool, id, &at); result != CUDA_SUCCESS) return result;
  *out = at;
  return CUDA_SUCCESS;
}

// The values of attributes that are counters; false: the attribute is a setting.
bool is_counter(CUmemPool_attribute attribute, const CUmemPoolHandle_st& pool, cuuint64_t* value) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *value = pool.blocks + pool.kept_bytes;
      return true;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *value = pool.used;
      return true;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *value = pool.peak_reserved;
      return true;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *value = pool.peak_used;
      return true;
    default:
      return false;
  }
}

// Reuse switches are ints and on by default; the threshold and the counters are 64 bits.
bool is_switch(CUmemPool_attribute attribute) {
  return attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
         attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
         attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

}  // namespace

SIMULATED_API CUresult cuMemAllocAsync(CUdeviceptr* out, std::size_t bytes, CUstream stream) {
  return allocate_in_order(out, bytes, nullptr, true, stream);
}

SIMULATED_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool,
                                               CUstream stream) {
  return allocate_in_order(out, bytes, pool, false, stream);
}

// Memory of cuMemAlloc is accepted too, as by real drivers.
SIMULATED_API CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream) {
  Call call;
  if (!call) return call.result();
  StreamId id = 0;
  if (const CUresult result = call.find(stream, &id); result != CUDA_SUCCESS) return result;
  if (at == 0) return CUDA_SUCCESS;
  if (Captured* const recording = captured(call.state(), id)) return free_captured(call, *recording, at);
  if (GraphMemory* const memory = graph_memory_at(call.state(), at)) return free_graph_memory(call, *memory, id);
  Released released;
  if (const CUresult result = release(call, at, &released); result != CUDA_SUCCESS) return result;
  if (released.allocation.pool != nullptr) {
    keep(call, released.allocation.pool, {at, released.allocation.block_bytes}, id);
    return CUDA_SUCCESS;
  }
  Machine* machine = &call.machine();
  machine->submit(id, Lifetime{at, released.allocation.bytes, false});
  machine->submit(id, Internal{[machine, at] { machine->free(at); }});
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (out == nullptr || properties == nullptr || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!call.has_device(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  CUmemPoolHandle_st pool;
  pool.properties = *properties;
  pool.heap = call.machine().create_heap(static_cast<DeviceId>(properties->location.id));
  *out = call.state().pools.add(pool);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  State& state = call.state();
  if (!is_live(state, pool)) return CUDA_ERROR_INVALID_VALUE;
  for (State::OfDevice& of : state.devices) {
    if (of.default_pool == pool) return CUDA_ERROR_INVALID_VALUE;
    if (of.current_pool == pool) of.current_pool = of.default_pool;
  }
  empty_pool(call, pool);
  pool->is_destroyed = true;
  if (pool->used == 0) state.pools.remove(pool);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemPoolTrimTo(CUmemoryPool pool, std::size_t reserved) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!is_live(call.state(), pool)) return CUDA_ERROR_INVALID_VALUE;
  trim_pool(call, pool, reserved > pool->blocks ? reserved - pool->blocks : 0, TrimTo::kAtLeast);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!is_live(call.state(), pool) || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  cuuint64_t counter = 0;
  if (is_counter(attribute, *pool, &counter)) {
    // High water marks may only be set to zero, which resets them to what is used now.
    const bool is_high = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    if (!is_high || *static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) pool->peak_used = pool->used;
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) pool->peak_reserved = pool->blocks + pool->kept_bytes;
    return CUDA_SUCCESS;
  }
  if (is_switch(attribute)) {
    pool->attributes[attribute] = *static_cast<int*>(value) != 0 ? 1 : 0;
  } else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    pool->attributes[attribute] = *static_cast<cuuint64_t*>(value);
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!is_live(call.state(), pool) || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  cuuint64_t counter = 0;
  if (is_counter(attribute, *pool, &counter)) {
    *static_cast<cuuint64_t*>(value) = counter;
    return CUDA_SUCCESS;
  }
  const auto found = pool->attributes.find(attribute);
  if (is_switch(attribute)) {
    *static_cast<int*>(value) = found == pool->attributes.end() ? 1 : static_cast<int>(found->second);
  } else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    *static_cast<cuuint64_t*>(value) = found == pool->attributes.end() ? 0 : found->second;
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, std::size_t count) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!is_live(call.state(), pool) || (access == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const CUmemLocation& location = access[i].location;
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE || !call.has_device(location.id)) return CUDA_ERROR_INVALID_DEVICE;
    const bool is_owner = location.id == pool->properties.location.id;
    if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
        (is_owner || access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)) {
      return CUDA_ERROR_INVALID_VALUE;  // documented: the owner's access can not be removed, and none can be read-only
    }
    if (!is_owner)
      call.machine().set_heap_access(pool->heap, static_cast<DeviceId>(location.id),
                                     static_cast<Access>(access[i].flags));
  }
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (flags == nullptr || location == nullptr || !is_live(call.state(), pool)) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !call.has_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = static_cast<CUmemAccess_flags>(call.machine().heap_access(pool->heap, static_cast<DeviceId>(location->id)));
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!call.has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = default_pool(call, device);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!call.has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = current_pool(call, device);
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  Call call(Needs::kDriver);
  if (!call) return call.result();
  if (!call.has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!is_live(call.state(), pool)) return CUDA_ERROR_INVALID_VALUE;
  if (pool->properties.location.id != device) return CUDA_ERROR_INVALID_VALUE;
  default_pool(call, device);
  call.state().devices[static_cast<std::size_t>(device)].current_pool = pool;
  return CUDA_SUCCESS;
}

namespace {

// The forms of CUDA 13.0, which name a location and a kind of memory instead of a device.
CUresult check_place(const CUmemLocation* location, CUmemAllocationType type) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  const CUresult result = check_place(location, type);
  return result != CUDA_SUCCESS ? result : cuDeviceGetDefaultMemPool(out, location->id);
}

SIMULATED_API CUresult cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  const CUresult result = check_place(location, type);
  return result != CUDA_SUCCESS ? result : cuDeviceGetMemPool(out, location->id);
}

SIMULATED_API CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  const CUresult result = check_place(location, type);
  return result != CUDA_SUCCESS ? result : cuDeviceSetMemPool(location->id, pool);
}
