// SPDX-License-Identifier: Apache-2.0
// Published policies of recomputation, for iterations whose right answers are known by hand or by trying everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "offload/recompute/forward_pass.h"
#include "offload/recompute/joint_plan.h"
#include "offload/recompute/recurrent_schedules.h"
#include "offload/recompute/segment_schedules.h"
#include "tests/offload/made_up_iteration.h"

namespace thermocline {
namespace {

using test::kSize;
constexpr std::uint64_t kStepNs = 1'000'000, kCheapNs = 10'000;
constexpr Link kSlowLink{1, 1};

// A recurrent net: each step makes the next state of the last one; the backward step reads the state before it.
struct Recurrent : test::MadeUpIteration {
  std::vector<std::uint32_t> states;

  explicit Recurrent(std::uint32_t steps) {
    const std::uint32_t weights = buffer(true);
    std::uint32_t before = buffer(true);
    for (std::uint32_t i = 0; i < steps; ++i) {
      states.push_back(buffer());
      add(kStepNs, {{weights, true, false}, {before, true, false}, {states[i], false, true}});
      before = states[i];
    }
    for (std::uint32_t i = steps; i-- > 0;) {
      add(2 * kStepNs, {{weights, true, false}, {states[i], true, false}});
      ends(states[i]);
    }
    finish();
  }
};

// Residual blocks: two operations inside, and one that adds what they make to what the block began with.
struct Residual : test::MadeUpIteration {
  std::vector<std::uint32_t> inside, outputs;

