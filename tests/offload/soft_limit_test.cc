// SPDX-License-Identifier: Apache-2.0
// Operations that are too large for the budget, if they may exceed it.
#include <array>

#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

constexpr Bytes kBudget = 16 * kPage, kDevice = 40 * kPage;

class SoftLimitTest : public EngineTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    start({.budget_bytes = kBudget, .soft_limit = true, .waits_without_lock = GetParam()}, kDevice);
  }
  EngineStatistics now() const { return engine_->statistics(); }
};

TEST_P(SoftLimitTest, WhatIsTooLargeRunsAndTheBudgetHoldsAgainForTheNext) {
  const DeviceAddress first = allocate(12 * kPage), second = allocate(12 * kPage), small = allocate(2 * kPage);
  for (const DeviceAddress one : {first, second}) ASSERT_TRUE(operate({{one, 12 * kPage}}, Access::kWrite).ok());
  EXPECT_LE(now().device_bytes, kBudget);
  ASSERT_TRUE(operate({{first, 12 * kPage}, {second, 12 * kPage}}).ok());
  EXPECT_EQ(now().over_budget_operations, 1u);
  EXPECT_GE(now().device_bytes, 24 * kPage);
  ASSERT_TRUE(operate({{first, 12 * kPage}, {second, 12 * kPage}}).ok());
  EXPECT_EQ(now().over_budget_operations, 1u) << "it stays beyond the budget while operations need that";
  ASSERT_TRUE(operate({{small, 2 * kPage}}, Access::kWrite).ok());
  EXPECT_LE(now().device_bytes, kBudget);
  EXPECT_EQ(now().out_of_memory, 0u);
}

// It has to wait for what leaves, and begins again.
TEST_P(SoftLimitTest, WhatWaitsFirstIsCountedOnce) {
  std::array<DeviceAddress, 4> all;
  for (DeviceAddress& one : all) {
    one = allocate(12 * kPage);
    ASSERT_TRUE(submit({{one, 12 * kPage}}, Access::kWrite, {.kind = 7, .nanoseconds = 1000}, 5e5).ok());
  }
  ASSERT_TRUE(operate({{all[0], 12 * kPage}, {all[1], 12 * kPage}}).ok());
  EXPECT_EQ(now().over_budget_operations, 1u);
}

TEST_P(SoftLimitTest, ComputesTheSameBits) {
  const auto run = [this] {
    const DeviceAddress first = allocate(12 * kPage), second = allocate(12 * kPage);
    EXPECT_TRUE(operate({{first, 12 * kPage}}, Access::kWrite).ok());
    EXPECT_TRUE(operate({{second, 12 * kPage}}, Access::kWrite).ok());
    for (int round = 0; round < 3; ++round) {
      EXPECT_TRUE(operate({{first, 12 * kPage}, {second, 12 * kPage}}).ok());
      EXPECT_TRUE(operate({{first, 12 * kPage}}).ok());
      EXPECT_TRUE(operate({{second, 12 * kPage}}).ok());
    }
    return checksum();
  };
  const std::uint64_t squeezed = run();
  EXPECT_EQ(now().over_budget_operations, 3u);
  TearDown();
  start({.budget_bytes = 32 * kPage});
  EXPECT_EQ(run(), squeezed);
}

TEST_P(SoftLimitTest, WhatIsHeldForAGraphMayExceedItToo) {
  const DeviceAddress first = allocate(12 * kPage), second = allocate(12 * kPage);
  std::uint64_t holds[2] = {};
  ASSERT_TRUE(engine_->hold_on_device(std::array{AddressRange{first, 12 * kPage}}, "a graph", &holds[0]).ok());
  ASSERT_TRUE(engine_->hold_on_device(std::array{AddressRange{second, 12 * kPage}}, "a graph", &holds[1]).ok());
  EXPECT_GE(now().device_bytes, 24 * kPage);
  EXPECT_EQ(now().over_budget_operations, 1u);
  for (const std::uint64_t hold : holds) engine_->let_go(hold);
  ASSERT_TRUE(operate({{first, 12 * kPage}}).ok());
  EXPECT_LE(now().device_bytes, kBudget);
}

TEST_P(SoftLimitTest, WhatTheDeviceHasNoRoomForIsRefusedAndTheBudgetHolds) {
  Operands all;
  for (int i = 0; i < 4; ++i) all.emplace_back(allocate(12 * kPage), 12 * kPage);
  EXPECT_TRUE(operate(all).is_out_of_memory());
  EXPECT_EQ(now().over_budget_operations, 0u);
  EXPECT_EQ(now().out_of_memory, 1u);
  ASSERT_TRUE(operate({all[0]}).ok());
  EXPECT_LE(now().device_bytes, kBudget);
}

INSTANTIATE_TEST_SUITE_P(Waits, SoftLimitTest, testing::Bool(),
                         [](const auto& waits) { return std::string(waits.param ? "WithoutTheLock" : "InPlace"); });

}  // namespace
}  // namespace thermocline
