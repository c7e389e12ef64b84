// SPDX-License-Identifier: Apache-2.0
// Memory in stream order.
#include "tests/simulated_cuda/device_fixture.h"

namespace {

class PoolTest : public DeviceTest {
 protected:
  static CUmemoryPool make_pool() {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool pool = nullptr;
    EXPECT_OK(cuMemPoolCreate(&pool, &properties));
    return pool;
  }

  static cuuint64_t counter(CUmemoryPool pool, CUmemPool_attribute attribute) {
    cuuint64_t value = 0;
    EXPECT_OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
  }
};

TEST_F(PoolTest, FreedMemoryIsUsableUntilTheStreamGetsThere) {
  CUstream stream = make_stream();
  CUdeviceptr at = 0;
  ASSERT_OK(cuMemAllocAsync(&at, kPage, stream));
  std::vector<unsigned> host(4);
  void* pinned = nullptr;
  ASSERT_OK(cuMemHostAlloc(&pinned, 16, 0));
  busy(stream, 1000);
  EXPECT_OK(cuMemsetD32Async(at, 8, 4, stream));
  EXPECT_OK(cuMemcpyDtoHAsync(pinned, at, 16, stream));
  EXPECT_OK(cuMemFreeAsync(at, stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY) << "the host did not wait";
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(static_cast<unsigned*>(pinned)[3], 8u);
}

TEST_F(PoolTest, AFullDeviceWaitsForFreesThatAreUnderWay) {
  CUstream stream = make_stream();
  std::size_t free = 0, total = 0;
  EXPECT_OK(cuMemGetInfo(&free, &total));
  CUdeviceptr first = 0, second = 0;
  ASSERT_OK(cuMemAllocAsync(&first, free, stream));
  EXPECT_EQ(cuMemAllocAsync(&second, free, stream), CUDA_ERROR_OUT_OF_MEMORY);
  busy(stream, 1000);
  EXPECT_OK(cuMemFreeAsync(first, stream));
  EXPECT_OK(cuMemAllocAsync(&second, free, stream));
}

TEST_F(PoolTest, AStreamTakesBackAtOnceWhatItFreed) {
  CUstream stream = make_stream(), other = make_stream();
  CUdeviceptr first = 0, second = 0, third = 0;
  ASSERT_OK(cuMemAllocAsync(&first, 5 * kPage, stream));
  busy(stream, 100000);
  EXPECT_OK(cuMemsetD8Async(first, 7, 5 * kPage, stream));
  EXPECT_OK(cuMemFreeAsync(first, stream));
  ASSERT_OK(cuMemAllocAsync(&third, 5 * kPage, other));
  EXPECT_NE(third, first) << "another stream may not have it yet";
  const std::int64_t before = control().now_ns();
  ASSERT_OK(cuMemAllocAsync(&second, 5 * kPage - 100, stream));
  EXPECT_EQ(second, first);
  EXPECT_LT(control().now_ns() - before, 10'000) << "no page is created and nobody waits";
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(read<unsigned>(second, 4), std::vector<unsigned>(4, 0)) << "what nobody wrote since is zero";
}

TEST_F(PoolTest, AnotherStreamTakesItWhenTheWorkBeforeTheFreeIsDone) {
  CUstream stream = make_stream(), other = make_stream();
  CUdeviceptr first = 0, second = 0;
  ASSERT_OK(cuMemAllocAsync(&first, kPage, stream));
  EXPECT_OK(cuMemFreeAsync(first, stream));
  while (cuStreamQuery(stream) != CUDA_SUCCESS) continue;
  ASSERT_OK(cuMemAllocAsync(&second, kPage, other));
  EXPECT_EQ(second, first);
}

TEST_F(PoolTest, WhatIsKeptBeyondTheThresholdGoesBackAtASynchronisation) {
  CUmemoryPool pool = make_pool();
  std::size_t before = 0, kept = 0, after = 0, total = 0;
  EXPECT_OK(cuMemGetInfo(&before, &total));
  CUdeviceptr one = 0, other = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&one, 3 * kPage, pool, nullptr));
  ASSERT_OK(cuMemAllocFromPoolAsync(&other, 4 * kPage, pool, nullptr));
  EXPECT_OK(cuMemFreeAsync(one, nullptr));
  EXPECT_OK(cuMemFreeAsync(other, nullptr));
  EXPECT_EQ(counter(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 7 * kPage);
  cuuint64_t threshold = 5 * kPage;
  EXPECT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuMemGetInfo(&kept, &total));
  EXPECT_EQ(kept, before - 4 * kPage);
  EXPECT_OK(cuMemPoolTrimTo(pool, 0));
  EXPECT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
  EXPECT_EQ(counter(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 7 * kPage);
}

TEST_F(PoolTest, WhatPoolsKeepIsThereForEverybodyWhenMemoryRunsOut) {
  CUmemoryPool pool = nullptr;
  ASSERT_OK(cuDeviceGetDefaultMemPool(&pool, 0));
  cuuint64_t threshold = UINT64_MAX;
  EXPECT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  std::size_t free = 0, total = 0;
  EXPECT_OK(cuMemGetInfo(&free, &total));
  CUdeviceptr at = 0;
  ASSERT_OK(cuMemAllocAsync(&at, free, nullptr));
  EXPECT_OK(cuMemFreeAsync(at, nullptr));
  EXPECT_OK(cuCtxSynchronize());
  CUdeviceptr all = 0;
  EXPECT_OK(cuMemAlloc(&all, free));
}

TEST_F(PoolTest, ADestroyedPoolGivesEverythingBack) {
  CUmemoryPool pool = make_pool();
  CUstream stream = make_stream();
  std::size_t before = 0, after = 0, total = 0;
  EXPECT_OK(cuMemGetInfo(&before, &total));
  CUdeviceptr freed = 0, used = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&freed, kPage, pool, stream));
  ASSERT_OK(cuMemAllocFromPoolAsync(&used, kPage, pool, stream));
  EXPECT_OK(cuMemFreeAsync(freed, stream));
  EXPECT_OK(cuMemPoolDestroy(pool));
  EXPECT_OK(cuMemsetD8(used, 1, kPage)) << "what is in use stays";
  EXPECT_OK(cuMemFreeAsync(used, stream));
  EXPECT_OK(cuStreamDestroy(stream));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
}

