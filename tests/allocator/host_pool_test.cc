// SPDX-License-Identifier: Apache-2.0
#include "allocator/host_pool.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/host_steps.h"
#include "tests/allocator/fake_driver.h"
#include "tests/support/seeds.h"

namespace thermocline {
namespace {

class HostPoolTest : public testing::Test {
 protected:
  FakeDriver fake;
  Driver driver{fake.table()};
  std::unique_ptr<HostPool> pool;

  void make(Bytes limit, Bytes step = 64 * kMiB) { ASSERT_TRUE(HostPool::create(driver, limit, step, &pool).ok()); }

  void TearDown() override {
    if (pool != nullptr) pool->validate();
    pool.reset();
    EXPECT_EQ(fake.host_taken(), 0u) << "everything is given back";
    for (const std::string& error : fake.errors()) ADD_FAILURE() << error;
  }
};

// Only after the driver has refused to pin, and within the limit.
TEST_F(HostPoolTest, PageableMemoryIsForWhatTheDriverDoesNotPin) {
  make(40 * kMiB, 16 * kMiB);
  EXPECT_EQ(pool->allocate_pageable(kMiB), nullptr) << "nothing was refused";
  void* const pinned = pool->allocate(16 * kMiB);
  ASSERT_NE(pinned, nullptr);
  fake.host_bytes = 16 * kMiB;
  EXPECT_EQ(pool->allocate(8 * kMiB), nullptr);
  void* const first = pool->allocate_pageable(8 * kMiB);
  void* const second = pool->allocate_pageable(8 * kMiB);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  std::memset(first, 1, 8 * kMiB);
  std::memset(second, 2, 8 * kMiB);
  pool->validate();
  EXPECT_EQ(pool->pageable_bytes(), 16 * kMiB);
  EXPECT_EQ(pool->taken_bytes(), 32 * kMiB);
  EXPECT_EQ(pool->allocate_pageable(16 * kMiB), nullptr) << "beyond the limit";
  pool->free(first);
  EXPECT_EQ(pool->allocate(8 * kMiB), nullptr) << "never in place of pinned memory";
  void* const third = pool->allocate_pageable(8 * kMiB);
  EXPECT_NE(third, nullptr);
  for (void* const at : {second, third, pinned}) pool->free(at);
  pool->trim();
  EXPECT_EQ(pool->pageable_bytes(), 0u);
  EXPECT_EQ(pool->peak_pageable_bytes(), 16 * kMiB);
  fake.host_bytes = kGiB;
  void* const again = pool->allocate(16 * kMiB);
  EXPECT_NE(again, nullptr);
  EXPECT_EQ(pool->allocate_pageable(kMiB), nullptr) << "the driver pins again";
  pool->free(again);
}

// A refused request costs as much as one that is granted.
TEST_F(HostPoolTest, TheDriverIsNotAskedAgainForWhatItHasJustRefused) {
  make(0, 16 * kMiB);
  void* const pinned = pool->allocate(16 * kMiB);
  fake.host_bytes = 16 * kMiB;
  int asked = 0;
  fake.on_host_allocation = [&] { ++asked; };
  EXPECT_EQ(pool->allocate(8 * kMiB), nullptr);
  EXPECT_GT(asked, 0);
  std::vector<void*> pageable = {pool->allocate_pageable(8 * kMiB)};
  asked = 0;
  EXPECT_EQ(pool->allocate(8 * kMiB), nullptr);
  EXPECT_EQ(asked, 0);
  pageable.push_back(pool->allocate_pageable(8 * kMiB));
  // Now and then.
  for (int i = 0; i < 20; ++i) EXPECT_EQ(pool->allocate(8 * kMiB), nullptr);
  EXPECT_GT(asked, 0);
  pageable.push_back(pool->allocate_pageable(8 * kMiB));
  for (void* const at : pageable) EXPECT_NE(at, nullptr);
  // And when memory has been given back.
  pool->free(pinned);
  pool->trim();
  void* const again = pool->allocate(16 * kMiB);
  EXPECT_NE(again, nullptr);
  pool->free(again);
  for (void* const at : pageable) pool->free(at);
}

// Nothing pageable is given back so that the driver pins what it has refused: where nothing may be given back now, it
// would be of no use at all.
TEST_F(HostPoolTest, EmptyPageableMemoryIsUsedAgain) {
  make(0, 16 * kMiB);
  void* const pinned = pool->allocate(16 * kMiB);
  fake.host_bytes = 16 * kMiB;
  for (const bool later : {true, false}) {
    pool->trim_later(later);
    EXPECT_EQ(pool->allocate(16 * kMiB), nullptr);
    void* const first = pool->allocate_pageable(16 * kMiB);
    ASSERT_NE(first, nullptr);
    const Bytes taken = pool->ever_taken_bytes();
    pool->free(first);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(pool->allocate(16 * kMiB), nullptr);
    EXPECT_FALSE(pool->wants_trim());
    EXPECT_EQ(pool->allocate_pageable(16 * kMiB), first);
    EXPECT_EQ(pool->ever_taken_bytes(), taken);
    pool->free(first);
  }
  pool->free(pinned);
}

// Where the limit leaves no room for the driver to be asked again, what is free in a step that is in use serves.
TEST_F(HostPoolTest, FreePageableMemoryIsUsedWhereTheLimitIsReached) {
  make(16 * kMiB, 32 * kMiB);
  fake.host_bytes = 0;
  EXPECT_EQ(pool->allocate(4 * kMiB), nullptr);
  void* const first = pool->allocate_pageable(4 * kMiB);
  ASSERT_NE(first, nullptr);
  ASSERT_EQ(pool->pageable_bytes(), 16 * kMiB);
  EXPECT_EQ(pool->allocate(3 * kMiB), nullptr);
  void* const second = pool->allocate_pageable(3 * kMiB);
  EXPECT_NE(second, nullptr);
  for (void* const at : {first, second}) pool->free(at);
}

// 16, 16 and 32 MiB.
TEST_F(HostPoolTest, MemoryComesFromTheDriverInLargeStepsOnceMuchIsPinned) {
  make(0);
  std::vector<void*> held;
  for (int i = 0; i < 16; ++i) {
    held.push_back(pool->allocate(4 * kMiB));
    ASSERT_NE(held.back(), nullptr);
    std::memset(held.back(), i, 4 * kMiB);
  }
  EXPECT_EQ(fake.calls("cuMemHostAlloc"), 3u);
  EXPECT_EQ(pool->taken_bytes(), 64 * kMiB);
  EXPECT_EQ(pool->live_bytes(), 64 * kMiB);
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(static_cast<unsigned char*>(held[i])[4 * kMiB - 1], i);
    pool->free(held[i]);
  }
  EXPECT_EQ(pool->live_bytes(), 0u);
  EXPECT_EQ(pool->peak_live_bytes(), 64 * kMiB);
}

TEST_F(HostPoolTest, SmallAllocationsShareAStep) {
  make(0);
  std::vector<void*> held;
  for (Bytes bytes = 1; bytes < 300000; bytes = bytes * 3 / 2 + 1) {
    void* const at = pool->allocate(bytes);
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(at) % 64, 0u);
    std::memset(at, 1, bytes);
    held.push_back(at);
  }
  EXPECT_EQ(fake.calls("cuMemHostAlloc"), 1u);
  for (void* at : held) pool->free(at);
}

