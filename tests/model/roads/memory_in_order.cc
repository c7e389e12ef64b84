// SPDX-License-Identifier: Apache-2.0
// cuMemAllocAsync and cuMemAllocFromPoolAsync, freed in another stream than they were allocated in; pools are trimmed.
#include "tests/model/road.h"

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

const Registered<Memory> road({{"in_order", 8}, allocate, release});
const Registered<Step> trimming({{"trim_pool", 1}, trim});
}  // namespace
