// SPDX-License-Identifier: Apache-2.0
// The runtime with a driver that it can not use (broken_driver.c, first on the library path).
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace {

TEST(RuntimeWithoutDriver, SaysThatTheDriverIsInsufficient) {
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 0);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1024), cudaErrorInsufficientDriver);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInsufficientDriver);
}

TEST(RuntimeWithoutDriver, StillKnowsItsOwnVersionAndItsErrors) {
  int version = 0;
  EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, CUDART_VERSION);
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 0);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

}  // namespace