TEST_F(HostPoolTest, TheLimitIsExact) {
  make(100 * kMiB, 64 * kMiB);
  std::vector<void*> held;
  while (void* const at = pool->allocate(5 * kMiB)) held.push_back(at);
  EXPECT_EQ(held.size(), 20u) << "all of the limit can be used";
  EXPECT_EQ(pool->taken_bytes(), 100 * kMiB);
  EXPECT_LE(fake.peak_host_taken(), 100 * kMiB);
  pool->validate();
  pool->free(held.back());
  held.pop_back();
  void* const again = pool->allocate(5 * kMiB);
  EXPECT_NE(again, nullptr);
  held.push_back(again);
  for (void* at : held) pool->free(at);
}

TEST_F(HostPoolTest, SizesBetweenTheClassesWasteLittle) {
  make(0);
  // Sizes of real activations: size classes would round 12.5 MiB and 49 MiB to 14 and 56 MiB, powers of two to 16 and
  // 64.
  std::vector<void*> held;
  Bytes live = 0;
  for (int i = 0; i < 24; ++i) {
    const Bytes bytes = i % 2 == 0 ? 13107200 : 51380224;
    held.push_back(pool->allocate(bytes));
    live += bytes;
  }
  EXPECT_LT(static_cast<double>(pool->taken_bytes()), 1.05 * static_cast<double>(live));
  for (void* at : held) pool->free(at);
}

