// SPDX-License-Identifier: Apache-2.0
// Each reason for an eviction and for a fetch: causes it, and checks that only this reason is counted.
#include "offload/movement.h"

#include <gtest/gtest.h>
#include <array>

#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

// Counts the notifications in the same form as the engine.
class Listener : public MovementObserver {
 public:
  void copying_out(const MovedUnit& unit, EvictReason reason) override { told.of(reason).copied_bytes += unit.bytes; }
  void evicted(const MovedUnit& unit, EvictReason reason) override {
    ++told.of(reason).units;
    last_evicted = unit;
  }
  void fetching(const MovedUnit& unit, FetchReason reason) override { told.of(reason) += {1, unit.bytes}; }

  MovementCounts told;
  MovedUnit last_evicted;
};

class MovementTest : public EngineTest {
 protected:
  static constexpr Bytes kBuffer = 4 * kPage;

  // Nothing is moved before it must be.
  void start_on_demand(Bytes budget, bool soft_limit = false) {
    start({.budget_bytes = budget, .policy = kLruPolicy, .soft_limit = soft_limit, .movements = &listener_},
          64 * kPage);
  }
  DeviceAddress written(Bytes bytes = kBuffer) {
    const DeviceAddress at = allocate(bytes);
    EXPECT_TRUE(operate({{at, bytes}}, Access::kWrite).ok());
    return at;
  }
  MovementCounts now() const { return engine_->statistics().movements; }

  static void expect_only(std::span<const MovementCount> counts, std::size_t reason, MovementCount expected) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      EXPECT_EQ(counts[i].units, i == reason ? expected.units : 0) << "reason " << i;
      EXPECT_EQ(counts[i].copied_bytes, i == reason ? expected.copied_bytes : 0) << "reason " << i;
    }
  }
  void expect_only(EvictReason reason, MovementCount expected) const {
    expect_only(now().evictions, static_cast<std::size_t>(reason), expected);
    expect_only(listener_.told.evictions, static_cast<std::size_t>(reason), expected);
  }
  void expect_only(FetchReason reason, MovementCount expected) const {
    expect_only(now().fetches, static_cast<std::size_t>(reason), expected);
    expect_only(listener_.told.fetches, static_cast<std::size_t>(reason), expected);
  }

  Listener listener_;
};

TEST_F(MovementTest, AnOperationThatNeedsRoomIsPressureAndFetchesWhatItAccesses) {
  start_on_demand(8 * kPage);
  const DeviceAddress first = written();
  static_cast<void>(written());
  expect_only(EvictReason::kPressure, {0, 0});
  static_cast<void>(written());
  expect_only(EvictReason::kPressure, {1, kBuffer});
  EXPECT_EQ(listener_.last_evicted.address, first);
  EXPECT_EQ(listener_.last_evicted.block, first);
  EXPECT_EQ(listener_.last_evicted.bytes, kBuffer);
  EXPECT_FALSE(listener_.last_evicted.is_slab);
  expect_only(FetchReason::kAccessed, {0, 0});
  ASSERT_TRUE(operate({{first, kBuffer}}).ok());
  expect_only(EvictReason::kPressure, {2, 2 * kBuffer});
  expect_only(FetchReason::kAccessed, {1, kBuffer});
}

// Contents that were fetched and only read are evicted again without a copy, for the reason that applies at that time.
TEST_F(MovementTest, AnEvictionWithoutACopyHasAReasonToo) {
  start_on_demand(8 * kPage);
  const DeviceAddress first = written();
  ASSERT_TRUE(engine_->evict(first).ok());
  static_cast<void>(written());
  static_cast<void>(written());
  expect_only(EvictReason::kRequested, {1, kBuffer});
  ASSERT_TRUE(operate({{first, kBuffer}}, Access::kRead).ok());
  ASSERT_EQ(now().of(EvictReason::kPressure).units, 1u);
  static_cast<void>(written());
  static_cast<void>(written());
  EXPECT_FALSE(engine_->find(first)->resident);
  EXPECT_EQ(now().of(EvictReason::kRequested).units, 1u) << "it has been fetched since it was asked for";
  EXPECT_EQ(now().of(EvictReason::kPressure).units, 3u);
  EXPECT_EQ(now().of(EvictReason::kPressure).copied_bytes, 2 * kBuffer);
}

