// SPDX-License-Identifier: Apache-2.0
// Pinned host memory.
#include <cstdlib>

#include "tests/simulated_cuda/device_fixture.h"

namespace {

class HostMemoryTest : public DeviceTest {};

TEST_F(HostMemoryTest, TheDeviceSeesItUnderTheSameAddress) {
  void* at = nullptr;
  CUdeviceptr device = 0;
  unsigned flags = 0;
  ASSERT_OK(cuMemHostAlloc(&at, 4096, CU_MEMHOSTALLOC_PORTABLE));
  static_cast<unsigned*>(at)[1] = 42;
  EXPECT_OK(cuMemHostGetDevicePointer(&device, at, 0));
  EXPECT_EQ(device, reinterpret_cast<CUdeviceptr>(at));
  EXPECT_OK(cuMemHostGetFlags(&flags, at));
  EXPECT_NE(flags & CU_MEMHOSTALLOC_PORTABLE, 0u);
  EXPECT_OK(cuMemFreeHost(at));
  EXPECT_EQ(cuMemFreeHost(at), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(HostMemoryTest, PinnedBytesAreReadWhenTheCopyRuns) {
  CUstream stream = make_stream();
  void* at = nullptr;
  ASSERT_OK(cuMemAllocHost(&at, 4));
  auto* value = static_cast<unsigned*>(at);
  const CUdeviceptr device = allocate(4);
  *value = 1;
  EXPECT_OK(cuMemcpyHtoDAsync(device, value, 4, stream));
  *value = 2;
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(read<unsigned>(device, 1)[0], 2u);
}

TEST_F(HostMemoryTest, RegisteredMemoryIsPinnedUntilUnregistered) {
  std::vector<unsigned> host(1024, 7);
  CUdeviceptr device = 0;
  EXPECT_EQ(cuMemHostGetDevicePointer(&device, host.data(), 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuMemHostRegister(host.data(), 4096, 0));
  EXPECT_OK(cuMemHostGetDevicePointer(&device, host.data() + 5, 0));
  EXPECT_EQ(cuMemHostRegister(host.data(), 4096, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_OK(cuMemHostUnregister(host.data()));
  EXPECT_EQ(cuMemHostUnregister(host.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_F(HostMemoryTest, FreeWaitsForPendingWork) {
  CUstream stream = make_stream();
  void* at = nullptr;
  ASSERT_OK(cuMemAllocHost(&at, kPage));
  const CUdeviceptr device = allocate(kPage);
  EXPECT_OK(cuMemcpyDtoHAsync(at, device, kPage, stream));
  EXPECT_OK(cuMemFreeHost(at));
  EXPECT_OK(cuStreamQuery(stream));
}

TEST_F(HostMemoryTest, WhatIsWrongIsRefused) {
  void* at = nullptr;
  EXPECT_EQ(cuMemHostAlloc(&at, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostAlloc(&at, 16, 1u << 20), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostAlloc(nullptr, 16, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