TEST_F(HostPoolTest, EmptyStepsAreKeptUntilTrim) {
  make(0);
  void* const at = pool->allocate(30 * kMiB);
  pool->free(at);
  EXPECT_GT(pool->taken_bytes(), 0u);
  void* const again = pool->allocate(30 * kMiB);
  EXPECT_EQ(fake.calls("cuMemHostAlloc"), 1u);
  pool->trim();
  EXPECT_GT(pool->taken_bytes(), 0u) << "it is in use";
  pool->free(again);
  pool->trim();
  EXPECT_EQ(pool->taken_bytes(), 0u);
  EXPECT_EQ(fake.host_taken(), 0u);
}

TEST_F(HostPoolTest, TrimKeepsWhatItMayOfTheSmallestSteps) {
  make(0);
  std::vector<void*> held;
  for (const Bytes bytes : {100 * kMiB, 300 * kMiB, 200 * kMiB, 400 * kMiB}) held.push_back(pool->allocate(bytes));
  for (std::size_t i = 0; i < 3; ++i) pool->free(held[i]);
  pool->trim(299 * kMiB);
  EXPECT_EQ(pool->taken_bytes(), 500 * kMiB) << "100 MiB that are empty, and 400 that are not";
  pool->trim(100 * kMiB);
  EXPECT_EQ(pool->taken_bytes(), 500 * kMiB);
  pool->free(held[3]);
  pool->validate();
}

// The driver may wait for the device before it frees pinned memory, and the device for a thread that needs some.
TEST_F(HostPoolTest, OthersAreServedWhileTheDriverTakesAStepBack) {
  make(0);
  pool->free(pool->allocate(30 * kMiB));
  void* meanwhile = nullptr;
  fake.on_host_free = [&] {
    meanwhile = pool->allocate(20 * kMiB);
    pool->validate();
  };
  pool->trim();
  EXPECT_NE(meanwhile, nullptr);
  EXPECT_EQ(fake.calls("cuMemHostAlloc"), 2u) << "what is being given back serves nobody";
  fake.on_host_free = nullptr;
  pool->free(meanwhile);
  pool->validate();
}

TEST_F(HostPoolTest, WhatTheDriverDoesNotTakeBackServesAgain) {
  make(0);
  pool->free(pool->allocate(30 * kMiB));
  const Bytes pinned = pool->taken_bytes();
  fake.fail("cuMemFreeHost", 1, CUDA_ERROR_UNKNOWN);
  pool->trim();
  EXPECT_EQ(pool->taken_bytes(), pinned);
  pool->validate();
  pool->free(pool->allocate(30 * kMiB));
  EXPECT_EQ(fake.calls("cuMemHostAlloc"), 1u);
  pool->trim();
  EXPECT_EQ(fake.host_taken(), 0u);
}

TEST_F(HostPoolTest, EmptyStepsMakeRoomForAnotherSizeAtTheLimit) {
  make(128 * kMiB);
  void* const a = pool->allocate(60 * kMiB);
  void* const b = pool->allocate(60 * kMiB);
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  pool->free(a);
  pool->free(b);
  void* const large = pool->allocate(120 * kMiB);
  EXPECT_NE(large, nullptr);
  EXPECT_LE(fake.peak_host_taken(), 128 * kMiB);
  pool->free(large);
}

