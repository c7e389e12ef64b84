// SPDX-License-Identifier: Apache-2.0
// Host memory that kernels work on: registered, or allocated as pinned memory.
#include <cstdlib>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

constexpr std::uint64_t kRegistered = 1;

bool allocate(World& world, Buffer& buffer) {
  if (buffer.bytes() > kMiB) return false;
  void* host = nullptr;
  buffer.token = world.random.below(2);
  if (buffer.token == kRegistered) {
    host = std::aligned_alloc(4096, (buffer.bytes() + 4095) / 4096 * 4096);
    CHECK_CUDA(cuMemHostRegister(host, buffer.bytes(), CU_MEMHOSTREGISTER_DEVICEMAP));
  } else {
    CHECK_CUDA(cuMemHostAlloc(&host, buffer.bytes(), CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
  }
  CHECK_CUDA(cuMemHostGetDevicePointer(&buffer.address, host, 0));
  if (buffer.address != reinterpret_cast<CUdeviceptr>(host))
    world.fail("address of the host's memory", buffer.address, 0);
  return true;
}

void release(World& world, Buffer& buffer) {
  world.host_waits(buffer);
  void* const host = reinterpret_cast<void*>(buffer.address);
  if (buffer.token != kRegistered) return CHECK_CUDA(cuMemFreeHost(host));
  CHECK_CUDA(cuMemHostUnregister(host));
  std::free(host);
}

const Registered<Memory> api_path({{"of_the_host", 1}, allocate, release});
}  // namespace
