// SPDX-License-Identifier: Apache-2.0
// cuMemAllocAsync and cuMemAllocFromPoolAsync, freed in another stream than they were allocated in; pools are trimmed.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

bool allocate(World& world, Buffer& buffer) {
  const unsigned stream = world.any_stream();
  if (world.random.one_in(2)) {
    CHECK_CUDA(cuMemAllocAsync(&buffer.address, buffer.bytes(), world.stream(stream)));
  } else {
    CHECK_CUDA(cuMemAllocFromPoolAsync(&buffer.address, buffer.bytes(), world.device.pool, world.stream(stream)));
  }
  world.submitted(stream);
  world.after_write(stream, buffer);
  return true;
}

// cuMemFree does not wait for memory of cuMemAllocAsync.
void release(World& world, Buffer& buffer) {
  if (world.random.one_in(6)) {
    world.host_waits(buffer);
    return CHECK_CUDA(cuMemFree(buffer.address));
  }
  const unsigned stream = world.any_stream();
  world.before_write(stream, buffer);
  CHECK_CUDA(cuMemFreeAsync(buffer.address, world.stream(stream)));
  world.submitted(stream);
}

void trim(World& world) {
  CUmemoryPool pool = world.device.pool;
  if (world.random.one_in(2)) CHECK_CUDA(cuDeviceGetDefaultMemPool(&pool, world.device.device));
  CHECK_CUDA(cuMemPoolTrimTo(pool, world.random.below(4) * kMiB));
}

cuuint64_t number_of(CUmemoryPool pool, CUmemPool_attribute attribute) {
  cuuint64_t value = 0;
  CHECK_CUDA(cuMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

// For a pool that only this program uses.
void ask_about_pool(World& world) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = world.device.device};
  CUmemoryPool pool = nullptr;
  CHECK_CUDA(cuMemPoolCreate(&pool, &properties));
  const unsigned stream = world.any_stream();
  CUdeviceptr held[3] = {};
  cuuint64_t used = 0;
  for (CUdeviceptr& one : held) {
    const std::size_t bytes = 512 * (1 + world.random.below(512));
    CHECK_CUDA(cuMemAllocFromPoolAsync(&one, bytes, pool, world.stream(stream)));
    used += bytes;
    CUmemoryPool told = nullptr;
    CHECK_CUDA(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, one));
    if (told != pool) world.fail("a pointer's pool", reinterpret_cast<std::uintptr_t>(told), 0);
  }
  if (const cuuint64_t told = number_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT); told != used)
    world.fail("used memory of a pool", told, used);
  if (const cuuint64_t told = number_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); told < used)
    world.fail("reserved memory of a pool", told, used);
  for (const CUdeviceptr one : held) CHECK_CUDA(cuMemFreeAsync(one, world.stream(stream)));
  if (const cuuint64_t told = number_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT); told != 0)
    world.fail("used memory of an empty pool", told, 0);
  if (const cuuint64_t told = number_of(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH); told != used)
    world.fail("most used memory of a pool", told, used);
  world.submitted(stream);
  CHECK_CUDA(cuMemPoolDestroy(pool));
}

const Registered<Memory> api_path({{"in_order", 8}, allocate, release});
const Registered<Step> asking({{"ask_about_pool", 1}, ask_about_pool});
const Registered<Step> trimming({{"trim_pool", 1}, trim});
}  // namespace
