// SPDX-License-Identifier: Apache-2.0
// Allocations and frees note for the next ones what is allowed (Engine::State::Allowed). That is so, whoever has had the
// lock meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "driver/page_size.h"
#include "offload/engine/engine.h"
#include "offload/policies.h"
#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

constexpr Bytes kPage = kDefaultPageBytes;
constexpr StreamHandle kStream{};

class CommonCaseTest : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.budget_bytes = 64 * kPage;
    fake_.allow_aliases = true;
    ASSERT_TRUE(Engine::create(driver_, options, &engine_).ok());
    engine_->set_report_handler([](const std::string&) {});
    // No peak is in the way of what follows, and there are pages and a slab with holes.
    std::vector<DeviceAddress> all;
    for (Bytes pages = 8; pages < 12; ++pages) all.push_back(allocate(pages * kPage));
    for (Bytes i = 0; i < 16; ++i) all.push_back(allocate(40'000 + 512 * i));
    for (const DeviceAddress one : all) release(one);
    for (Bytes i = 0; i < 4; ++i) small_.push_back(allocate(10'000 + 512 * i));
  }
  void TearDown() override {
    fake_.run_all();
    engine_->validate();
    engine_.reset();
    EXPECT_EQ(fake_.errors(), std::vector<std::string>{});
  }
  DeviceAddress allocate(Bytes bytes) {
    DeviceAddress address;
    EXPECT_TRUE(engine_->allocate(bytes, kStream, &address).ok());
    return address;
  }
  void release(DeviceAddress address) { EXPECT_TRUE(engine_->free(address, kStream).ok()); }
  // Leaves a note that allows both, for sizes that no cache has.
  void note() {
    release(allocate(20'000 + 512 * noted_));
    release(allocate(30'000 + 512 * noted_++));
  }
  void operate(DeviceAddress on, OperationInfo info = {.kind = 7}) {
    const MemoryAccess access{on};
    Operation operation = engine_->begin(kStream, {&access, 1}, info);
    ASSERT_TRUE(operation.status().ok());
    fake_.submit(kStream);
    operation.commit();
  }
  // While another thread has the lock in an operation, which it then commits.
  template <class Call>
  void behind_an_operation(Call call) {
    std::atomic<bool> has_lock{false};
    std::thread other([&] {
      const MemoryAccess access{small_[0]};
      Operation operation = engine_->begin(kStream, {&access, 1}, {.kind = 7});
      has_lock = true;
      // Where this is too short, the call finds the lock free, which is right, too.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      operation.commit();
    });
    while (!has_lock) std::this_thread::yield();
    call();
    other.join();
  }

  // Used by one thread at a time: the engine calls it only under its lock.
  FakeDriver fake_;
  Driver driver_{fake_.table()};
  std::unique_ptr<Engine> engine_;
  std::vector<DeviceAddress> small_;
  Bytes noted_ = 0;
};

TEST_F(CommonCaseTest, WhatWasNotedBeforeAnOperationIsForgottenByAnAllocation) {
  note();
  operate(small_[0]);
  const DeviceAddress large = allocate(2 * kPage);
  engine_->validate();
  release(large);
}

TEST_F(CommonCaseTest, WhatWasNotedBeforeAnOperationIsForgottenByAFree) {
  const DeviceAddress large = allocate(2 * kPage);
  note();
  operate(small_[0]);
  release(large);
  engine_->validate();
}

TEST_F(CommonCaseTest, WhatWasNotedIsForgottenByAnAllocationThatWaitedForTheLock) {
  note();
  DeviceAddress large;
  behind_an_operation([&] { large = allocate(2 * kPage); });
  engine_->validate();
  release(large);
}

TEST_F(CommonCaseTest, WhatWasNotedIsForgottenByAFreeThatWaitedForTheLock) {
  const DeviceAddress large = allocate(2 * kPage);
  note();
  behind_an_operation([&] { release(large); });
  engine_->validate();
}

// A blocked stream may use a buffer that is taken back: then it is detained, and nothing is allowed any more.
TEST_F(CommonCaseTest, WhatWasNotedIsForgottenWhenLargeBuffersAreTakenBack) {
  release(allocate(2 * kPage));
  const DeviceAddress large = allocate(2 * kPage);
  operate(large, {.kind = 7, .may_block = true});
  release(large);
  const DeviceAddress next = allocate(20'000);
  engine_->validate();
  fake_.run_all();
  release(next);
}

// The same of a cached buffer, once a cache remembers another one in its place: each has four for a size.
TEST_F(CommonCaseTest, WhatWasNotedIsForgottenWhenABufferIsDisplaced) {
  constexpr Bytes kFirst = 1'000, kStep = 40, kSizes = 48;
  release(allocate(3'000));
  std::vector<DeviceAddress> cached;
  for (int i = 0; i < 4; ++i) cached.push_back(allocate(3'000));
  for (Bytes i = 0; i < kSizes; ++i) release(allocate(kFirst + i * kStep));
  for (const DeviceAddress one : cached) operate(one, {.kind = 7, .may_block = true});
  for (const DeviceAddress one : cached) release(one);
  for (Bytes i = 0; i < kSizes; ++i) {
    allocate(kFirst + i * kStep);
    engine_->validate();
  }
}

// Its space is not divided, nor handed out, before the stream has gone on.
TEST_F(CommonCaseTest, WhatABlockedStreamUsesIsNotFreedAtOnce) {
  note();
  operate(small_[1], {.kind = 7, .may_block = true});
  const Bytes live = engine_->statistics().live_bytes;
  release(small_[1]);
  EXPECT_FALSE(engine_->find(small_[1]).has_value());
  const DeviceAddress next = allocate(10'000 + 512);
  EXPECT_NE(next, small_[1]);
  EXPECT_EQ(engine_->statistics().live_bytes, live);
  fake_.run_all();
  release(next);
}

// The pin ends with the buffer.
TEST_F(CommonCaseTest, WhatIsPinnedIsNotFreedAtOnce) {
  note();
  ASSERT_TRUE(engine_->pin(small_[1], "a test").ok());
  release(small_[1]);
  engine_->validate();
  const DeviceAddress next = allocate(10'000 + 512);
  operate(next);
  engine_->validate();
  EXPECT_EQ(engine_->statistics().pinned_bytes, 0u);
}

}  // namespace
}  // namespace thermocline
