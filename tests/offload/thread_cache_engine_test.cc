// SPDX-License-Identifier: Apache-2.0
// The engine with thread caches: statistics stay right, caches waste no memory, order is kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "driver/page_size.h"
#include "offload/engine/engine.h"
#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = kDefaultPageBytes;
constexpr StreamHandle kStream{};

class ThreadCacheEngineTest : public testing::TestWithParam<const PolicyEntry*> {
 protected:
  void start(Bytes budget) {
    EngineOptions options;
    options.budget_bytes = budget;
    options.policy = GetParam();
    fake_.allow_aliases = true;
    ASSERT_TRUE(Engine::create(driver_, options, &engine_).ok());
    engine_->set_report_handler([](const std::string&) {});
  }
  void TearDown() override {
    fake_.run_all();
    engine_->validate();
    engine_.reset();
    EXPECT_EQ(fake_.errors(), std::vector<std::string>{});
  }
  DeviceAddress allocate(Bytes bytes, StreamHandle stream = kStream) {
    DeviceAddress address;
    EXPECT_TRUE(engine_->allocate(bytes, stream, &address).ok());
    return address;
  }
  void release(DeviceAddress address, StreamHandle stream = kStream) {
    EXPECT_TRUE(engine_->free(address, stream).ok());
  }

  // A cache remembers only what is asked for again.
  void ask_for(std::initializer_list<Bytes> sizes, StreamHandle stream = kStream) {
    for (const Bytes bytes : sizes) release(allocate(bytes, stream), stream);
  }

  // Used by one thread at a time: the engine calls it only under its lock.
  FakeDriver fake_;
  Driver driver_{fake_.table()};
  std::unique_ptr<Engine> engine_;
};

INSTANTIATE_TEST_SUITE_P(Policies, ThreadCacheEngineTest, testing::Values(kNoPolicy, kReactivePolicy, kLearnedPolicy),
                         [](const auto& policy) { return std::string(policy.param->name); });

TEST_P(ThreadCacheEngineTest, FreedMeansFreedAtEveryMoment) {
  start(64 * kPage);
  ask_for({1000, 3 * kPage});
  const DeviceAddress small = allocate(1000), large = allocate(3 * kPage);
  const std::uint64_t number = engine_->find(large)->number;
  Bytes free_before = 0, free_after = 0, total = 0;
  engine_->memory_info(&free_before, &total);
  release(large);
  engine_->memory_info(&free_after, &total);
  EXPECT_EQ(free_after, free_before + 3 * kPage);
  EXPECT_FALSE(engine_->find(large).has_value());
  EXPECT_EQ(engine_->statistics().live_bytes, 1000U);
  EXPECT_FALSE(engine_->free(large, kStream).ok());
  EXPECT_FALSE(engine_->free(large, std::nullopt).ok());
  EXPECT_EQ(allocate(3 * kPage), large);
  // Another buffer, although at the same address.
  EXPECT_GT(engine_->find(large)->number, number);
  const EngineStatistics statistics = engine_->statistics();
  EXPECT_EQ(statistics.live_bytes, 1000 + 3 * kPage);
  EXPECT_EQ(statistics.allocations, 5U);
  EXPECT_EQ(statistics.frees, 3U);
  release(small);
  engine_->validate();
}

TEST_P(ThreadCacheEngineTest, TheRecordIsOfWhatWasLive) {
  start(64 * kPage);
  for (int turn = 0; turn < 2; ++turn) ask_for({1000, 2000, 3000});
  EXPECT_EQ(engine_->statistics().peak_live_bytes, 3000U);
  const DeviceAddress first = allocate(2000), second = allocate(3000);
  EXPECT_EQ(engine_->statistics().peak_live_bytes, 5000U);
  release(first);
  release(second);
}

TEST_P(ThreadCacheEngineTest, WhatIsCachedMakesRoomBeforeMemoryGrows) {
  start(64 * kPage);
  for (const Bytes pages : {4, 6, 8, 10}) ask_for({pages * kPage, pages * kPage});
  EXPECT_LE(engine_->statistics().peak_device_bytes, 10 * kPage + 4 * kPage);
  // And before anything is refused.
  release(allocate(62 * kPage));
  EXPECT_EQ(engine_->statistics().out_of_memory, 0U);
  EXPECT_EQ(engine_->statistics().evictions, 0U);
}

