// SPDX-License-Identifier: Apache-2.0
// cuMemAlloc and similar calls, and managed memory.
#include "tests/simulated_cuda/device_fixture.h"

namespace {

class AllocationTest : public DeviceTest {};

TEST_F(AllocationTest, MemoryIsAlignedDistinctAndZero) {
  const CUdeviceptr one = allocate(100), other = allocate(100);
  EXPECT_EQ(one % 256, 0u);
  EXPECT_EQ(other % 256, 0u);
  EXPECT_NE(one, other);
  EXPECT_EQ(read<unsigned>(one, 25), std::vector<unsigned>(25, 0));
}

TEST_F(AllocationTest, MemoryThatIsUsedAgainIsZeroAgain) {
  const CUdeviceptr first = allocate(kPage);
  EXPECT_OK(cuMemsetD8(first, 7, kPage));
  EXPECT_OK(cuMemFree(first));
  const CUdeviceptr second = allocate(kPage);
  EXPECT_EQ(read<unsigned>(second, 4), std::vector<unsigned>(4, 0));
}

TEST_F(AllocationTest, FreeWaitsForPendingWork) {
  CUstream stream = make_stream();
  const CUdeviceptr at = allocate(kPage);
  busy(stream, 1000);
  EXPECT_OK(cuMemFree(at));
  EXPECT_OK(cuStreamQuery(stream));
  EXPECT_GE(control().now_ns(), 1'000'000);
}

TEST_F(AllocationTest, TheDeviceRunsOutExactlyWhenItIsFull) {
  std::size_t free = 0, total = 0;
  EXPECT_OK(cuMemGetInfo(&free, &total));
  const CUdeviceptr all = allocate(free);
  CUdeviceptr more = 0;
  EXPECT_EQ(cuMemAlloc(&more, kPage), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_OK(cuMemFree(all));
  EXPECT_OK(cuMemAlloc(&more, free));
}

TEST_F(AllocationTest, OnlyTheBeginningOfAnAllocationCanBeFreed) {
  const CUdeviceptr at = allocate(4096);
  EXPECT_EQ(cuMemFree(at + 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFree(at));
  EXPECT_EQ(cuMemFree(at), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFree(0));
}

TEST_F(AllocationTest, SizesThatCanNotBeAreRefused) {
  CUdeviceptr at = 0;
  EXPECT_EQ(cuMemAlloc(&at, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(&at, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(AllocationTest, PitchedRowsAreApartAndEveryRowIsThere) {
  CUdeviceptr at = 0;
  std::size_t pitch = 0, bytes = 0;
  ASSERT_OK(cuMemAllocPitch(&at, &pitch, 1000, 7, 4));
  EXPECT_GE(pitch, 1000u);
  EXPECT_EQ(pitch % 512, 0u);
  EXPECT_OK(cuMemGetAddressRange(nullptr, &bytes, at));
  EXPECT_EQ(bytes, pitch * 7);
  EXPECT_EQ(cuMemAllocPitch(&at, &pitch, 1000, 7, 3), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(AllocationTest, AnAddressLeadsToItsAllocation) {
  const CUdeviceptr at = allocate(5000);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_OK(cuMemGetAddressRange(&base, &bytes, at + 4999));
  EXPECT_EQ(base, at);
  EXPECT_EQ(bytes, 5000u);
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, 4096), CUDA_ERROR_NOT_FOUND);
}

TEST_F(AllocationTest, ManagedMemoryIsOneForHostAndDevice) {
  CUdeviceptr at = 0;
  ASSERT_OK(cuMemAllocManaged(&at, 3 * kPage, CU_MEM_ATTACH_GLOBAL));
  auto* host = reinterpret_cast<unsigned*>(at);
  EXPECT_EQ(host[5], 0u);
  host[5] = 77;
  EXPECT_EQ(read<unsigned>(at, 6)[5], 77u);
  EXPECT_OK(cuMemsetD32(at, 3, 100));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(host[99], 3u);
  EXPECT_OK(cuMemPrefetchAsync(at, kPage, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, nullptr));
  EXPECT_OK(cuMemFree(at));
  EXPECT_EQ(cuMemAllocManaged(&at, 16, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(AllocationTest, LiveBytesAreWhatWasAskedFor) {
  const std::uint64_t before = statistics().live_bytes;
  const CUdeviceptr at = allocate(12345);
  EXPECT_EQ(statistics().live_bytes, before + 12345);
  EXPECT_OK(cuMemFree(at));
  EXPECT_EQ(statistics().live_bytes, before);
}

}  // namespace