TEST_F(MovementTest, WhatIsPinnedIsFetchedForThat) {
  start_on_demand(8 * kPage);
  const DeviceAddress first = written(), second = written();
  static_cast<void>(written());
  ASSERT_TRUE(engine_->pin(first, "a test").ok());
  expect_only(FetchReason::kPinned, {1, kBuffer});
  std::uint64_t hold = 0;
  ASSERT_TRUE(engine_->hold_on_device(std::array{AddressRange{second, kBuffer}}, "a test", &hold).ok());
  expect_only(FetchReason::kPinned, {2, 2 * kBuffer});
  engine_->let_go(hold);
}

TEST_F(MovementTest, WhatTheProgramAsksForIsRequested) {
  start_on_demand(8 * kPage);
  const DeviceAddress first = written(), second = written();
  ASSERT_TRUE(engine_->evict(first).ok());
  expect_only(EvictReason::kRequested, {0, kBuffer});
  const DeviceAddress third = written();
  expect_only(EvictReason::kRequested, {1, kBuffer});
  ASSERT_TRUE(engine_->free(third, std::nullopt).ok());
  ASSERT_TRUE(engine_->prefetch(first).ok());
  expect_only(FetchReason::kRequested, {1, kBuffer});
  EXPECT_TRUE(engine_->find(second)->resident);
}

// A write cancels the requested eviction: the next eviction has another reason.
TEST_F(MovementTest, AnAccessEndsTheReason) {
  start_on_demand(8 * kPage);
  const DeviceAddress first = written();
  ASSERT_TRUE(engine_->evict(first).ok());
  ASSERT_TRUE(operate({{first, kBuffer}}).ok());
  static_cast<void>(written());
  static_cast<void>(written());
  EXPECT_EQ(now().of(EvictReason::kRequested).units, 0u);
  EXPECT_EQ(now().of(EvictReason::kRequested).copied_bytes, kBuffer);
  EXPECT_EQ(now().of(EvictReason::kPressure).units, 1u);
  EXPECT_EQ(now().of(EvictReason::kPressure).copied_bytes, kBuffer);
}

TEST_F(MovementTest, ExternalMemoryLowersTheLimit) {
  start_on_demand(12 * kPage);
  for (int i = 0; i < 3; ++i) static_cast<void>(written());
  ASSERT_TRUE(engine_->add_external(4 * kPage).ok());
  expect_only(EvictReason::kLimitLowered, {1, kBuffer});
  ASSERT_TRUE(engine_->leave_free(4 * kPage).ok());
  expect_only(EvictReason::kLimitLowered, {2, 2 * kBuffer});
  engine_->take_again();
  engine_->remove_external(4 * kPage);
}

TEST_F(MovementTest, TheEndOfASoftLimitLowersTheLimit) {
  start_on_demand(8 * kPage, true);
  const DeviceAddress first = written(8 * kPage), second = allocate(8 * kPage);
  ASSERT_TRUE(operate({{first, 8 * kPage}, {second, 8 * kPage}}).ok());
  const MovementCounts before = now();
  ASSERT_TRUE(operate({{second, 8 * kPage}}).ok());
  EXPECT_EQ(now().of(EvictReason::kLimitLowered).units, 1u);
  EXPECT_EQ(now().of(EvictReason::kPressure).units, before.of(EvictReason::kPressure).units);
}

