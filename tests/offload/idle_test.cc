// SPDX-License-Identifier: Apache-2.0
// The memory that an idle program releases, and when. Time is simulated by a number.
#include "offload/engine/idle.h"

#include "allocator/host_pool.h"
#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

TEST(IdleWatch, IsDueWhenNothingHasHappenedForLongEnough) {
  IdleWatch watch(kSecond);
  EXPECT_FALSE(watch.is_due(5 * kSecond, 1));
  EXPECT_FALSE(watch.is_due(6 * kSecond - 1, 1));
  EXPECT_FALSE(watch.is_due(6 * kSecond, 2));
  EXPECT_FALSE(watch.is_due(7 * kSecond - 1, 2));
  EXPECT_TRUE(watch.is_due(7 * kSecond, 2));
  // Not everything could be released: it is due again.
  EXPECT_TRUE(watch.is_due(8 * kSecond, 2));
  watch.given_back(8 * kSecond);
  EXPECT_FALSE(watch.is_due(100 * kSecond, 2));
  EXPECT_FALSE(watch.is_due(101 * kSecond, 3));
  EXPECT_TRUE(watch.is_due(102 * kSecond, 3));
}

TEST(IdleWatch, NeverIsNever) {
  IdleWatch watch(0);
  EXPECT_FALSE(watch.is_due(0, 0));
  EXPECT_FALSE(watch.is_due(~std::uint64_t{0}, 0));
}

// One cycle: idle for the watch's threshold and then for `rest` more. Returns how long the watch waited.
std::uint64_t go_round(IdleWatch& watch, std::uint64_t* now, std::uint64_t* activity, std::uint64_t rest) {
  EXPECT_FALSE(watch.is_due(*now, ++*activity));
  const std::uint64_t required = watch.required_idle_ns();
  EXPECT_FALSE(watch.is_due(*now + required - 1, *activity));
  EXPECT_TRUE(watch.is_due(*now += required, *activity));
  watch.given_back(*now);
  *now += rest;
  return required;
}

TEST(IdleWatch, WhoGoesOnSoonIsLeftAloneForLonger) {
  IdleWatch watch(kSecond);
  std::uint64_t now = 0, activity = 0;
  for (const std::uint64_t seconds : {1, 2, 4, 8, 16, 32, 64, 64}) {
    EXPECT_EQ(go_round(watch, &now, &activity, kSecond / 2), seconds * kSecond);
  }
  // After a long rest the threshold is back at its initial value.
  EXPECT_EQ(go_round(watch, &now, &activity, 1000 * kSecond), 64 * kSecond);
  EXPECT_EQ(go_round(watch, &now, &activity, 0), kSecond);
}

class IdleEngineTest : public EngineTest {
 protected:
  void use_and_free(std::size_t buffers) {
    std::vector<DeviceAddress> all;
    for (std::size_t i = 0; i < buffers; ++i) {
      all.push_back(allocate(4 * kPage));
      ASSERT_TRUE(operate({{all.back(), 4 * kPage}}).ok());
    }
    for (const DeviceAddress one : all) EXPECT_TRUE(engine_->free(one, std::nullopt).ok());
  }
  // Checks every second while the program is idle.
  void rest(unsigned seconds) {
    for (unsigned i = 0; i < seconds; ++i) engine_->look_for_idleness(now_ += kSecond);
    engine_->validate();
  }
  EngineOptions options() const {
    EngineOptions options;
    options.budget_bytes = 32 * kPage;
    options.policy = kReactivePolicy;
    options.host_is_readable = false;
    options.idle_reserve_bytes = 3 * kPage;
    return options;
  }
  std::uint64_t now_ = 0;
};

TEST_F(IdleEngineTest, GivesBackWhatNobodyUsesButForAReserve) {
  start(options());
  const DeviceAddress kept = allocate(2 * kPage);
  ASSERT_TRUE(operate({{kept, 2 * kPage}}).ok());
  ASSERT_TRUE(engine_->pin(kept, "it stays on the device").ok());
  use_and_free(16);
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  const EngineStatistics before = engine_->statistics();
  EXPECT_GT(before.device_bytes, 20 * kPage);
  EXPECT_GT(before.host_bytes, 0u);
  rest(1);
  EXPECT_EQ(engine_->statistics().device_bytes, before.device_bytes);
  rest(1);
  EXPECT_EQ(engine_->statistics().device_bytes, (2 + 3) * kPage);
  EXPECT_EQ(engine_->statistics().host_bytes, 0u);
  // After that it is left alone, and continues as if nothing had happened.
  const std::uint64_t destroyed = engine_->statistics().destroyed_bytes;
  rest(10);
  EXPECT_EQ(engine_->statistics().destroyed_bytes, destroyed);
  use_and_free(16);
  ASSERT_TRUE(operate({{kept, 2 * kPage}}).ok());
}

TEST_F(IdleEngineTest, WhatIsStillInUseGoesLater) {
  start(options());
  const DeviceAddress buffer = allocate(16 * kPage);
  ASSERT_TRUE(submit({{buffer, 16 * kPage}}, Access::kUnknown, {.kind = 7, .nanoseconds = 1000}, 1e6).ok());
  ASSERT_TRUE(engine_->free(buffer, std::nullopt).ok());
  rest(3);
  EXPECT_EQ(engine_->statistics().device_bytes, 16 * kPage);
  ASSERT_TRUE(device_->driver().synchronize_context().ok());
  rest(1);
  EXPECT_EQ(engine_->statistics().device_bytes, 3 * kPage);
}

TEST_F(IdleEngineTest, EvictedContentsStayOnTheHost) {
  start(options());
  std::vector<DeviceAddress> all;
  for (int i = 0; i < 12; ++i) {
    all.push_back(allocate(4 * kPage));
    ASSERT_TRUE(operate({{all.back(), 4 * kPage}}).ok());
  }
  const EngineStatistics before = engine_->statistics();
  ASSERT_GT(before.evictions, 0u);
  rest(3);
  const EngineStatistics after = engine_->statistics();
  EXPECT_EQ(after.live_bytes, before.live_bytes);
  EXPECT_EQ(after.device_bytes, before.device_bytes);
  EXPECT_GE(after.host_bytes, after.nonresident_bytes);
  for (const DeviceAddress one : all) EXPECT_TRUE(operate({{one, 4 * kPage}}).ok());
}

// Buffers that are cached by the thread that freed them (allocator/thread_cache.h) are unused memory too.
TEST_F(IdleEngineTest, WhatThreadsKeepForThemselvesGoesToo) {
  EngineOptions wanted = options();
  wanted.idle_reserve_bytes = 1;
  start(wanted);
  for (int i = 0; i < 3; ++i) {
    const DeviceAddress buffer = allocate(8 * kKiB);
    ASSERT_TRUE(engine_->free(buffer, std::nullopt).ok());
  }
  EXPECT_GT(engine_->statistics().device_bytes, 0u);
  rest(2);
  EXPECT_EQ(engine_->statistics().device_bytes, 0u);
}

TEST_F(IdleEngineTest, WhoMovesThingsIsNotIdle) {
  start(options());
  const DeviceAddress buffer = allocate(16 * kPage);
  ASSERT_TRUE(operate({{buffer, 16 * kPage}}).ok());
  const DeviceAddress gone = allocate(8 * kPage);
  ASSERT_TRUE(engine_->free(gone, std::nullopt).ok());
  rest(1);
  ASSERT_TRUE(engine_->evict(buffer).ok());
  rest(1);
  EXPECT_EQ(engine_->statistics().destroyed_bytes, 0u);
}

}  // namespace
}  // namespace thermocline