TEST_F(HostPoolTest, EmptyStepsMakeWayWhereTheCallerHoldsNoLock) {
  make(128 * kMiB);
  EXPECT_FALSE(pool->trim_later(true));
  void* const small = pool->allocate(60 * kMiB);
  ASSERT_NE(small, nullptr);
  EXPECT_FALSE(pool->wants_trim());
  pool->free(small);
  EXPECT_EQ(pool->allocate(120 * kMiB), nullptr);
  EXPECT_TRUE(pool->wants_trim());
  EXPECT_EQ(fake.calls("cuMemFreeHost"), 0u) << "a lock may be held";
  EXPECT_TRUE(pool->make_way());
  EXPECT_FALSE(pool->wants_trim()) << "that refusal is dealt with";
  void* const large = pool->allocate(120 * kMiB);
  ASSERT_NE(large, nullptr);
  EXPECT_FALSE(pool->wants_trim());
  EXPECT_EQ(pool->allocate(60 * kMiB), nullptr) << "nothing is empty";
  EXPECT_FALSE(pool->wants_trim());
  EXPECT_FALSE(pool->make_way());
  pool->free(large);
  {
    const HostPool::TrimsInPlace here(*pool);
    void* const larger = pool->allocate(121 * kMiB);
    EXPECT_NE(larger, nullptr);
    pool->free(larger);
  }
  EXPECT_EQ(pool->allocate(127 * kMiB), nullptr);
}

// Not everybody who was refused asks again.
TEST_F(HostPoolTest, RefusalsAreForgottenWhereSomebodyElseBegins) {
  make(128 * kMiB);
  pool->trim_later(true);
  pool->free(pool->allocate(60 * kMiB));
  ASSERT_EQ(pool->allocate(120 * kMiB), nullptr);
  EXPECT_TRUE(pool->wants_trim());
  pool->forget_refusals();
  EXPECT_FALSE(pool->wants_trim());
}