TEST_F(PoolTest, ADoubleFreeIsRefused) {
  CUdeviceptr at = 0;
  ASSERT_OK(cuMemAllocAsync(&at, 64, nullptr));
  EXPECT_OK(cuMemFreeAsync(at, nullptr));
  EXPECT_EQ(cuMemFreeAsync(at, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(cuMemFree(at), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PoolTest, UsedBytesAreCountedByPool) {
  CUmemoryPool pool = make_pool();
  CUdeviceptr at = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&at, 3 * kPage, pool, nullptr));
  EXPECT_EQ(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 3 * kPage);
  EXPECT_OK(cuMemFreeAsync(at, nullptr));
  EXPECT_EQ(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_EQ(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 3 * kPage);
  cuuint64_t zero = 0;
  EXPECT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
  EXPECT_EQ(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0u);
}

TEST_F(PoolTest, SettingsAreRemembered) {
  CUmemoryPool pool = nullptr;
  ASSERT_OK(cuDeviceGetDefaultMemPool(&pool, 0));
  cuuint64_t threshold = 12345;
  EXPECT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  EXPECT_EQ(counter(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 12345u);
  int reuse = 0;
  EXPECT_OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
  EXPECT_EQ(reuse, 1);
}

TEST_F(PoolTest, TheCurrentPoolServesAllocationsWithoutOne) {
  CUmemoryPool mine = make_pool(), current = nullptr, standard = nullptr;
  EXPECT_OK(cuDeviceSetMemPool(0, mine));
  EXPECT_OK(cuDeviceGetMemPool(&current, 0));
  EXPECT_EQ(current, mine);
  CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  EXPECT_OK(cuMemGetMemPool(&current, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT_EQ(current, mine);
  EXPECT_EQ(cuMemGetMemPool(&current, &device, CU_MEM_ALLOCATION_TYPE_MANAGED), CUDA_ERROR_NOT_SUPPORTED);
  CUdeviceptr at = 0;
  ASSERT_OK(cuMemAllocAsync(&at, 64, nullptr));
  CUmemoryPool of_pointer = nullptr;
  EXPECT_OK(cuPointerGetAttribute(&of_pointer, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
  EXPECT_EQ(of_pointer, mine);
  EXPECT_OK(cuMemPoolDestroy(mine));
  EXPECT_EQ(cuMemAllocFromPoolAsync(&at, 64, mine, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuDeviceGetMemPool(&current, 0));
  EXPECT_OK(cuDeviceGetDefaultMemPool(&standard, 0));
  EXPECT_EQ(current, standard);
  EXPECT_EQ(cuMemPoolDestroy(standard), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PoolTest, APoolHoldsItsLimit) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.maxSize = 4 * kPage;
  CUmemoryPool pool = nullptr;
  ASSERT_OK(cuMemPoolCreate(&pool, &properties));
  CUdeviceptr at = 0;
  EXPECT_OK(cuMemAllocFromPoolAsync(&at, 3 * kPage, pool, nullptr));
  EXPECT_EQ(cuMemAllocFromPoolAsync(&at, 2 * kPage, pool, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace
