// SPDX-License-Identifier: Apache-2.0
// Addresses that the program reserves and maps itself. They stay on the device, so there are only few at a time.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

CUmemAllocationProp property_of(const World& world) {
  CUmemAllocationProp property{};
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  property.location.id = world.device.device;
  return property;
}

std::size_t mapped_bytes(const World& world, const Buffer& buffer) {
  static const std::size_t page = [&] {
    std::size_t granularity = 0;
    const CUmemAllocationProp property = property_of(world);
    CHECK_CUDA(cuMemGetAllocationGranularity(&granularity, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    return granularity;
  }();
  return (buffer.bytes() + page - 1) / page * page;
}

bool can_map(const World& world) {
  static const bool can = [&] {
    int value = 0;
    CHECK_CUDA(
        cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, world.device.device));
    return value != 0;
  }();
  return can;
}

bool allocate(World& world, Buffer& buffer);
void release(World& world, Buffer& buffer);
const Registered<Memory> api_path({{"mapped", 1}, allocate, release});

bool allocate(World& world, Buffer& buffer) {
  for (const auto& other : world.buffers()) {
    if (other->memory == &api_path.api_path) return false;
  }
  if (!can_map(world) || mapped_bytes(world, buffer) > 4 * kMiB) return false;
  const CUmemAllocationProp property = property_of(world);
  CUmemAccessDesc access{};
  access.location = property.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CUDA(cuMemCreate(&handle, mapped_bytes(world, buffer), &property, 0));
  CHECK_CUDA(cuMemAddressReserve(&buffer.address, mapped_bytes(world, buffer), 0, 0, 0));
  CHECK_CUDA(cuMemMap(buffer.address, mapped_bytes(world, buffer), 0, handle, 0));
  CHECK_CUDA(cuMemSetAccess(buffer.address, mapped_bytes(world, buffer), &access, 1));
  CHECK_CUDA(cuMemRelease(handle));
  return true;
}

void release(World& world, Buffer& buffer) {
  world.host_waits(buffer);
  CHECK_CUDA(cuMemUnmap(buffer.address, mapped_bytes(world, buffer)));
  CHECK_CUDA(cuMemAddressFree(buffer.address, mapped_bytes(world, buffer)));
}
}  // namespace
