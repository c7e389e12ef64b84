// SPDX-License-Identifier: Apache-2.0
// Attributes of memory pools that programs read and set. The driver is called first: a call that it refuses is refused.
#include "hooks/entry/pool_usage.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/allocation.h"

namespace thermocline {
namespace {

bool is_counter(CUmemPool_attribute attribute) {
  return attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
         attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
}

}  // namespace
}  // namespace thermocline

extern "C" {

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  using namespace thermocline;
  const CUresult result = real<Function::cuMemPoolGetAttribute>(pool, attr, value);
  if (result != CUDA_SUCCESS || value == nullptr || Inside::now() || !is_counter(attr)) return result;
  return guarded_lightly([&] {
    *static_cast<cuuint64_t*>(value) += of_pool(pool, attr);
    return result;
  });
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  using namespace thermocline;
  const CUresult result = real<Function::cuMemPoolSetAttribute>(pool, attr, value);
  if (result != CUDA_SUCCESS || value == nullptr || Inside::now()) return result;
  return guarded_lightly([&] {
    set_of_pool(pool, attr, value);
    return result;
  });
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  using namespace thermocline;
  const CUresult result = real<Function::cuMemPoolTrimTo>(pool, minBytesToKeep);
  if (result != CUDA_SUCCESS || Inside::now()) return result;
  return guarded_lightly([&] {
    trim_pool_to(pool, minBytesToKeep);
    return result;
  });
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  using namespace thermocline;
  const CUresult result = real<Function::cuDeviceSetMemPool>(dev, pool);
  if (result == CUDA_SUCCESS) a_pool_was_made_current();
  return result;
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  using namespace thermocline;
  const CUresult result = real<Function::cuMemSetMemPool>(location, type, pool);
  if (result == CUDA_SUCCESS) a_pool_was_made_current();
  return result;
}

}  // extern "C"