  explicit Residual(std::uint32_t blocks) {
    std::uint32_t before = buffer();
    add(kCheapNs, {{before, false, true}});
    const std::uint32_t input = before;
    for (std::uint32_t i = 0; i < blocks; ++i) {
      inside.push_back(buffer());
      inside.push_back(buffer());
      outputs.push_back(buffer());
      add(kStepNs, {{before, true, false}, {inside[2 * i], false, true}});
      add(kStepNs, {{inside[2 * i], true, false}, {inside[2 * i + 1], false, true}});
      add(kCheapNs, {{inside[2 * i + 1], true, false}, {before, true, false}, {outputs[i], false, true}});
      before = outputs[i];
    }
    for (std::uint32_t i = blocks; i-- > 0;) {
      add(kStepNs, {{outputs[i], true, false}, {inside[2 * i + 1], true, false}});
      add(kStepNs, {{inside[2 * i], true, false}});
      for (const std::uint32_t b : {outputs[i], inside[2 * i + 1], inside[2 * i]}) ends(b);
    }
    add(kCheapNs, {{input, true, false}});
    ends(input);
    finish();
  }
};

std::uint64_t most_live(const Profile& profile) {
  const std::vector<double> live = live_bytes_of(profile);
  return static_cast<std::uint64_t>(*std::ranges::max_element(live));
}

bool rewrites(const test::MadeUpIteration& net, const Schedule& schedule, Rewriting* out) {
  std::vector<std::size_t> failed;
  return rewrite(net.profile, net.lineage, schedule.drops,
                 {Mapping::kForGood, schedule.kept_for, schedule.recomputations}, out, &failed);
}

TEST(ForwardPass, ResidualBlocksAreNarrowWhereTheyMeet) {
  const Residual net(5);
  const ForwardPass pass(net.profile, net.lineage);
  const std::vector<std::uint32_t> points = pass.narrow_points(net.profile);
  for (const std::uint32_t place : {3u, 6u, 9u, 12u}) EXPECT_TRUE(std::ranges::binary_search(points, place)) << place;
  for (const std::uint32_t place : points) EXPECT_EQ(place % 3, 0u) << "inside a block";
}

// A mask that a random operation makes of what was in its buffer before can not be made again; what is made with it can.
TEST(ForwardPass, WhatCanNotBeMadeAgainIsNotDropped) {
  test::MadeUpIteration net;
  const std::uint32_t input = net.buffer(true), mask = net.buffer(), masked = net.buffer();
  net.add(kCheapNs, {{mask, true, true}});
  net.add(kCheapNs, {{mask, true, true}});
  net.add(kStepNs, {{input, true, false}, {mask, true, false}, {masked, false, true}});
  net.add(kStepNs, {{masked, true, false}});
  net.add(kStepNs, {{masked, true, false}, {mask, true, false}});
  net.ends(mask);
  net.ends(masked);
  net.finish();
  const ForwardPass pass(net.profile, net.lineage);
  ASSERT_EQ(pass.drops.size(), 1u);
  EXPECT_EQ(pass.drops[0].buffer, masked);
}

TEST(CheckpointAll, KeepsTheInputsOfBlocksAndMakesEachInsideOnce) {
  const Residual net(6);
  const std::vector<Schedule> schedules = CheckpointAllSchedules().schedules(net.profile, net.lineage, 0);
  ASSERT_EQ(schedules.size(), 1u);
  for (const Drop& drop : schedules[0].drops) {
    EXPECT_NE(std::ranges::find(net.inside, drop.buffer), net.inside.end());
  }
  EXPECT_GE(schedules[0].drops.size(), 10u);
  Rewriting rewriting;
  ASSERT_TRUE(rewrites(net, schedules[0], &rewriting));
  EXPECT_EQ(rewriting.recomputed_operations, schedules[0].drops.size()) << "each makes one buffer";
  // All outputs, the input, and the inside of one block.
  EXPECT_LE(most_live(rewriting.profile), (7 + 3) * kSize);
}

TEST(Sqrt, FewerSegmentsKeepLess) {
  const Residual net(36);
  const std::vector<Schedule> schedules = SqrtSchedules().schedules(net.profile, net.lineage, 0);
  ASSERT_GE(schedules.size(), 3u);
  EXPECT_GT(schedules.front().drops.size(), schedules.back().drops.size());
  for (const Schedule& schedule : schedules) {
    Rewriting rewriting;
    ASSERT_TRUE(rewrites(net, schedule, &rewriting));
    EXPECT_LE(rewriting.recomputed_operations, 3 * 36u) << "nothing runs more than once again";
    EXPECT_LT(most_live(rewriting.profile), most_live(net.profile));
  }
}

// The least number of forward steps, by trying every first state to keep.
std::uint64_t least_runs(std::uint32_t steps, std::uint32_t slots) {
  if (steps == 1) return 1;
  if (slots == 0) return std::uint64_t{steps} * (steps + 1) / 2;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t y = 1; y < steps; ++y)
    least = std::min(least, y + least_runs(steps - y, slots - 1) + least_runs(y, slots));
  return least;
}

TEST(Gruslys, SplitsAreTheBestOfAll) {
  const RecurrentSplits splits(14, 5);
  for (std::uint32_t slots = 0; slots <= 5; ++slots) {
    for (std::uint32_t steps = 1; steps <= 14; ++steps)
      EXPECT_EQ(splits.runs(steps, slots), least_runs(steps, slots)) << steps << " steps, " << slots << " slots";
  }
}

// Griewank and Walther, Algorithm 799: with this many slots, C(slots + r, r) steps run r times each, none more often.
TEST(Gruslys, SplitsAgreeWithTheBinomialLaw) {
  const RecurrentSplits splits(1000, 60);
  for (const std::uint64_t slots : {4u, 12u, 50u}) {
    // Here the state before the chain is there beside the slots.
    const std::uint64_t twice = (slots + 2) * (slots + 3) / 2;
    const std::uint64_t steps = std::min<std::uint64_t>(twice, 1000);
    EXPECT_EQ(splits.runs(static_cast<std::uint32_t>(steps), static_cast<std::uint32_t>(slots)),
              3 * steps - (slots + 3))
        << slots;
  }
}

TEST(Gruslys, RecomputesAsOftenAsTheSplitsSay) {
  constexpr std::uint32_t kSteps = 60;
  const Recurrent net(kSteps);
  const ForwardPass pass(net.profile, net.lineage);
  const RecurrentChain chain = find_recurrent_chain(net.profile, net.lineage, pass);
  ASSERT_GE(chain.steps(), kSteps - 3);
  const RecurrentSplits splits(chain.steps(), chain.steps());
  const std::vector<Schedule> schedules = RecurrentSchedules().schedules(net.profile, net.lineage, 0);
  ASSERT_GE(schedules.size(), 20u);
  for (std::uint32_t slots = 0; slots <= 10; ++slots) {
    Rewriting rewriting;
    ASSERT_TRUE(rewrites(net, schedules[slots], &rewriting)) << slots;
    // Each step's state is what the backward step reads: the last run, which would make what is inside, is left out;
    // the forward pass runs in any case.
    std::uint64_t first_pass = 0;
    for (std::uint32_t steps = chain.steps(), m = slots; splits.split(steps, m) != 0; --m) {
      first_pass += splits.split(steps, m);
      steps -= splits.split(steps, m);
    }
    EXPECT_LE(rewriting.recomputed_operations, splits.runs(chain.steps(), slots) - first_pass) << slots;
    EXPECT_GE(rewriting.recomputed_operations + 2 * chain.steps(), splits.runs(chain.steps(), slots) - first_pass);
    EXPECT_LE(most_live(rewriting.profile), (slots + 6) * kSize) << slots;
  }
}

TEST(Gruslys, FindsNoChainInResidualBlocksOfDifferentSizesAndSaysWhatToDo) {
  test::MadeUpIteration net;
  std::uint32_t before = net.buffer(true);
  std::vector<std::uint32_t> made;
  for (std::uint32_t i = 0; i < 30; ++i) {
    made.push_back(net.buffer());
    net.lineage.buffers[made[i]].bytes = net.profile.buffers[made[i]].bytes = (i + 1) * kSize;
    net.add(kStepNs, {{before, true, false}, {made[i], false, true}});
    before = made[i];
  }
  for (std::uint32_t i = 30; i-- > 0;) {
    net.add(kStepNs, {{made[i], true, false}});
    net.ends(made[i]);
  }
  net.finish();
  EXPECT_NE(RecurrentSchedules().why_none(net.profile, net.lineage).find("checkpoint-all"), std::string::npos);
  EXPECT_TRUE(RecurrentSchedules().schedules(net.profile, net.lineage, 0).empty());
  const Recurrent chain(30);
  EXPECT_EQ(RecurrentSchedules().why_none(chain.profile, chain.lineage), "");
}

// The more slots, the more states are kept in the forward pass, and the fewer are dropped.
TEST(Gruslys, BisectsForTheMostSlotsThatFit) {
  const Recurrent net(300);
  const std::vector<Schedule> all = RecurrentSchedules().schedules(net.profile, net.lineage, 0);
  const std::size_t enough = all[all.size() / 2].drops.size();
  std::size_t tried = 0, fewest = SIZE_MAX;
  RecurrentSchedules().search(net.profile, net.lineage, 0, [&](const Schedule& schedule) {
    ++tried;
    if (schedule.drops.size() < enough) return ScheduleFit::kTooLarge;
    fewest = std::min(fewest, schedule.drops.size());
    return ScheduleFit::kFits;
  });
  EXPECT_LE(tried, 10u);
  EXPECT_EQ(fewest, enough);
}

// With few slots recipes are too long.
TEST(Gruslys, SearchesUpwardsFromWhatCanNotBeRecomputed) {
  const Recurrent net(300);
  const std::vector<Schedule> all = RecurrentSchedules().schedules(net.profile, net.lineage, 0);
  const std::size_t few = all[4].drops.size(), most = all[1].drops.size();
  ASSERT_LT(few, most);
  std::size_t fewest = SIZE_MAX;
  RecurrentSchedules().search(net.profile, net.lineage, 0, [&](const Schedule& schedule) {
    if (schedule.drops.size() >= most) return ScheduleFit::kImpossible;
    if (schedule.drops.size() < few) return ScheduleFit::kTooLarge;
    fewest = std::min(fewest, schedule.drops.size());
    return ScheduleFit::kFits;
  });
  EXPECT_EQ(fewest, few);
}

// Ten thousand operations: without slots twelve million would run again.
TEST(Gruslys, OfLongChainsNoScheduleRunsMuchMoreThanItHasOperations) {
  const Recurrent net(5000);
  std::uint32_t most = 0;
  RecurrentSchedules().search(net.profile, net.lineage, 0, [&](const Schedule& schedule) {
    Rewriting rewriting;
    if (rewrites(net, schedule, &rewriting)) most = std::max(most, rewriting.recomputed_operations);
    return ScheduleFit::kTooLarge;
  });
  EXPECT_GT(most, 5000u);
  EXPECT_LT(most, 200'000u);
}

// A thousand steps with room for a twentieth of the states: about one more forward pass, a third of the time.
TEST(Gruslys, AThousandStepsInATwentiethOfTheMemory) {
  const Recurrent net(1000);
  const Plan plan =
      plan_scheduled(net.profile, net.lineage, 50 * kSize, kSlowLink, Mapping::kForGood, RecurrentSchedules());
  ASSERT_TRUE(plan.fits);
  EXPECT_TRUE(plan.gaps.empty());
  EXPECT_LE(plan.predicted_ns, 1.34 * 3000 * kStepNs);
}

}  // namespace
}  // namespace thermocline
