// SPDX-License-Identifier: Apache-2.0
// A new simulated device with a current context for each test.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "driver/page_size.h"
#include "simulator/control.h"

#define EXPECT_OK(call) EXPECT_EQ(call, CUDA_SUCCESS)
#define ASSERT_OK(call) ASSERT_EQ(call, CUDA_SUCCESS)

class DeviceTest : public testing::Test {
 protected:
  static constexpr std::size_t kPage = thermocline::kDefaultPageBytes;

  void SetUp() override {
    control().reset();
    ASSERT_EQ(control().configure("device", "reference"), nullptr);
    ASSERT_EQ(control().configure("memory-bytes", "1073741824"), nullptr);
    // Nothing runs by itself, so a test's result does not depend on its speed.
    ASSERT_EQ(control().configure("progress", "off"), nullptr);
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_OK(cuCtxSetCurrent(context_));
  }

  static const SimulatedDeviceControl& control() { return *simulated_device_control(); }

  static SimulatedStatistics statistics() {
    SimulatedStatistics result{};
    result.size = sizeof result;
    control().statistics(&result);
    return result;
  }

  static CUdeviceptr allocate(std::size_t bytes) {
    CUdeviceptr at = 0;
    EXPECT_OK(cuMemAlloc(&at, bytes));
    return at;
  }

  template <typename T>
  static std::vector<T> read(CUdeviceptr at, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_OK(cuMemcpyDtoH(values.data(), at, count * sizeof(T)));
    return values;
  }

  template <typename T>
  static void write(CUdeviceptr at, const std::vector<T>& values) {
    EXPECT_OK(cuMemcpyHtoD(at, values.data(), values.size() * sizeof(T)));
  }

  static CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    EXPECT_OK(cuStreamCreate(&stream, flags));
    return stream;
  }

  // An operator of that duration that accesses nothing.
  static void busy(CUstream stream, double microseconds) {
    EXPECT_EQ(control().launch_operator(stream, "busy", 0, 0, microseconds, nullptr, 0), 0);
  }

  CUcontext context_ = nullptr;
};
