// SPDX-License-Identifier: Apache-2.0
// Plans without copies whose drops are exchanged one by one, where the right exchange is obvious.
#include <gtest/gtest.h>

#include "offload/recompute/joint_plan.h"
#include "tests/offload/made_up_iteration.h"

namespace thermocline {
namespace {

using test::kSize;
constexpr std::uint64_t kShortNs = 10'000, kSmallNs = 1'000'000, kLargeNs = 1'500'000;
constexpr Link kNoLink{1, 1};

// In the middle of the iteration two contents wait, of which the large one gives more bytes for its time, and a third
// buffer needs memory.
struct TwoWait : test::MadeUpIteration {
  std::uint32_t large = 0, small = 0;

  TwoWait() {
    const std::uint32_t input = buffer(true), middle = buffer();
    large = buffer();
    small = buffer();
    profile.buffers[large].bytes = profile.buffers[large].contents = lineage.buffers[large].bytes = 2 * kSize;
    add(kLargeNs, {{input, true, false}, {large, false, true}});
    add(kSmallNs, {{input, true, false}, {small, false, true}});
    for (int i = 0; i < 24; ++i) add(kShortNs, {{input, true, false}});
    add(kShortNs, {{input, true, false}, {middle, false, true}});
    ends(middle);
    for (int i = 0; i < 24; ++i) add(kShortNs, {{input, true, false}});
    add(kShortNs, {{large, true, false}});
    ends(large);
    add(kShortNs, {{small, true, false}});
    ends(small);
    finish();
  }

  Plan within(Bytes limit, RecomputePlans plans) const {
    return plan_jointly(profile, lineage, limit, kNoLink, Mapping::kForGood, plans, PlanEffort::kQuick);
  }
};

TEST(ExchangedDrops, OneThatTakesLessTimeStandsInForOneThatFreesMoreThanIsNeeded) {
  const TwoWait net;
  const Bytes whole = 5 * kSize;
  const Plan listed = net.within(whole - kSize, RecomputePlans::kRecomputeOnly);
  const Plan exchanged = net.within(whole - kSize, RecomputePlans::kRecomputeExchanged);
  ASSERT_TRUE(listed.fits && exchanged.fits);
  ASSERT_TRUE(listed.rewriting != nullptr && exchanged.rewriting != nullptr);
  EXPECT_EQ(listed.rewriting->recomputed_ns, kLargeNs);
  EXPECT_EQ(exchanged.rewriting->recomputed_ns, kSmallNs);
  EXPECT_LT(exchanged.predicted_ns, listed.predicted_ns);
}

TEST(ExchangedDrops, NothingIsLeftOutWhereAllAreNeeded) {
  const TwoWait net;
  const Plan plan = net.within(3 * kSize, RecomputePlans::kRecomputeExchanged);
  ASSERT_TRUE(plan.fits && plan.rewriting != nullptr);
  EXPECT_EQ(plan.rewriting->recomputed_ns, kLargeNs + kSmallNs);
}

TEST(ExchangedDrops, NothingIsDroppedWhereAllFits) {
  const TwoWait net;
  const Plan plan = net.within(5 * kSize, RecomputePlans::kRecomputeExchanged);
  ASSERT_TRUE(plan.fits);
  EXPECT_EQ(plan.rewriting, nullptr);
}

}  // namespace
}  // namespace thermocline
