// SPDX-License-Identifier: Apache-2.0
// Managed memory: the driver's own. Sometimes the host reads and writes it directly.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

bool allocate(World& world, Buffer& buffer);
void release(World& world, Buffer& buffer);
const Registered<Memory> api_path({{"managed", 1}, allocate, release});

bool allocate(World& world, Buffer& buffer) {
  for (const auto& other : world.buffers()) {
    if (other->memory == &api_path.api_path) return false;
  }
  CHECK_CUDA(cuMemAllocManaged(&buffer.address, buffer.bytes(), CU_MEM_ATTACH_GLOBAL));
  return true;
}

void release(World& world, Buffer& buffer) {
  world.host_waits(buffer);
  CHECK_CUDA(cuMemFree(buffer.address));
}

void access_on_host(World& world) {
  for (const auto& buffer : world.buffers()) {
    if (buffer->memory != &api_path.api_path || !buffer->defined) continue;
    world.host_waits(*buffer);
    auto* const words = reinterpret_cast<std::uint64_t*>(buffer->address);
    world.expect({buffer.get(), 0, buffer->model.size()}, words);
    words[0] = buffer->model[0] = world.random.next();
  }
}

const Registered<Step> step({{"access_managed_on_host", 1}, access_on_host});
}  // namespace