// Write-behind begins when something has been evicted, so the first eviction is under pressure.
TEST_F(MovementTest, IdleBuffersAreWrittenBehindAndPredictedOnesFetched) {
  start({.budget_bytes = 16 * kPage, .policy = kReactivePolicy, .movements = &listener_});
  std::vector<DeviceAddress> all;
  const auto settle = [this] { ASSERT_TRUE(device_->driver().synchronize_context().ok()); };
  for (int i = 0; i < 12; ++i) {
    all.push_back(written());
    settle();
  }
  EXPECT_EQ(now().of(EvictReason::kWriteBehind).copied_bytes, engine_->statistics().write_behinds * kBuffer);
  EXPECT_GT(now().of(EvictReason::kWriteBehind).units, 0u);
  EXPECT_GT(now().of(EvictReason::kPressure).units, 0u);
  for (const EvictReason none : {EvictReason::kPlanned, EvictReason::kLimitLowered, EvictReason::kRequested})
    EXPECT_EQ(now().of(none).units + now().of(none).copied_bytes, 0u) << name_of(none);
  // Backward: each buffer is freed after its use, and the one before it is prefetched.
  for (std::size_t i = all.size(); i-- > 0;) {
    ASSERT_TRUE(operate({{all[i], kBuffer}}).ok());
    ASSERT_TRUE(engine_->free(all[i], std::nullopt).ok());
    settle();
  }
  EXPECT_GT(now().of(FetchReason::kPredicted).units, 0u);
  EXPECT_LE(now().of(FetchReason::kPredicted).units, engine_->statistics().prefetches);
  for (const FetchReason none : {FetchReason::kPlanned, FetchReason::kPinned, FetchReason::kRequested})
    EXPECT_EQ(now().of(none).units + now().of(none).copied_bytes, 0u) << name_of(none);
}

class PlannedMovementTest : public MovementTest, public testing::WithParamInterface<Safety> {};

TEST_P(PlannedMovementTest, UnderAPlanAllThatMovesIsPlanned) {
  constexpr int kLayers = 12;
  start({.budget_bytes = 32 * kPage, .safety = GetParam(), .movements = &listener_});
  std::vector<DeviceAddress> layers;
  for (int i = 0; i < kLayers; ++i) layers.push_back(allocate(kBuffer));
  const auto step = [&] {
    for (int i = 0; i < 2 * kLayers; ++i) {
      const int layer = i < kLayers ? i : 2 * kLayers - 1 - i;
      const OperationInfo info{.kind = static_cast<std::uint64_t>(i + 1), .nanoseconds = 4'000'000};
      ASSERT_TRUE(submit({{layers[layer], kBuffer}}, Access::kUnknown, info, 4000).ok());
      // Strict: a planned fetch waits until evictions have completed.
      ASSERT_TRUE(device_->driver().synchronize_context().ok());
    }
  };
  for (int i = 0; i < 2; ++i) step();
  EXPECT_GT(engine_->statistics().evictions, 0u);
  EXPECT_EQ(now().of(EvictReason::kPlanned).copied_bytes, 0u) << "there is no plan yet";
  step();
  ASSERT_EQ(engine_->statistics().plans, 1u);
  // The first steps under the plan begin with the earlier state.
  for (int i = 0; i < 2; ++i) step();
  const MovementCounts before = now();
  for (int i = 0; i < 3; ++i) step();
  const MovementCounts after = now();
  EXPECT_GT(after.of(EvictReason::kPlanned).units, before.of(EvictReason::kPlanned).units);
  EXPECT_GT(after.of(EvictReason::kPlanned).copied_bytes, before.of(EvictReason::kPlanned).copied_bytes);
  EXPECT_GT(after.of(FetchReason::kPlanned).units, before.of(FetchReason::kPlanned).units);
  // A plan also keeps what is there: that is no fetch.
  EXPECT_EQ(engine_->statistics().prefetches, after.of(FetchReason::kPlanned).units);
  EXPECT_LE(engine_->statistics().wasted_prefetches, engine_->statistics().prefetches);
  for (const EvictReason same : {EvictReason::kPressure, EvictReason::kWriteBehind, EvictReason::kRequested}) {
    EXPECT_EQ(after.of(same).units, before.of(same).units) << name_of(same);
    EXPECT_EQ(after.of(same).copied_bytes, before.of(same).copied_bytes) << name_of(same);
  }
  EXPECT_EQ(after.of(FetchReason::kPredicted).units, before.of(FetchReason::kPredicted).units);
}

INSTANTIATE_TEST_SUITE_P(Safeties, PlannedMovementTest, testing::Values(Safety::kStrict, Safety::kTrusting));

}  // namespace
}  // namespace thermocline
