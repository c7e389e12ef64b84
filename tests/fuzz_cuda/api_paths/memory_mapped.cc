// SPDX-License-Identifier: Apache-2.0
// Addresses that the program reserves and maps itself. They stay on the device, so there are only few at a time.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

std::size_t mapped_bytes(const Buffer& buffer) { return (buffer.bytes() + 2 * kMiB - 1) / (2 * kMiB) * 2 * kMiB; }

bool allocate(World& world, Buffer& buffer);
void release(World& world, Buffer& buffer);
const Registered<Memory> api_path({{"mapped", 1}, allocate, release});

bool allocate(World& world, Buffer& buffer) {
  for (const auto& other : world.buffers()) {
    if (other->memory == &api_path.api_path) return false;
  }
  if (mapped_bytes(buffer) > 4 * kMiB) return false;
  CUmemAllocationProp property{};
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  property.location.id = world.device.device;
  CUmemAccessDesc access{};
  access.location = property.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CUDA(cuMemCreate(&handle, mapped_bytes(buffer), &property, 0));
  CHECK_CUDA(cuMemAddressReserve(&buffer.address, mapped_bytes(buffer), 0, 0, 0));
  CHECK_CUDA(cuMemMap(buffer.address, mapped_bytes(buffer), 0, handle, 0));
  CHECK_CUDA(cuMemSetAccess(buffer.address, mapped_bytes(buffer), &access, 1));
  CHECK_CUDA(cuMemRelease(handle));
  return true;
}

void release(World& world, Buffer& buffer) {
  world.host_waits(buffer);
  CHECK_CUDA(cuMemUnmap(buffer.address, mapped_bytes(buffer)));
  CHECK_CUDA(cuMemAddressFree(buffer.address, mapped_bytes(buffer)));
}
}  // namespace
