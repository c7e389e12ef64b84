// SPDX-License-Identifier: Apache-2.0
// Reservations, handles, mappings, access.
#include "tests/simulated_cuda/device_fixture.h"

namespace {

class VirtualMemoryTest : public DeviceTest {
 protected:
  static CUmemAllocationProp on_device() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    return properties;
  }

  static CUmemAccessDesc access(CUmemAccess_flags flags) {
    CUmemAccessDesc description{};
    description.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    description.flags = flags;
    return description;
  }

  static CUmemGenericAllocationHandle create(std::size_t bytes) {
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp properties = on_device();
    EXPECT_OK(cuMemCreate(&handle, bytes, &properties, 0));
    return handle;
  }

  static CUdeviceptr reserve(std::size_t bytes) {
    CUdeviceptr at = 0;
    EXPECT_OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    return at;
  }

  static void map(CUdeviceptr at, std::size_t bytes, CUmemGenericAllocationHandle handle) {
    const CUmemAccessDesc both = access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    EXPECT_OK(cuMemMap(at, bytes, 0, handle, 0));
    EXPECT_OK(cuMemSetAccess(at, bytes, &both, 1));
  }
};

TEST_F(VirtualMemoryTest, TheGranularityIsAPage) {
  const CUmemAllocationProp properties = on_device();
  std::size_t bytes = 0;
  EXPECT_OK(cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT_EQ(bytes, kPage);
}

TEST_F(VirtualMemoryTest, ContentsBelongToThePagesAndFollowThemToAnotherAddress) {
  const CUdeviceptr at = reserve(4 * kPage);
  const CUmemGenericAllocationHandle page = create(kPage);
  map(at, kPage, page);
  write<unsigned>(at + 64, {1, 2, 3});
  EXPECT_OK(cuMemUnmap(at, kPage));
  map(at + 3 * kPage, kPage, page);
  EXPECT_EQ(read<unsigned>(at + 3 * kPage + 64, 3), (std::vector<unsigned>{1, 2, 3}));
}

TEST_F(VirtualMemoryTest, MappingsAndAddressesGoWithoutAContext) {
  const CUdeviceptr at = reserve(kPage);
  const CUmemGenericAllocationHandle page = create(kPage);
  map(at, kPage, page);
  EXPECT_OK(cuCtxSetCurrent(nullptr));
  EXPECT_OK(cuMemRelease(page));
  EXPECT_OK(cuMemUnmap(at, kPage));
  EXPECT_OK(cuMemAddressFree(at, kPage));
  EXPECT_OK(cuCtxSetCurrent(context_));
}

TEST_F(VirtualMemoryTest, OnePageMayStandBehindTwoAddresses) {
  const CUdeviceptr at = reserve(2 * kPage);
  const CUmemGenericAllocationHandle page = create(kPage);
  map(at, kPage, page);
  map(at + kPage, kPage, page);
  write<unsigned>(at, {9});
  EXPECT_EQ(read<unsigned>(at + kPage, 1)[0], 9u);
}

TEST_F(VirtualMemoryTest, NewPagesAreZero) {
  const CUdeviceptr at = reserve(kPage);
  const CUmemGenericAllocationHandle first = create(kPage);
  map(at, kPage, first);
  write<unsigned>(at, {9});
  EXPECT_OK(cuMemUnmap(at, kPage));
  EXPECT_OK(cuMemRelease(first));
  map(at, kPage, create(kPage));
  EXPECT_EQ(read<unsigned>(at, 1)[0], 0u);
}

TEST_F(VirtualMemoryTest, AccessingAnAbsentPageIsAnIllegalAddressThatSticks) {
  const CUdeviceptr at = reserve(kPage);
  EXPECT_OK(cuMemsetD8Async(at, 1, 16, nullptr));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr other = 0;
  EXPECT_EQ(cuMemAlloc(&other, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(VirtualMemoryTest, AccessingAMappingWithoutAccessIsAnIllegalAddress) {
  const CUdeviceptr at = reserve(kPage);
  EXPECT_OK(cuMemMap(at, kPage, 0, create(kPage), 0));
  EXPECT_OK(cuMemsetD8Async(at, 1, 16, nullptr));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(VirtualMemoryTest, AccessIsTold) {
  const CUdeviceptr at = reserve(kPage);
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemAccessDesc readable = access(CU_MEM_ACCESS_FLAGS_PROT_READ);
  unsigned long long flags = 9;
  EXPECT_EQ(cuMemGetAccess(&flags, &device, at), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemMap(at, kPage, 0, create(kPage), 0));
  EXPECT_OK(cuMemGetAccess(&flags, &device, at));
  EXPECT_EQ(flags, 0u);
  EXPECT_OK(cuMemSetAccess(at, kPage, &readable, 1));
  EXPECT_OK(cuMemGetAccess(&flags, &device, at));
  EXPECT_EQ(flags, 1u);
}

TEST_F(VirtualMemoryTest, MemoryComesBackWhenAHandleIsReleasedAndUnmapped) {
  std::size_t before = 0, during = 0, after = 0, total = 0;
  EXPECT_OK(cuMemGetInfo(&before, &total));
  const CUdeviceptr at = reserve(4 * kPage);
  const CUmemGenericAllocationHandle handle = create(4 * kPage);
  map(at, 4 * kPage, handle);
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_OK(cuMemGetInfo(&during, &total));
  EXPECT_EQ(during, before - 4 * kPage);
  EXPECT_OK(cuMemUnmap(at, 4 * kPage));
  EXPECT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
  EXPECT_OK(cuMemAddressFree(at, 4 * kPage));
}

TEST_F(VirtualMemoryTest, ARetainedHandleOutlivesItsFirstRelease) {
  const CUdeviceptr at = reserve(kPage);
  const CUmemGenericAllocationHandle handle = create(kPage);
  map(at, kPage, handle);
  CUmemGenericAllocationHandle again = 0;
  EXPECT_OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at + 100)));
  EXPECT_EQ(again, handle);
  EXPECT_OK(cuMemRelease(handle));
  CUmemAllocationProp properties{};
  EXPECT_OK(cuMemGetAllocationPropertiesFromHandle(&properties, again));
  EXPECT_EQ(properties.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_OK(cuMemRelease(again));
}

TEST_F(VirtualMemoryTest, MoreThanTheDeviceHasIsOutOfMemoryAndChangesNothing) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = on_device();
  std::size_t before = 0, after = 0, total = 0;
  EXPECT_OK(cuMemGetInfo(&before, &total));
  EXPECT_EQ(cuMemCreate(&handle, total + kPage, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
}

TEST_F(VirtualMemoryTest, CallsCostWhatTheProfileSays) {
  const CUdeviceptr at = reserve(kPage);
  const std::int64_t start = control().now_ns();
  const CUmemGenericAllocationHandle handle = create(kPage);
  EXPECT_EQ(control().now_ns() - start, 193'000);
  const std::int64_t created = control().now_ns();
  map(at, kPage, handle);
  EXPECT_EQ(control().now_ns() - created, 1'500 + 36'000);
  const std::int64_t mapped = control().now_ns();
  EXPECT_OK(cuMemUnmap(at, kPage));
  EXPECT_EQ(control().now_ns() - mapped, 26'000);
}

TEST_F(VirtualMemoryTest, MemoryOfTheHostTakesNoneOfTheDevice) {
  std::size_t before = 0, after = 0, total = 0;
  EXPECT_OK(cuMemGetInfo(&before, &total));
  CUmemAllocationProp properties = on_device();
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_OK(cuMemCreate(&handle, kPage, &properties, 0));
  EXPECT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
  const CUdeviceptr at = reserve(kPage);
  map(at, kPage, handle);
  EXPECT_OK(cuMemsetD8(at, 7, kPage));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(*reinterpret_cast<unsigned char*>(at + kPage - 1), 7) << "the host reads it where it lies";
  EXPECT_OK(cuMemUnmap(at, kPage));
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
}

TEST_F(VirtualMemoryTest, WhatIsWrongIsRefused) {
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties = on_device();
  EXPECT_EQ(cuMemAddressReserve(&at, kPage + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(nullptr, kPage, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 4096, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, kPage, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
  EXPECT_EQ(cuMemCreate(&handle, kPage, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(cuMemRelease(12345), CUDA_SUCCESS);
  at = reserve(kPage);
  EXPECT_NE(cuMemMap(at, kPage, 0, 12345, 0), CUDA_SUCCESS);
  EXPECT_NE(cuMemUnmap(at, kPage), CUDA_SUCCESS);
  handle = create(kPage);
  map(at, kPage, handle);
  EXPECT_NE(cuMemMap(at, kPage, 0, handle, 0), CUDA_SUCCESS) << "something is mapped there";
  EXPECT_NE(cuMemAddressFree(at, kPage), CUDA_SUCCESS) << "something is mapped there";
}

// Its properties name the device. According to the CUDA Driver API, cuMemCreate does not return an error for an invalid
// context.
TEST_F(VirtualMemoryTest, PhysicalMemoryNeedsNoContext) {
  ASSERT_OK(cuCtxSetCurrent(nullptr));
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle made = 0;
  EXPECT_OK(cuMemCreate(&made, kPage, &properties, 0));
  ASSERT_OK(cuCtxSetCurrent(context_));
  EXPECT_OK(cuMemRelease(made));
}

}  // namespace