// A request during the return of a step to the driver waits for that, and finds the room.
TEST_F(HostPoolTest, WhatOthersGiveBackMakesWay) {
  make(64 * kMiB);
  pool->trim_later(true);
  pool->free(pool->allocate(60 * kMiB));
  std::thread other;
  fake.on_host_free = [&] {
    ASSERT_EQ(pool->allocate(50 * kMiB), nullptr);
    EXPECT_TRUE(pool->wants_trim());
    other = std::thread([this] {
      static_cast<void>(pool->make_way());
      void* const at = pool->allocate(50 * kMiB);
      EXPECT_NE(at, nullptr);
      pool->free(at);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  pool->trim();
  fake.on_host_free = nullptr;
  other.join();
}

TEST_F(HostPoolTest, ASmallerStepIsTriedWhenTheDriverRefuses) {
  make(0);
  fake.host_bytes = 20 * kMiB;
  void* const at = pool->allocate(10 * kMiB);
  EXPECT_NE(at, nullptr);
  EXPECT_EQ(pool->allocate(11 * kMiB), nullptr);
  pool->validate();
  pool->free(at);
}

TEST_F(HostPoolTest, AnImpossibleSizeIsRefused) {
  make(0);
  EXPECT_EQ(pool->allocate(0), nullptr);
  EXPECT_EQ(pool->allocate(~Bytes{0}), nullptr);
  EXPECT_EQ(pool->allocate(Bytes{1} << 50), nullptr);
  EXPECT_EQ(pool->live_bytes(), 0u);
}

TEST_F(HostPoolTest, TwoPoolsKeepApart) {
  make(8 * kMiB);
  std::unique_ptr<HostPool> other;
  ASSERT_TRUE(HostPool::create(driver, 8 * kMiB, kMiB, &other).ok());
  void* const a = pool->allocate(4 * kMiB);
  void* const b = other->allocate(8 * kMiB);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(b, nullptr);
  EXPECT_EQ(other->allocate(1), nullptr);
  other->free(b);
  other.reset();
  pool->free(a);
}

TEST_F(HostPoolTest, RandomAllocationsDoNotOverlap) {
  for (const std::uint64_t seed : test_seeds(30)) {
    SCOPED_TRACE("THERMOCLINE_TEST_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const Bytes limit = (random() % 200 + 10) * kMiB;
    make(limit, (random() % 64 + 1) * kMiB);
    struct Held {
      unsigned char* at;
      Bytes bytes;
    };
    std::vector<Held> held;
    for (int i = 0; i < 400; ++i) {
      if (random() % 2 == 0) {
        const Bytes bytes = random() % 2 == 0 ? 1 + random() % 20000 : 1 + random() % (16 * kMiB);
        auto* const at = static_cast<unsigned char*>(pool->allocate(bytes));
        if (at == nullptr) continue;
        for (const Held& h : held) {
          ASSERT_TRUE(at + bytes <= h.at || h.at + h.bytes <= at);
        }
        at[0] = 1;
        at[bytes - 1] = 1;
        held.push_back({at, bytes});
      } else if (!held.empty()) {
        const std::size_t which = random() % held.size();
        pool->free(held[which].at);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      }
      if (random() % 50 == 0) pool->trim();
      pool->validate();
      ASSERT_LE(fake.peak_host_taken(), limit);
      ASSERT_EQ(fake.host_taken(), pool->taken_bytes());
    }
    for (const Held& h : held) pool->free(h.at);
    EXPECT_EQ(pool->live_bytes(), 0u);
    pool.reset();
    fake.~FakeDriver();
    new (&fake) FakeDriver(seed);
  }
}

TEST_F(HostPoolTest, ThreadsMayShareAPool) {
  make(0, 8 * kMiB);
  std::vector<std::thread> threads;
  std::atomic<int> broken{0};
  for (unsigned char id = 1; id <= 4; ++id) {
    threads.emplace_back([this, id, &broken] {
      std::mt19937_64 random(id);
      for (int i = 0; i < 300; ++i) {
        const Bytes bytes = 1 + random() % 60000;
        auto* const at = static_cast<unsigned char*>(pool->allocate(bytes));
        std::memset(at, id, bytes);
        std::this_thread::yield();
        if (static_cast<Bytes>(std::count(at, at + bytes, id)) != bytes) ++broken;
        pool->free(at);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(broken, 0);
  EXPECT_EQ(pool->live_bytes(), 0u);
}

TEST(HostSteps, RegistrationsSideBySideStayApart) {
  FakeDriver fake;
  const Driver driver(fake.table());
  HostSteps steps(driver, 0, 64 * kKiB);
  std::vector<void*> held;
  for (int i = 0; i < 8; ++i) held.push_back(steps.take(64 * kKiB, HostSteps::kPage));
  EXPECT_EQ(fake.calls("cuMemHostAlloc"), 8u);
  for (void* at : held) EXPECT_TRUE(steps.give(at));
  steps.validate();
  // However the registrations are placed, a request larger than each of them needs one of its own.
  void* const large = steps.take(128 * kKiB, HostSteps::kPage);
  EXPECT_EQ(fake.calls("cuMemHostAlloc"), 9u);
  EXPECT_TRUE(steps.give(large));
  EXPECT_FALSE(steps.give(large)) << "once";
}

TEST(HostSteps, AlignmentIsKept) {
  FakeDriver fake;
  const Driver driver(fake.table());
  HostSteps steps(driver, 0, kMiB);
  for (Bytes alignment = 4 * kKiB; alignment <= 2 * kMiB; alignment *= 2) {
    void* const at = steps.take(12 * kKiB, alignment);
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(at) % alignment, 0u);
    steps.validate();
  }
}

int policy() {
  int mode = -1;
  unsigned long nodes[16] = {};
  return syscall(SYS_get_mempolicy, &mode, nodes, 1024, nullptr, 0) == 0 ? mode : -1;
}
TEST_F(HostPoolTest, MemoryIsTakenFromTheNodeOfTheDevice) {
  if (policy() != MPOL_DEFAULT) GTEST_SKIP() << "no policy can be set here, or one is";
  int policy_of_the_driver = -1;
  fake.on_host_allocation = [&policy_of_the_driver] { policy_of_the_driver = policy(); };
  ASSERT_TRUE(HostPool::create(driver, 0, kMiB, &pool, 0).ok());
  pool->free(pool->allocate(1000));
  EXPECT_EQ(policy_of_the_driver, MPOL_PREFERRED);
  EXPECT_EQ(policy(), MPOL_DEFAULT);
}

}  // namespace
}  // namespace thermocline
