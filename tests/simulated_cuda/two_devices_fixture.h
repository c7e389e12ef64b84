// SPDX-License-Identifier: Apache-2.0
// Two new simulated devices, with the primary context of each retained.
#pragma once

#include "tests/simulated_cuda/device_fixture.h"
#include "tests/simulated_cuda/ptx.h"

class TwoDevicesTest : public DeviceTest {
 protected:
  void SetUp() override {
    control().reset();
    ASSERT_EQ(control().configure("devices", "2"), nullptr);
    DeviceTest::SetUp();
    contexts_[0] = context_;
    ASSERT_OK(cuDevicePrimaryCtxRetain(&contexts_[1], 1));
  }

  // Later tests of this process may need a single device again.
  void TearDown() override {
    control().reset();
    ASSERT_EQ(control().configure("devices", "1"), nullptr);
  }

  void use(int device) { ASSERT_OK(cuCtxSetCurrent(contexts_[device])); }

  // Makes the device current.
  std::size_t free_bytes(int device) {
    std::size_t free = 0, total = 0;
    use(device);
    EXPECT_OK(cuMemGetInfo(&free, &total));
    EXPECT_EQ(total, std::size_t{1} << 30);
    return free;
  }

  static CUmemGenericAllocationHandle create(std::size_t bytes, int device) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    EXPECT_OK(cuMemCreate(&handle, bytes, &properties, 0));
    return handle;
  }

  static void grant(CUdeviceptr at, std::size_t bytes, int device,
                    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access.flags = flags;
    EXPECT_OK(cuMemSetAccess(at, bytes, &access, 1));
  }

  // A new page of the device, mapped and accessible to that device.
  static CUdeviceptr mapped_page(int device) {
    CUdeviceptr at = 0;
    EXPECT_OK(cuMemAddressReserve(&at, kPage, 0, 0, 0));
    const CUmemGenericAllocationHandle handle = create(kPage, device);
    EXPECT_OK(cuMemMap(at, kPage, 0, handle, 0));
    EXPECT_OK(cuMemRelease(handle));
    grant(at, kPage, device);
    return at;
  }

  CUcontext contexts_[2] = {};
};
