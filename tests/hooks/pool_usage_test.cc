// SPDX-License-Identifier: Apache-2.0
#include "hooks/entry/pool_usage.h"
#include "driver/page_size.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace thermocline {
namespace {

constexpr Bytes kPage = kDefaultPageBytes;

// A handle that no other test uses.
CUmemoryPool new_pool(Bytes most = 0) {
  static std::uintptr_t last = 0x1000;
  const auto pool = reinterpret_cast<CUmemoryPool>(last += 16);  // NOLINT(performance-no-int-to-ptr)
  pool_made(pool, most);
  return pool;
}
DeviceAddress new_address() {
  static std::uint64_t last = 0x7000'0000'0000;
  return DeviceAddress{last += kPage};
}

cuuint64_t used(CUmemoryPool pool) { return of_pool(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT); }
cuuint64_t most_used(CUmemoryPool pool) { return of_pool(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH); }
cuuint64_t reserved(CUmemoryPool pool) { return of_pool(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); }
cuuint64_t most_reserved(CUmemoryPool pool) { return of_pool(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH); }

TEST(PoolUsage, CountsWhatIsAskedForAndReservesWholePages) {
  const CUmemoryPool pool = new_pool();
  const DeviceAddress one = new_address(), two = new_address();
  allocated_from_pool(pool, one, 1000);
  allocated_from_pool(pool, two, kPage);
  EXPECT_EQ(used(pool), kPage + 1000);
  EXPECT_EQ(reserved(pool), 2 * kPage);
  EXPECT_EQ(pool_of(one), pool);
  ASSERT_TRUE(freeing(two).has_value());
  EXPECT_EQ(used(pool), 1000u);
  EXPECT_EQ(reserved(pool), kPage);
  EXPECT_EQ(most_used(pool), kPage + 1000);
  EXPECT_EQ(most_reserved(pool), 2 * kPage);
  EXPECT_EQ(pool_of(two), nullptr);
  EXPECT_FALSE(freeing(two).has_value()) << "once";
  freeing(one);
  EXPECT_EQ(reserved(pool), 0u);
}

TEST(PoolUsage, MarksAreSetBackToWhatIsUsed) {
  const CUmemoryPool pool = new_pool();
  const DeviceAddress one = new_address(), two = new_address();
  allocated_from_pool(pool, one, 3 * kPage);
  allocated_from_pool(pool, two, kPage);
  freeing(one);
  const cuuint64_t zero = 0;
  set_of_pool(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero);
  EXPECT_EQ(most_used(pool), kPage);
  EXPECT_EQ(most_reserved(pool), 4 * kPage);
  set_of_pool(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero);
  EXPECT_EQ(most_reserved(pool), kPage);
  freeing(two);
}

TEST(PoolUsage, WhatIsFreedStaysReservedBelowTheThreshold) {
  const CUmemoryPool pool = new_pool();
  const cuuint64_t threshold = 3 * kPage;
  set_of_pool(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  const DeviceAddress one = new_address(), two = new_address();
  allocated_from_pool(pool, one, 4 * kPage);
  allocated_from_pool(pool, two, kPage);
  freeing(one);
  EXPECT_EQ(reserved(pool), 3 * kPage);
  trim_pool_to(pool, 2 * kPage);
  EXPECT_EQ(reserved(pool), 2 * kPage);
  trim_pool_to(pool, 0);
  EXPECT_EQ(reserved(pool), kPage) << "what is used stays";
  freeing(two);
}

TEST(PoolUsage, PoolHasAGreatestSize) {
  const CUmemoryPool pool = new_pool(4 * kPage);
  const DeviceAddress one = new_address();
  EXPECT_TRUE(pool_has_room(pool, 4 * kPage));
  EXPECT_FALSE(pool_has_room(pool, 4 * kPage + 1));
  allocated_from_pool(pool, one, 3 * kPage);
  EXPECT_TRUE(pool_has_room(pool, kPage));
  EXPECT_FALSE(pool_has_room(pool, kPage + 1));
  freeing(one);
  EXPECT_TRUE(pool_has_room(new_pool(), ~Bytes{0})) << "most have none";
}

TEST(PoolUsage, HandleThatComesAgainIsAnotherPool) {
  const CUmemoryPool pool = new_pool();
  const DeviceAddress one = new_address();
  allocated_from_pool(pool, one, kPage);
  freeing(one);
  pool_made(pool, 0);
  EXPECT_EQ(most_used(pool), 0u);
}

TEST(PoolUsage, FreeThatFailsIsNone) {
  const CUmemoryPool pool = new_pool();
  const DeviceAddress one = new_address();
  allocated_from_pool(pool, one, kPage);
  freeing_failed(one, *freeing(one));
  EXPECT_EQ(used(pool), kPage);
  EXPECT_EQ(pool_of(one), pool);
  freeing(one);
}

TEST(PoolUsage, EndOfAnEngineEndsItsBuffersAndNoOthers) {
  const CUmemoryPool pool = new_pool();
  const DeviceAddress one = new_address(), two = new_address();
  allocated_from_pool(pool, one, kPage);
  allocated_from_pool(pool, two, kPage);
  forget_pool_memory({one.value, kPage});
  EXPECT_EQ(used(pool), kPage);
  EXPECT_EQ(pool_of(one), nullptr);
  EXPECT_EQ(pool_of(two), pool);
  freeing(two);
}

TEST(PoolUsage, ThreadsCountTogether) {
  const CUmemoryPool pool = new_pool();
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([pool, t] {
      const DeviceAddress own{0x6000'0000'0000 + t * kPage};
      for (int i = 0; i < 2000; ++i) {
        allocated_from_pool(pool, own, kPage);
        freeing(own);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(used(pool), 0u);
  EXPECT_GE(most_used(pool), kPage);
  EXPECT_LE(most_used(pool), 4 * kPage);
}

}  // namespace
}  // namespace thermocline
