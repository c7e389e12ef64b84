// SPDX-License-Identifier: Apache-2.0
// Managed memory: the driver's own. At times the host reads and writes it where it lies.
#include "tests/model/road.h"

namespace {
using namespace model;

bool allocate(World& world, Buffer& buffer);
void release(World& world, Buffer& buffer);
const Registered<Memory> road({{"managed", 1}, allocate, release});

bool allocate(World& world, Buffer& buffer) {
  for (const auto& other : world.buffers()) {
    if (other->memory == &road.road) return false;
  }
  CHECK_CUDA(cuMemAllocManaged(&buffer.address, buffer.bytes(), CU_MEM_ATTACH_GLOBAL));
  return true;
}

void release(World& world, Buffer& buffer) {
  world.host_waits(buffer);
  CHECK_CUDA(cuMemFree(buffer.address));
}

void touch_on_host(World& world) {
  for (const auto& buffer : world.buffers()) {
    if (buffer->memory != &road.road || !buffer->defined) continue;
    world.host_waits(*buffer);
    auto* const words = reinterpret_cast<std::uint64_t*>(buffer->address);
    world.expect({buffer.get(), 0, buffer->model.size()}, words);
    words[0] = buffer->model[0] = world.random.next();
  }
}

const Registered<Step> step({{"touch_managed_on_host", 1}, touch_on_host});
}  // namespace
