// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation and memory pools.
#include "simulator/cudart/convert.h"
#include "simulator/cudart/same.h"

namespace simulator::cudart {
namespace {

cudaError_t allocate_async(Rule rule, void** pointer, size_t bytes, cudaStream_t stream) {
  if (pointer == nullptr) return record(cudaErrorInvalidValue);
  return api(rule, [&](const Driver& table) {
    *pointer = nullptr;
    return bytes == 0 ? cudaSuccess : CUDART_CALL(table, cuMemAllocAsync, address_out(pointer), bytes, stream);
  });
}

cudaError_t allocate_from_pool(Rule rule, void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  if (pointer == nullptr) return record(cudaErrorInvalidValue);
  return api(rule, [&](const Driver& table) {
    *pointer = nullptr;
    return bytes == 0 ? cudaSuccess
                      : CUDART_CALL(table, cuMemAllocFromPoolAsync, address_out(pointer), bytes, pool, stream);
  });
}

cudaError_t free_async(Rule rule, void* pointer, cudaStream_t stream) {
  return api(rule, [&](const Driver& table) {
    return pointer == nullptr ? cudaSuccess : CUDART_CALL(table, cuMemFreeAsync, address(pointer), stream);
  });
}

CUmemLocation location_of(const cudaMemLocation& location) {
  return {static_cast<CUmemLocationType>(location.type), location.id};
}

CUmemPoolProps properties_of(const cudaMemPoolProps& given) {
  CUmemPoolProps properties = {};
  properties.allocType = static_cast<CUmemAllocationType>(given.allocType);
  properties.handleTypes = static_cast<CUmemAllocationHandleType>(given.handleTypes);
  properties.location = location_of(given.location);
  properties.win32SecurityAttributes = given.win32SecurityAttributes;
  properties.maxSize = given.maxSize;
  properties.usage = given.usage;
  return properties;
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

CUDART_BOTH(cudaMallocAsync, _ptsz, allocate_async, (void** pointer, size_t bytes, cudaStream_t stream),
            (pointer, bytes, stream))
CUDART_BOTH(cudaMallocFromPoolAsync, _ptsz, allocate_from_pool,
            (void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream), (pointer, bytes, pool, stream))
CUDART_BOTH(cudaFreeAsync, _ptsz, free_async, (void* pointer, cudaStream_t stream), (pointer, stream))

extern "C" {

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuDeviceGetDefaultMemPool, pool, device); });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuDeviceGetMemPool, pool, device); });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuDeviceSetMemPool, device, pool); });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* given) {
  if (pool == nullptr || given == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    const CUmemPoolProps properties = properties_of(*given);
    return CUDART_CALL(table, cuMemPoolCreate, pool, &properties);
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuMemPoolDestroy, pool); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuMemPoolTrimTo, pool, keep); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuMemPoolSetAttribute, pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return api([&](const Driver& table) {
    return CUDART_CALL(table, cuMemPoolGetAttribute, pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* given, size_t count) {
  if (given == nullptr && count != 0) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    for (size_t i = 0; i < count; ++i) {
      const CUmemAccessDesc access = {location_of(given[i].location), static_cast<CUmemAccess_flags>(given[i].flags)};
      const cudaError_t status = CUDART_CALL(table, cuMemPoolSetAccess, pool, &access, size_t{1});
      if (status != cudaSuccess) return status;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location) {
  if (flags == nullptr || location == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) {
    CUmemLocation at = location_of(*location);
    CUmemAccess_flags found = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    const cudaError_t status = CUDART_CALL(table, cuMemPoolGetAccess, &found, pool, &at);
    *flags = static_cast<cudaMemAccessFlags>(found);
    return status;
  });
}

}  // extern "C"

CUDART_SAME(cudaMemGetDefaultMemPool, cuMemGetDefaultMemPool,
            (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type), pool,
            as_driver<CUmemLocation*>(location), static_cast<CUmemAllocationType>(type))
CUDART_SAME(cudaMemGetMemPool, cuMemGetMemPool,
            (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type), pool,
            as_driver<CUmemLocation*>(location), static_cast<CUmemAllocationType>(type))
CUDART_SAME(cudaMemSetMemPool, cuMemSetMemPool,
            (cudaMemLocation * location, cudaMemAllocationType type, cudaMemPool_t pool),
            as_driver<CUmemLocation*>(location), static_cast<CUmemAllocationType>(type), pool)
