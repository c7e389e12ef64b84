// SPDX-License-Identifier: Apache-2.0
// Buffers that are used again and again, twice what the budget holds, in steps that differ so that no plan is made:
// those that are used most often stay, and those that are used equally often do not chase each other out.
#include "offload/policy/resident_set.h"

#include <algorithm>
#include <random>
#include <vector>

#include "offload/policies.h"
#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

class ResidentSetTest : public EngineTest {
 protected:
  static constexpr Bytes kEach = 2 * kPage;
  static constexpr std::size_t kRoom = 32;

  void start_with(const PolicyEntry* policy) {
    EngineOptions options;
    options.budget_bytes = kRoom * kEach;
    options.policy = policy;
    options.host_is_readable = false;
    start(options);
    longer_ = 0;
  }
  std::vector<DeviceAddress> weights(std::size_t count) {
    std::vector<DeviceAddress> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(allocate(kEach));
      use(all.back(), Access::kWrite);
    }
    return all;
  }
  void use(DeviceAddress buffer, Access access = Access::kRead) {
    // Each buffer has an operator of its own, or operations in a random order might be taken for a period.
    ASSERT_TRUE(submit({{buffer, kEach}}, access, {.kind = buffer.value, .nanoseconds = 1000}, std::nan("")).ok());
  }
  // A step that leaves more memory live than it found is none that repeats.
  void grow() {
    ++longer_;
    const Bytes bytes = longer_ * kPage;
    const DeviceAddress cache = allocate(bytes);
    ASSERT_TRUE(operate({{cache, bytes}}, Access::kWrite).ok());
    if (longer_ > 1) {
      ASSERT_TRUE(engine_->free(cache_, std::nullopt).ok());
    }
    cache_ = cache;
  }
  // The same, where it is not to take much room.
  void grow_seldom(std::size_t turn) {
    if (turn % 4 == 0) grow();
  }
  Bytes fetched() const { return engine_->statistics().restored_bytes; }

 private:
  std::size_t longer_ = 0;
  DeviceAddress cache_{};
};

TEST_F(ResidentSetTest, OfBuffersInTurnAFixedPartStays) {
  constexpr std::size_t kTurns = 12, kAll = 2 * kRoom;
  const auto fetched_in_the_last = [&](const PolicyEntry* policy) {
    start_with(policy);
    const std::vector<DeviceAddress> all = weights(kAll);
    Bytes before = 0;
    for (std::size_t turn = 0; turn < kTurns; ++turn) {
      before = fetched();
      grow();
      for (const DeviceAddress buffer : all) use(buffer, Access::kUnknown);
    }
    EXPECT_EQ(engine_->statistics().plans, 0u);
    const Bytes bytes = fetched() - before;
    const MovementCounts movements = engine_->statistics().movements;
    EXPECT_EQ(movements.of(EvictReason::kPlanned).units, 0u) << "there is no plan";
    EXPECT_EQ(movements.of(EvictReason::kPassing).units > 0, policy == kLearnedPolicy);
    TearDown();
    return bytes;
  };
  // On demand each leaves just before its next use.
  EXPECT_EQ(fetched_in_the_last(kLruPolicy), kAll * kEach);
  // Half of them fit but for the cache, whose copy is there beside it for a moment, and for what passes through.
  EXPECT_LE(fetched_in_the_last(kLearnedPolicy), (kAll - kRoom + kTurns + 4) * kEach);
}

TEST_F(ResidentSetTest, WhatIsUsedOftenIsNotFetchedAgain) {
  start_with(kLearnedPolicy);
  constexpr std::size_t kHot = 12;
  const std::vector<DeviceAddress> all = weights(3 * kRoom);
  std::mt19937_64 random(11);
  Bytes of_hot = 0;
  for (std::size_t turn = 0; turn < 40; ++turn) {
    grow_seldom(turn);
    std::size_t hot = 0;
    // Between two uses of a hot one come three cold ones: more in a turn than there is room for.
    for (std::size_t i = 0; i < 4 * kHot; ++i) {
      if (i % 4 != 0) {
        use(all[kHot + random() % (all.size() - kHot)]);
        continue;
      }
      const Bytes before = fetched();
      use(all[hot++]);
      if (turn >= 30) of_hot += fetched() - before;
    }
  }
  EXPECT_LE(of_hot, 2 * kEach) << "of 120 uses";
}

TEST_F(ResidentSetTest, ACacheThatIsWrittenStaysBeforeWeightsThatAreRead) {
  start_with(kLearnedPolicy);
  const std::vector<DeviceAddress> all = weights(2 * kRoom);
  const std::vector<DeviceAddress> caches = weights(6);
  Bytes in = 0;
  for (std::size_t turn = 0; turn < 12; ++turn) {
    grow();
    for (std::size_t i = 0; i < all.size(); ++i) {
      use(all[i]);
      if (i % 11 != 0) continue;
      const Bytes before = fetched();
      use(caches[i / 11], Access::kUnknown);
      if (turn >= 8) in += fetched() - before;
    }
  }
  EXPECT_EQ(in, 0u);
}

TEST_F(ResidentSetTest, AnotherPhaseGetsTheRoom) {
  start_with(kLearnedPolicy);
  const std::vector<DeviceAddress> one = weights(kRoom), other = weights(kRoom);
  Bytes last = 0;
  for (std::size_t phase = 0; phase < 4; ++phase) {
    for (std::size_t turn = 0; turn < 6; ++turn) {
      grow_seldom(phase * 6 + turn);
      const Bytes before = fetched();
      for (const DeviceAddress buffer : phase % 2 == 0 ? one : other) use(buffer);
      last = fetched() - before;
    }
  }
  // Most of a phase fits.
  EXPECT_LE(last, kRoom / 2 * kEach);
}

}  // namespace
}  // namespace thermocline