TEST_P(ThreadCacheEngineTest, TheNextOwnerWaitsForTheLast) {
  start(64 * kPage);
  const StreamHandle other = fake_.create_stream();
  const auto use = [&](DeviceAddress address, StreamHandle stream, std::uint64_t owner) {
    const MemoryAccess access{address, 0, Access::kUnknown};
    Operation operation = engine_->begin(stream, {&access, 1});
    ASSERT_TRUE(operation.status().ok());
    fake_.submit(stream, owner, address, 2 * kPage);
    operation.commit();
  };
  ask_for({2 * kPage});
  const DeviceAddress first = allocate(2 * kPage);
  use(first, kStream, 1);
  release(first);
  const DeviceAddress second = allocate(2 * kPage);
  ASSERT_EQ(second, first);
  const std::uint64_t waits = fake_.calls("cuStreamWaitEvent");
  use(second, other, 2);
  EXPECT_EQ(fake_.calls("cuStreamWaitEvent"), waits + 1);
  release(second);
}

// A stream may have the handle of one that was destroyed: what is freed on it is ordered after its own work.
TEST_P(ThreadCacheEngineTest, AHandleThatComesAgainIsAnotherStream) {
  start(64 * kPage);
  const StreamHandle other = fake_.create_stream();
  const StreamHandle stream = fake_.create_stream();
  // The engine is not told what the work does with `unseen`.
  const auto use = [&](DeviceAddress address, StreamHandle on, std::uint64_t owner, DeviceAddress unseen) {
    const MemoryAccess access{address, 0, Access::kUnknown};
    Operation operation = engine_->begin(on, {&access, 1});
    ASSERT_TRUE(operation.status().ok());
    fake_.submit(on, owner, unseen, 2 * kPage);
    operation.commit();
  };
  const DeviceAddress witness = allocate(2 * kPage);
  ask_for({3 * kPage}, stream);
  const DeviceAddress first = allocate(3 * kPage, stream);
  release(first, stream);
  use(witness, stream, 1, witness);
  engine_->retire(stream);
  // The clock distinguishes the new stream from the old one, which still had work to do.
  use(witness, stream, 1, witness);
  fake_.run_all();
  ASSERT_EQ(allocate(3 * kPage, stream), first);
  // A free is ordered after all work of its stream.
  use(witness, stream, 2, first);
  release(first, stream);
  const DeviceAddress second = allocate(3 * kPage, other);
  ASSERT_EQ(second, first) << "the same space, or nothing is said";
  use(second, other, 3, second);
  while (fake_.step(other)) {
  }
  EXPECT_EQ(fake_.errors(), std::vector<std::string>{});
  fake_.run_all();
  release(second, other);
  release(witness);
}

// Threads allocate, free and use memory at the same time; no buffer has two owners.
TEST_P(ThreadCacheEngineTest, ThreadsShareIt) {
  start(64 * kPage);
  constexpr unsigned kThreads = 3;
  std::atomic<Bytes> live{0};
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::map<std::uint64_t, Bytes> owned;
  const auto own = [&](DeviceAddress address, Bytes bytes) {
    const std::lock_guard lock(mutex);
    const auto next = owned.lower_bound(address.value);
    EXPECT_TRUE(next == owned.end() || address.value + bytes <= next->first);
    EXPECT_TRUE(next == owned.begin() || std::prev(next)->first + std::prev(next)->second <= address.value);
    owned[address.value] = bytes;
  };
  const auto disown = [&](DeviceAddress address) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(owned.erase(address.value), 1U);
  };
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      const Bytes sizes[] = {600, 1000, 70'000, kPage, 3 * kPage - 5};
      std::vector<std::pair<DeviceAddress, Bytes>> held;
      for (int turn = 0; turn < 1500; ++turn) {
        if (random() % 2 == 0 && held.size() < 5) {
          const Bytes bytes = sizes[random() % 5];
          const DeviceAddress address = allocate(bytes);
          own(address, bytes);
          held.emplace_back(address, bytes);
          live += bytes;
        } else if (!held.empty()) {
          std::swap(held[random() % held.size()], held.back());
          disown(held.back().first);
          release(held.back().first);
          live -= held.back().second;
          held.pop_back();
        }
        if (turn % 16 == 0 && !held.empty()) {
          const MemoryAccess access{held.back().first, 0, Access::kUnknown};
          Operation operation = engine_->begin(kStream, {&access, 1});
          ASSERT_TRUE(operation.status().ok());
          operation.commit();
        }
        if (turn % 200 == 0) engine_->validate();
      }
      for (const auto& [address, bytes] : held) {
        disown(address);
        release(address);
        live -= bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(engine_->statistics().live_bytes, live);
  EXPECT_EQ(engine_->statistics().allocations, engine_->statistics().frees);
  EXPECT_EQ(live, 0U);
}

}  // namespace
}  // namespace thermocline
