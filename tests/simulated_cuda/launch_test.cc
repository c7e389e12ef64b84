// SPDX-License-Identifier: Apache-2.0
// Launches: ways to pass parameters, host implementations, mixing, refused launches.
#include <cstring>

#include "tests/simulated_cuda/device_fixture.h"
#include "tests/simulated_cuda/ptx.h"

namespace {

struct Dim3 {
  unsigned x, y, z;
};

struct Seen {
  int calls = 0;
  unsigned char first = 0;
  char second[9] = {};
  std::uint64_t third = 0;
  Dim3 grid{}, block{};
} seen;

}  // namespace

// For _Z5scalePffi: the mangled name has priority over the plain one.
extern "C" __attribute__((visibility("default"))) void simulated__Z5scalePffi(void** args, Dim3, Dim3) {
  auto* values = *static_cast<float**>(args[0]);
  for (int i = 0; i < *static_cast<int*>(args[2]); ++i) values[i] *= *static_cast<float*>(args[1]);
}

extern "C" __attribute__((visibility("default"))) void simulated_scale(void**, Dim3, Dim3) {
  FAIL() << "the mangled name wins";
}

extern "C" __attribute__((visibility("default"))) void simulated_packed(void** args, Dim3 grid, Dim3 block) {
  ++seen.calls;
  seen.first = *static_cast<unsigned char*>(args[0]);
  std::memcpy(seen.second, args[1], sizeof seen.second);
  std::memcpy(&seen.third, args[2], sizeof seen.third);
  seen.grid = grid;
  seen.block = block;
}

namespace {

class LaunchTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    ASSERT_OK(cuModuleLoadData(&module_, kPtx));
    seen = {};
  }

  CUfunction function(const char* name) {
    CUfunction found = nullptr;
    EXPECT_OK(cuModuleGetFunction(&found, module_, name));
    return found;
  }

  CUresult launch(const char* name, void** parameters, CUstream stream = nullptr) {
    return cuLaunchKernel(function(name), 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
  }

  void mix(CUdeviceptr to, CUdeviceptr from, CUstream stream = nullptr) {
    void* parameters[] = {&to, &from};
    EXPECT_OK(launch("mystery", parameters, stream));
  }

  CUmodule module_ = nullptr;
};

TEST_F(LaunchTest, AHostImplementationComputes) {
  const CUdeviceptr at = allocate(16);
  write<float>(at, {1, 2, 3, 4});
  float factor = 2.5f;
  int count = 3;
  void* parameters[] = {const_cast<CUdeviceptr*>(&at), &factor, &count};
  ASSERT_OK(launch("_Z5scalePffi", parameters));
  factor = 100;  // parameters are copied by the call
  EXPECT_EQ(read<float>(at, 4), (std::vector<float>{2.5f, 5.0f, 7.5f, 4.0f}));
}

TEST_F(LaunchTest, ParametersArriveAtTheirPlaces) {
  unsigned char first = 17;
  char second[9] = "12345678";
  std::uint64_t third = 0x1122334455667788;
  void* parameters[] = {&first, second, &third};
  ASSERT_OK(cuLaunchKernel(function("packed"), 2, 3, 4, 5, 6, 7, 0, nullptr, parameters, nullptr));
  EXPECT_EQ(seen.calls, 0);
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.first, 17);
  EXPECT_STREQ(seen.second, "12345678");
  EXPECT_EQ(seen.third, third);
  EXPECT_EQ(seen.grid.z, 4u);
  EXPECT_EQ(seen.block.x, 5u);
}

TEST_F(LaunchTest, APackedBufferIsAsGoodAsPointers) {
  alignas(8) unsigned char block[24] = {17};
  std::memcpy(block + 1, "abcdefgh", 9);
  const std::uint64_t third = 99;
  std::memcpy(block + 16, &third, 8);
  std::size_t bytes = sizeof block;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  ASSERT_OK(cuLaunchKernel(function("packed"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(seen.first, 17);
  EXPECT_STREQ(seen.second, "abcdefgh");
  EXPECT_EQ(seen.third, 99u);
  bytes = 20;
  EXPECT_EQ(cuLaunchKernel(function("packed"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchTest, AConfigurationSaysTheSameAsArguments) {
  CUstream stream = make_stream();
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  attribute.value.launchCompletionEvent.event = event;
  CUlaunchConfig config{};
  config.gridDimX = 9;
  config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  unsigned char first = 1;
  char second[9] = {};
  std::uint64_t third = 3;
  void* parameters[] = {&first, second, &third};
  ASSERT_OK(cuLaunchKernelEx(&config, function("packed"), parameters, nullptr));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_EQ(seen.grid.x, 9u);
  EXPECT_EQ(seen.third, 3u);
}

TEST_F(LaunchTest, ACooperativeLaunchIsALaunch) {
  unsigned char first = 5;
  char second[9] = {};
  std::uint64_t third = 3;
  void* parameters[] = {&first, second, &third};
  EXPECT_OK(cuLaunchCooperativeKernel(function("packed"), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(seen.first, 5);
}

TEST_F(LaunchTest, AKernelWithoutAnImplementationMixesTheBuffersItNames) {
  const CUdeviceptr to = allocate(4096), from = allocate(4096), other = allocate(4096);
  mix(to, from);
  const std::vector<unsigned> once = read<unsigned>(to, 1024);
  EXPECT_NE(once, std::vector<unsigned>(1024, 0));
  EXPECT_EQ(read<unsigned>(other, 1024), std::vector<unsigned>(1024, 0));
  EXPECT_EQ(statistics().kernels, 1u);
}

TEST_F(LaunchTest, MixingDependsOnEveryByteThatIsRead) {
  const auto outcome = [&](unsigned value) {
    SetUp();
    const CUdeviceptr to = allocate(1000), from = allocate(1000);
    EXPECT_OK(cuMemsetD8(from + 999, static_cast<unsigned char>(value), 1));
    mix(to, from);
    return read<unsigned char>(to, 1000);
  };
  const std::vector<unsigned char> zero = outcome(0), one = outcome(1), again = outcome(0);
  EXPECT_NE(zero, one);
  EXPECT_EQ(zero, again);
}

TEST_F(LaunchTest, MixingDoesNotDependOnAddresses) {
  const auto outcome = [&](bool shift) {
    SetUp();
    CUdeviceptr hole = 0;
    // The program's own reservation moves what is allocated after it, and is no buffer.
    if (shift) {
      EXPECT_OK(cuMemAddressReserve(&hole, 64 * kPage, 0, 0, 0));
    }
    const CUdeviceptr to = allocate(3 * kPage), from = allocate(3 * kPage);
    mix(to, from + 100);
    return read<unsigned>(to, 1000);
  };
  EXPECT_EQ(outcome(false), outcome(true));
}

TEST_F(LaunchTest, ShapesThatNoDeviceHasAreRefused) {
  const CUfunction nothing = function("nothing");
  EXPECT_OK(cuLaunchKernel(nothing, 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT_EQ(cuLaunchKernel(nothing, 1, 1, 1, 129, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE)
      << "launch bounds";
  EXPECT_EQ(cuLaunchKernel(nothing, 0, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(nothing, 1, 65536, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 65, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 48 << 10, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchTest, MissingParametersAndGarbageHandlesAreRefused) {
  int garbage = 0;
  EXPECT_EQ(launch("mystery", nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(reinterpret_cast<CUfunction>(&garbage), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
