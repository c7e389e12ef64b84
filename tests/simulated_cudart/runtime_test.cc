// SPDX-License-Identifier: Apache-2.0
// The documented runtime API over the simulated driver: devices, memory, copies, errors. Kernels are in
// kernels_test.cu.
#include <cuda.h>
#include <cuda_runtime.h>

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

// The header declares these only for programs that are compiled for per-thread default streams.
extern "C" cudaError_t cudaMemcpyAsync_ptsz(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
extern "C" cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t);

namespace {

constexpr std::size_t kBytes = 1 << 20;

class Runtime : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "a test leaves an error behind"; }

  static std::vector<unsigned char> pattern(std::size_t bytes) {
    std::vector<unsigned char> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(i * 7 + i / 256);
    return data;
  }
};

TEST_F(Runtime, DevicesAreDescribed) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  ASSERT_GE(count, 1);
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_GT(std::strlen(properties.name), 0u);
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_GE(properties.major, 7);
  EXPECT_GE(properties.maxThreadsPerBlock, 1024);
  EXPECT_GT(properties.multiProcessorCount, 0);
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(properties.totalGlobalMem, total);
  EXPECT_LE(free, total);
  int warp = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 0), cudaSuccess);
  EXPECT_EQ(warp, properties.warpSize);
  EXPECT_EQ(cudaSetDevice(count), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(Runtime, TheLastErrorBelongsToItsThread) {
  void* memory = nullptr;
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, total * 2), cudaErrorMemoryAllocation);
  std::thread([] { EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST_F(Runtime, NothingAskedForIsNothingGiven) {
  void* memory = &memory;
  EXPECT_EQ(cudaMalloc(&memory, 0), cudaSuccess);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(nullptr), cudaSuccess);
  EXPECT_EQ(cudaMalloc(nullptr, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(Runtime, CopiesOfEveryKindKeepTheBytes) {
  const auto data = pattern(kBytes);
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, kBytes), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&second, kBytes), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(first, data.data(), kBytes, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(second, first, kBytes, cudaMemcpyDeviceToDevice), cudaSuccess);
  std::vector<unsigned char> back(kBytes);
  ASSERT_EQ(cudaMemcpy(back.data(), second, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back, data);
  std::fill(back.begin(), back.end(), static_cast<unsigned char>(0));
  ASSERT_EQ(cudaMemcpy(back.data(), second, kBytes, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(back, data);
  ASSERT_EQ(cudaMemset(first, 0x5a, kBytes / 2), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(back.data(), first, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back[0], 0x5a);
  EXPECT_EQ(back[kBytes / 2 - 1], 0x5a);
  EXPECT_EQ(back[kBytes / 2], data[kBytes / 2]);
  EXPECT_EQ(cudaMemcpy(first, second, 1, static_cast<cudaMemcpyKind>(7)), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
}

TEST_F(Runtime, PitchedRowsAreCopiedAndSetWithinTheirWidth) {
  constexpr std::size_t kWidth = 100;
  constexpr std::size_t kRows = 7;
  void* memory = nullptr;
  std::size_t pitch = 0;
  ASSERT_EQ(cudaMallocPitch(&memory, &pitch, kWidth, kRows), cudaSuccess);
  EXPECT_GE(pitch, kWidth);
  ASSERT_EQ(cudaMemset(memory, 0, pitch * kRows), cudaSuccess);
  const auto data = pattern(kWidth * kRows);
  ASSERT_EQ(cudaMemcpy2D(memory, pitch, data.data(), kWidth, kWidth, kRows, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemset2D(memory, pitch, 0xff, 10, 2), cudaSuccess);
  std::vector<unsigned char> rows(pitch * kRows);
  ASSERT_EQ(cudaMemcpy(rows.data(), memory, rows.size(), cudaMemcpyDeviceToHost), cudaSuccess);
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t x = 0; x < pitch; ++x) {
      const unsigned char expected = x >= kWidth ? 0 : row < 2 && x < 10 ? 0xff : data[row * kWidth + x];
      ASSERT_EQ(rows[row * pitch + x], expected) << row << ' ' << x;
    }
  }
  EXPECT_EQ(cudaMemcpy2D(memory, kWidth - 1, data.data(), kWidth, kWidth, 1, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(Runtime, BoxesAreCopiedAtTheirPositions) {
  constexpr std::size_t kBoxBytes = std::size_t{24} * 5 * 4;
  cudaPitchedPtr device;
  const cudaExtent extent = make_cudaExtent(24, 5, 4);
  ASSERT_EQ(cudaMalloc3D(&device, extent), cudaSuccess);
  ASSERT_EQ(cudaMemset3D(device, 0, extent), cudaSuccess);
  auto data = pattern(kBoxBytes);
  cudaMemcpy3DParms box = {};
  box.srcPtr = make_cudaPitchedPtr(data.data(), 24, 24, 5);
  box.dstPtr = device;
  box.dstPos = make_cudaPos(8, 1, 2);
  box.extent = make_cudaExtent(16, 3, 2);
  box.kind = cudaMemcpyHostToDevice;
  ASSERT_EQ(cudaMemcpy3D(&box), cudaSuccess);
  std::vector<unsigned char> back(kBoxBytes);
  cudaMemcpy3DParms all = {};
  all.srcPtr = device;
  all.dstPtr = make_cudaPitchedPtr(back.data(), 24, 24, 5);
  all.extent = extent;
  all.kind = cudaMemcpyDeviceToHost;
  ASSERT_EQ(cudaMemcpy3D(&all), cudaSuccess);
  for (std::size_t z = 0; z < 4; ++z) {
    for (std::size_t y = 0; y < 5; ++y) {
      for (std::size_t x = 0; x < 24; ++x) {
        const bool inside = x >= 8 && y >= 1 && y < 4 && z >= 2;
        const unsigned char expected = inside ? data[((z - 2) * 5 + y - 1) * 24 + x - 8] : 0;
        ASSERT_EQ(back[(z * 5 + y) * 24 + x], expected) << x << ' ' << y << ' ' << z;
      }
    }
  }
  EXPECT_EQ(cudaFree(device.ptr), cudaSuccess);
}

TEST_F(Runtime, PointersSayWhatTheyAre) {
  void* device = nullptr;
  void* pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&device, kBytes), cudaSuccess);
  ASSERT_EQ(cudaHostAlloc(&pinned, kBytes, cudaHostAllocPortable), cudaSuccess);
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, static_cast<char*>(device) + 100), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &attributes), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(Runtime, StreamsAndEventsOrderWork) {
  cudaStream_t producer = nullptr;
  cudaStream_t consumer = nullptr;
  cudaEvent_t ready = nullptr;
  ASSERT_EQ(cudaStreamCreate(&producer), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&consumer, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&ready), cudaSuccess);
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, kBytes), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&second, kBytes, consumer), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(first, 0x21, kBytes, producer), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(ready, producer), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(consumer, ready, 0), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(second, first, kBytes, cudaMemcpyDeviceToDevice, consumer), cudaSuccess);
  std::vector<unsigned char> back(kBytes);
  ASSERT_EQ(cudaMemcpyAsync(back.data(), second, kBytes, cudaMemcpyDeviceToHost, consumer), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(second, consumer), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(consumer), cudaSuccess);
  EXPECT_EQ(std::accumulate(back.begin(), back.end(), 0ull), 0x21ull * kBytes);
  EXPECT_EQ(cudaEventQuery(ready), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, ready, ready), cudaSuccess);
  EXPECT_EQ(milliseconds, 0);
  EXPECT_EQ(cudaEventDestroy(ready), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(producer), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(consumer), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
}

TEST_F(Runtime, HostFunctionsAndCallbacksRunInTheirStreamsOrder) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  std::vector<int> calls;
  ASSERT_EQ(cudaLaunchHostFunc(
                stream, [](void* data) { static_cast<std::vector<int>*>(data)->push_back(1); }, &calls),
            cudaSuccess);
  ASSERT_EQ(cudaStreamAddCallback(
                stream,
                [](cudaStream_t, cudaError_t status, void* data) {
                  static_cast<std::vector<int>*>(data)->push_back(status == cudaSuccess ? 2 : -1);
                },
                &calls, 0),
            cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(calls, (std::vector<int>{1, 2}));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Runtime, PoolsAreMadeAndCounted) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  std::uint64_t threshold = 1 << 24;
  ASSERT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold), cudaSuccess);
  std::uint64_t found = 0;
  ASSERT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &found), cudaSuccess);
  EXPECT_EQ(found, threshold);
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&memory, kBytes, pool, nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &found), cudaSuccess);
  EXPECT_GE(found, kBytes);
  ASSERT_EQ(cudaFreeAsync(memory, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
  ASSERT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  EXPECT_NE(pool, nullptr);
}

TEST_F(Runtime, PerThreadVariantsUseTheThreadsOwnStream) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, kBytes), cudaSuccess);
  const auto data = pattern(kBytes);
  std::vector<unsigned char> back(kBytes);
  std::thread([&] {
    EXPECT_EQ(cudaMemcpyAsync_ptsz(memory, data.data(), kBytes, cudaMemcpyHostToDevice, nullptr), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync_ptsz(back.data(), memory, kBytes, cudaMemcpyDeviceToHost, nullptr), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize_ptsz(nullptr), cudaSuccess);
  }).join();
  EXPECT_EQ(back, data);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(Runtime, DriverFunctionsAreFoundByNameAndVersion) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 13000, cudaEnableDefault, &result), cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointSuccess);
  ASSERT_NE(function, nullptr);
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  CUdeviceptr address = 0;
  EXPECT_EQ(reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t)>(function)(&address, 4096), CUDA_SUCCESS);
  EXPECT_EQ(cudaFree(reinterpret_cast<void*>(address)), cudaSuccess);
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &function, 13000, cudaEnableDefault, &result),
            cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(function, nullptr);
}

TEST_F(Runtime, AResetDeviceStartsAfresh) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, kBytes), cudaSuccess);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&memory, kBytes), cudaSuccess);
  EXPECT_EQ(cudaMemset(memory, 1, kBytes), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(Runtime, SymbolsThatNobodyRegisteredAreRefused) {
  void* pointer = nullptr;
  EXPECT_EQ(cudaGetSymbolAddress(&pointer, &pointer), cudaErrorInvalidSymbol);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidSymbol);
  EXPECT_EQ(cudaLaunchKernel(&pointer, dim3(1), dim3(1), nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
}

}  // namespace
