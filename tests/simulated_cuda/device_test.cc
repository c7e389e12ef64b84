// SPDX-License-Identifier: Apache-2.0
// Attributes and properties of the device.
#include <cstring>
#include <string>

#include "tests/simulated_cuda/device_fixture.h"

namespace {

class DeviceFactsTest : public DeviceTest {
 protected:
  static int attribute(CUdevice_attribute which) {
    int value = -1;
    EXPECT_OK(cuDeviceGetAttribute(&value, which, 0));
    return value;
  }
};

TEST_F(DeviceFactsTest, ThereIsOneDevice) {
  int count = 0;
  CUdevice device = -1;
  EXPECT_OK(cuDeviceGetCount(&count));
  EXPECT_EQ(count, 1);
  EXPECT_OK(cuDeviceGet(&device, 0));
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cuDeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGet(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceFactsTest, MemoryIsWhatTheProfileOrTheSettingSays) {
  std::size_t bytes = 0;
  EXPECT_OK(cuDeviceTotalMem(&bytes, 0));
  EXPECT_EQ(bytes, std::size_t{1} << 30);
}

TEST_F(DeviceFactsTest, FiguresComeFromTheProfile) {
  control().reset();
  ASSERT_EQ(control().configure("device", "h200"), nullptr);
  ASSERT_OK(cuInit(0));
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 9);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), 0);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 132);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), 227 << 10);
  char name[64];
  EXPECT_OK(cuDeviceGetName(name, sizeof name, 0));
  EXPECT_NE(std::strstr(name, "H200"), nullptr);
  EXPECT_NE(std::strstr(name, "simulated"), nullptr);
}

TEST_F(DeviceFactsTest, WhatTheLibraryNeedsIsThere) {
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED), 1);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
}

TEST_F(DeviceFactsTest, UnknownAttributesAreRefused) {
  int value = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 3), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DeviceFactsTest, ItsPlaceLeadsBackToIt) {
  char id[32];
  CUdevice device = -1;
  EXPECT_OK(cuDeviceGetPCIBusId(id, sizeof id, 0));
  EXPECT_OK(cuDeviceGetByPCIBusId(&device, id));
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cuDeviceGetByPCIBusId(&device, "0000:ff:00.0"), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetPCIBusId(id, 4, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceFactsTest, UuidsTellProfilesApart) {
  CUuuid one{}, other{};
  EXPECT_OK(cuDeviceGetUuid(&one, 0));
  control().reset();
  ASSERT_EQ(control().configure("device", "v100-16g"), nullptr);
  ASSERT_OK(cuInit(0));
  EXPECT_OK(cuDeviceGetUuid(&other, 0));
  EXPECT_NE(std::memcmp(&one, &other, sizeof one), 0);
}

TEST_F(DeviceFactsTest, ADeviceIsNotItsOwnPeer) {
  int can = 1;
  EXPECT_OK(cuDeviceCanAccessPeer(&can, 0, 0));
  EXPECT_EQ(can, 0);
}

}  // namespace
