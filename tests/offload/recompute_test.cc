// SPDX-License-Identifier: Apache-2.0
// Versions, recipes, rewritten iterations and joint plans for iterations whose right answers are obvious, or are found
// by trying everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "offload/planning/plan_timing.h"
#include "offload/recompute/drop_ranking.h"
#include "offload/recompute/joint_plan.h"
#include "offload/recompute/kept_inputs.h"
#include "offload/recompute/lasting_contents.h"
#include "offload/recompute/lineage.h"
#include "offload/recompute/recipe.h"
#include "offload/recompute/rewriting.h"
#include "offload/recompute/segment_schedules.h"
#include "offload/recompute/versions.h"
#include "tests/offload/made_up_iteration.h"

namespace thermocline {
namespace {

using test::kSize;
constexpr std::uint64_t kCheapNs = 10'000, kDearNs = 1'000'000;
constexpr Link kSlowLink{1, 1};

// A forward pass that fills memory and a backward pass that empties it. Each layer has an expensive operation, whose
// output the backward pass reads, and a cheap one, whose output is also read, and is updated in place.
struct Net : test::MadeUpIteration {
  std::vector<std::uint32_t> dear, cheap;  // the output buffers of both

  explicit Net(std::uint32_t layers) {
    const std::uint32_t input = buffer(true);
    std::uint32_t before = input;
    for (std::uint32_t i = 0; i < layers; ++i) {
      dear.push_back(buffer());
      cheap.push_back(buffer());
      add(kDearNs, {{before, true, false}, {dear[i], false, true}});
      add(kCheapNs, {{dear[i], true, false}, {cheap[i], false, true}});
      add(kCheapNs, {{cheap[i], true, true}});
      before = cheap[i];
    }
    // Operations in between make the gaps long.
    for (int i = 0; i < 24; ++i) add(kCheapNs, {{input, true, false}});
    for (std::uint32_t i = layers; i-- > 0;) {
      add(kDearNs, {{cheap[i], true, false}});
      add(kDearNs, {{dear[i], true, false}});
      ends(cheap[i]);
      ends(dear[i]);
    }
    finish();
  }
};

std::vector<std::uint64_t> operations_of(const Recipe& recipe) {
  std::vector<std::uint64_t> all;
  for (const Recipe::Run& run : recipe.runs) all.push_back(run.operation);
  return all;
}

TEST(Lineage, AVersionStandsUntilItIsOverwrittenOrFreed) {
  Net net(1);
  // The cheap buffer: written at place 1, updated in place at place 2, read at 27 and freed after that.
  const VersionId first = net.lineage.operands(1)[1].written, second = net.lineage.operands(2)[0].written;
  EXPECT_EQ(net.lineage.operands(2)[0].read, first);
  EXPECT_FALSE(net.lineage.is_current_at(first, 1)) << "its producer has not run";
  EXPECT_TRUE(net.lineage.is_current_at(first, 2));
  EXPECT_FALSE(net.lineage.is_current_at(first, 3));
  EXPECT_TRUE(net.lineage.is_current_at(second, 27));
  EXPECT_FALSE(net.lineage.is_current_at(second, 28));
}

TEST(Recipe, WhatWasUpdatedInPlaceGoesBackToWhoeverDidNotReadIt) {
  const Net net(1);
  std::vector<bool> dropped(net.lineage.buffers.size());
  dropped[net.cheap[0]] = true;
  const RecomputableAt world(net.lineage, dropped, 27);
  RecipeBuilder builder(world);
  ASSERT_TRUE(builder.add(net.lineage.operands(2)[0].written));
  const Recipe& recipe = builder.recipe();
  EXPECT_EQ(operations_of(recipe), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(recipe.values.size(), 1u) << "both work in one place";
  EXPECT_EQ(recipe.inputs, (std::vector<VersionId>{net.lineage.operands(1)[0].read}));
}

TEST(Recipe, WhatIsGoneIsMadeOnTheWay) {
  const Net net(2);
  std::vector<bool> dropped(net.lineage.buffers.size());
  dropped[net.cheap[0]] = dropped[net.dear[1]] = true;
  const RecomputableAt world(net.lineage, dropped, 30);
  RecipeBuilder builder(world);
  ASSERT_TRUE(builder.add(net.lineage.operands(3)[1].written));
  EXPECT_EQ(operations_of(builder.recipe()), (std::vector<std::uint64_t>{1, 2, 3}));
  // One run is enough for both.
  ASSERT_TRUE(builder.add(net.lineage.operands(2)[0].written));
  EXPECT_EQ(builder.recipe().runs.size(), 3u);
}

TEST(Recipe, WhatTheIterationFoundCanNotBeMade) {
  const Net net(1);
  std::vector<bool> dropped(net.lineage.buffers.size());
  dropped[0] = dropped[net.dear[0]] = true;
  const RecomputableAt world(net.lineage, dropped, 28);
  RecipeBuilder builder(world);
  EXPECT_FALSE(builder.add(net.lineage.operands(0)[1].written));
}

TEST(Rewriting, ADroppedBufferHasTwoLivesAndItsProducersTwoPlaces) {
  const Net net(1);
  const Drop drop{.buffer = net.cheap[0], .last_use = 2, .next_use = 27, .version = net.lineage.operands(2)[0].written};
  Rewriting rewriting;
  std::vector<std::size_t> failed;
  ASSERT_TRUE(rewrite(net.profile, net.lineage, {drop}, {}, &rewriting, &failed));
  EXPECT_EQ(rewriting.profile.places(), net.profile.places() + 2);
  EXPECT_EQ(rewriting.recomputed_operations, 2u);
  EXPECT_EQ(rewriting.recomputed_ns, 2 * kCheapNs);
  EXPECT_EQ(rewriting.runs_before[27], 2u);
  EXPECT_EQ(rewriting.place_of[27], 29u);
  EXPECT_EQ(rewriting.drops[2], (std::vector<std::uint32_t>{net.cheap[0]}));
  EXPECT_EQ(rewriting.recomputations[27], (std::vector<std::uint32_t>{net.cheap[0]}));
  ASSERT_EQ(rewriting.names.back(), net.cheap[0]);
  const ProfiledBuffer& first = rewriting.profile.buffers[net.cheap[0]];
  const ProfiledBuffer& second = rewriting.profile.buffers.back();
  EXPECT_EQ(first.birth, 1u);
  EXPECT_EQ(first.death, 2u);
  EXPECT_EQ(second.birth, 27u);
  EXPECT_EQ(second.uses, (std::vector<std::uint32_t>{27, 28, 29}));
  EXPECT_EQ(second.death, 29u);
}

// A small activation of which a large gradient is made, and which is freed long before the gradient is read.
struct Gradient : test::MadeUpIteration {
  std::uint32_t small = 0, gradient = 0;
  explicit Gradient(bool keeps_inputs) {
    const std::uint32_t input = buffer(true);
    small = buffer();
    gradient = buffer();
    profile.buffers[small].bytes = profile.buffers[small].contents = kSize / 16;
    lineage.buffers[small].bytes = kSize / 16;
    lineage.keeps_inputs = keeps_inputs;
    add(kDearNs, {{input, true, false}, {small, false, true}});
    add(kCheapNs, {{small, true, false}, {gradient, false, true}});
    ends(small);
    for (int i = 0; i < 30; ++i) add(kCheapNs, {{input, true, false}});
    add(kCheapNs, {{gradient, true, false}});
    ends(gradient);
    finish();
  }
  Drop drop() const { return {gradient, 1, 32, lineage.operands(1)[1].written}; }
};

TEST(Rewriting, AnInputIsKeptUntilWhatIsMadeOfItHasRunAgain) {
  const Gradient net(true);
  Rewriting rewriting;
  std::vector<std::size_t> failed;
  ASSERT_TRUE(rewrite(net.profile, net.lineage, {net.drop()}, {}, &rewriting, &failed));
  EXPECT_EQ(rewriting.reruns, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(rewriting.profile.buffers[net.small].death, 32u);
  EXPECT_EQ(rewriting.profile.buffers[net.gradient].death, 1u);
  const Gradient other(false);
  ASSERT_TRUE(rewrite(other.profile, other.lineage, {other.drop()}, {}, &rewriting, &failed));
  EXPECT_EQ(rewriting.reruns, (std::vector<std::uint32_t>{0, 1})) << "it is made again, too";
}

TEST(KeptInputs, AreSmallAndLeaveWhileTheOtherIsDropped) {
  Gradient net(true);
  const VersionId input = net.lineage.operands(0)[1].written;
  EXPECT_EQ(KeptInputs(net.lineage).of(net.drop()), (std::vector<VersionId>{input}));
  Drop later = net.drop();
  later.last_use = 5;
  EXPECT_TRUE(KeptInputs(net.lineage).of(later).empty()) << "it was freed before";
  net.lineage.buffers[net.small].bytes = kSize / 4;
  EXPECT_TRUE(KeptInputs(net.lineage).of(net.drop()).empty()) << "large";
}

// Activations that live on from one step to the next: each made of the one before and of small weights, read again at the
// end, after which the weights are updated in place.
struct LastingNet : test::MadeUpIteration {
  static constexpr std::uint32_t kIdle = 24;
  std::uint32_t input = 0;
  std::vector<std::uint32_t> weights, out;

  explicit LastingNet(std::uint32_t layers, bool drops_lasting = true) {
    lineage.drops_lasting = drops_lasting;
    input = buffer(true);
    std::uint32_t before = input;
    for (std::uint32_t i = 0; i < layers; ++i) {
      weights.push_back(buffer(true));
      profile.buffers[weights[i]].bytes = profile.buffers[weights[i]].contents = kSize / 16;
      lineage.buffers[weights[i]].bytes = kSize / 16;
      out.push_back(buffer(true));
      add(kCheapNs, {{before, true, false}, {weights[i], true, false}, {out[i], false, true}});
      before = out[i];
    }
    for (std::uint32_t i = 0; i < kIdle; ++i) add(kDearNs, {{input, true, false}});
    for (std::uint32_t i = layers; i-- > 0;) {
      add(kCheapNs, {{out[i], true, false}});
      add(kCheapNs, {{weights[i], true, true}});
    }
    finish();
  }
  const Drop* dead(const LastingContents& contents, std::uint32_t buffer) const {
    const auto found = std::ranges::find(contents.dead(), buffer, &Drop::buffer);
    return found == contents.dead().end() ? nullptr : &*found;
  }
};

TEST(LastingContents, AreDeadFromTheirLastReadToTheNextWholeWrite) {
  const LastingNet net(2);
  const LastingContents contents(net.profile, net.lineage);
  ASSERT_EQ(contents.dead().size(), 2u);
  const Drop* const first = net.dead(contents, net.out[0]);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->last_use, 2 + LastingNet::kIdle + 2);
  EXPECT_EQ(first->next_use, 0u);
  EXPECT_TRUE(first->goes_round());
  EXPECT_EQ(contents.content_of(*first), net.lineage.operands(0)[2].written);
  const std::vector<LastingContents::Aside> asides = contents.asides_of(contents.dead());
  ASSERT_EQ(asides.size(), 2u) << "the weights, which are updated meanwhile";
  for (const LastingContents::Aside& aside : asides) {
    const bool is_first = net.lineage.versions[aside.input].buffer == net.weights[0];
    EXPECT_EQ(aside.from, 2 + LastingNet::kIdle + (is_first ? 3 : 1));
    // The second is made of the first, and so of its weights.
    EXPECT_EQ(aside.until, 1u);
  }
}

TEST(LastingContents, AreNotDeadIfReadBeforeOrIfTheyCanNotBeMadeAgain) {
  EXPECT_TRUE(LastingContents(LastingNet(2, false).profile, LastingNet(2, false).lineage).dead().empty());
  LastingNet large(2);
  for (const std::uint32_t weights : large.weights) large.lineage.buffers[weights].bytes = kSize;
  EXPECT_TRUE(LastingContents(large.profile, large.lineage).dead().empty()) << "too large to be copied aside";
  LastingNet held(2);
  held.lineage.buffers[held.out[0]].may_be_dropped = false;
  EXPECT_EQ(LastingContents(held.profile, held.lineage).dead().size(), 1u);
  // Found by the iteration, and read before it is overwritten.
  test::MadeUpIteration carried;
  carried.lineage.drops_lasting = true;
  const std::uint32_t input = carried.buffer(true), out = carried.buffer(true);
  carried.add(kCheapNs, {{out, true, false}});
  carried.add(kCheapNs, {{input, true, false}, {out, false, true}});
  carried.add(kCheapNs, {{out, true, true}});
  carried.finish();
  const LastingContents contents(carried.profile, carried.lineage);
  ASSERT_EQ(contents.dead().size(), 0u) << "what it found can not be made, and what it leaves is read";
}

TEST(Rewriting, OfALastingBufferTheLastLifeGoesRound) {
  const LastingNet net(1);
  const std::uint32_t again = 1 + LastingNet::kIdle;
  const Drop drop{net.out[0], 0, again, net.lineage.operands(0)[2].written};
  Rewriting rewriting;
  std::vector<std::size_t> failed;
  ASSERT_TRUE(rewrite(net.profile, net.lineage, {drop}, {}, &rewriting, &failed));
  EXPECT_EQ(rewriting.profile.buffers.size(), net.profile.buffers.size());
  const ProfiledBuffer& whole = rewriting.profile.buffers[net.out[0]];
  EXPECT_FALSE(whole.always);
  EXPECT_EQ(whole.birth, again) << "where it is recomputed";
  EXPECT_EQ(whole.death, 0u) << "in the next iteration";
  EXPECT_EQ(whole.uses, (std::vector<std::uint32_t>{0, again, again + 1}));
  EXPECT_EQ(rewriting.reruns, (std::vector<std::uint32_t>{0}));
}

TEST(Rewriting, ADeadContentIsNotThereWhenTheNextIterationBegins) {
  const LastingNet net(1);
  const std::uint32_t again = 1 + LastingNet::kIdle;
  const LastingContents contents(net.profile, net.lineage);
  ASSERT_EQ(contents.dead().size(), 1u);
  Rewriting rewriting;
  std::vector<std::size_t> failed;
  const RewritingTerms terms{.lasting = &contents};
  ASSERT_TRUE(rewrite(net.profile, net.lineage, {contents.dead()[0]}, terms, &rewriting, &failed));
  EXPECT_EQ(rewriting.recomputed_operations, 0u);
  EXPECT_EQ(rewriting.drops[again], (std::vector<std::uint32_t>{net.out[0]}));
  const ProfiledBuffer& whole = rewriting.profile.buffers[net.out[0]];
  EXPECT_FALSE(whole.always);
  EXPECT_EQ(whole.birth, 0u);
  EXPECT_EQ(whole.death, again);
  // Its weights, from their update until it is overwritten.
  EXPECT_EQ(rewriting.profile.unplanned_bytes[again], 0u);
  EXPECT_EQ(rewriting.profile.unplanned_bytes[again + 1], kSize / 16);
  EXPECT_EQ(rewriting.profile.unplanned_bytes[0], kSize / 16);
  EXPECT_EQ(rewriting.profile.unplanned_bytes[1], 0u);
  // Both: two lives, none of which goes round.
  const Drop between{net.out[0], 0, again, net.lineage.operands(0)[2].written};
  ASSERT_TRUE(rewrite(net.profile, net.lineage, {between, contents.dead()[0]}, terms, &rewriting, &failed));
  EXPECT_EQ(rewriting.reruns, (std::vector<std::uint32_t>{0}));
  ASSERT_EQ(rewriting.names.back(), net.out[0]);
  EXPECT_EQ(rewriting.profile.buffers[net.out[0]].death, 0u);
  EXPECT_EQ(rewriting.profile.buffers.back().birth, again);
  EXPECT_EQ(rewriting.profile.buffers.back().death, again + 1);
}

TEST(JointPlan, DropsLastingContentsOnlyForWhoCarriesThatOut) {
  const Bytes limit = 5 * kSize;
  const LastingNet net(8);
  const Plan plan = plan_jointly(net.profile, net.lineage, limit, kSlowLink, Mapping::kForGood);
  ASSERT_TRUE(plan.fits);
  ASSERT_NE(plan.rewriting, nullptr);
  EXPECT_GT(plan.rewriting->recomputed_operations, 0u);
  EXPECT_LT(plan.predicted_ns, 0.9 * plan_iteration(net.profile, limit, kSlowLink).predicted_ns);
  const LastingNet other(8, false);
  EXPECT_EQ(plan_jointly(other.profile, other.lineage, limit, kSlowLink, Mapping::kForGood).rewriting, nullptr);
}

TEST(JointPlan, CheapOnesGoFirst) {
  const Net net(6);
  const std::vector<Drop> drops =
      rank_drops(net.profile, net.lineage, LastingContents(net.profile, net.lineage), {.limit = 8 * kSize}).drops;
  ASSERT_GE(drops.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NE(std::ranges::find(net.cheap, drops[i].buffer), net.cheap.end()) << "the " << i << "-th";
  }
}

// If the link is too slow for any copy, as few buffers as possible are dropped, and cheap ones. Tries every set.
TEST(JointPlan, IsNearTheBestOfAllSetsOfDrops) {
  const Net net(4);
  for (const Bytes limit : {8 * kSize, 7 * kSize, 6 * kSize, 5 * kSize}) {
    const std::vector<Drop> all =
        rank_drops(net.profile, net.lineage, LastingContents(net.profile, net.lineage), {.limit = limit}).drops;
    ASSERT_LE(all.size(), 12u);
    double best = std::numeric_limits<double>::infinity();
    for (std::uint32_t set = 0; set < 1u << all.size(); ++set) {
      std::vector<Drop> drops;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if ((set >> i & 1) != 0) drops.push_back(all[i]);
      }
      for (const std::uint32_t kept_for : {12u, 40u}) {
        Rewriting rewriting;
        std::vector<std::size_t> failed;
        if (!rewrite(net.profile, net.lineage, drops, {Mapping::kForGood, kept_for}, &rewriting, &failed)) continue;
        const Plan plan = plan_iteration(rewriting.profile, limit, kSlowLink);
        if (plan.fits) best = std::min(best, plan.predicted_ns);
      }
    }
    const Plan plan = plan_jointly(net.profile, net.lineage, limit, kSlowLink, Mapping::kForGood);
    ASSERT_TRUE(plan.fits) << limit / kSize;
    EXPECT_LE(plan.predicted_ns, 1.02 * best) << limit / kSize;
    const Plan swapped = plan_iteration(net.profile, limit, kSlowLink);
    if (swapped.fits) {
      EXPECT_LE(plan.predicted_ns, swapped.predicted_ns) << limit / kSize;
    }
  }
}

TEST(JointPlan, WithoutCopiesNothingIsCopiedAndTheJointOneIsNotSlower) {
  const Net net(6);
  const Bytes limit = 10 * kSize;
  const Plan joint = plan_jointly(net.profile, net.lineage, limit, kSlowLink);
  const Plan alone =
      plan_jointly(net.profile, net.lineage, limit, kSlowLink, Mapping::kEachTime, RecomputePlans::kRecomputeOnly);
  const Plan segments = plan_scheduled(net.profile, net.lineage, limit, kSlowLink, Mapping::kEachTime, SqrtSchedules());
  EXPECT_GE(plan_iteration(net.profile, limit, kSlowLink).predicted_ns, 0.999 * joint.predicted_ns);
  for (const Plan* plan : {&alone, &segments}) {
    ASSERT_TRUE(plan->fits);
    EXPECT_TRUE(plan->gaps.empty());
    ASSERT_NE(plan->rewriting, nullptr);
    EXPECT_GE(plan->predicted_ns, 0.999 * joint.predicted_ns);
  }
}

// Two contents in a row are made again, and the second is read together with two others. The first, which is read soon
// after, has no room until then: it is made twice.
TEST(JointPlan, WhatIsInTheWayUntilItsOwnUseIsMadeTwice) {
  test::MadeUpIteration net;
  const std::uint32_t input = net.buffer(true), first = net.buffer(), second = net.buffer(), copy = net.buffer();
  net.add(kDearNs, {{input, true, false}, {first, false, true}});
  net.add(kCheapNs, {{first, true, false}, {second, false, true}});
  net.add(kCheapNs, {{second, true, false}, {copy, false, true}});
  net.ends(second);
  const std::uint32_t others[] = {net.buffer(), net.buffer(), net.buffer(), net.buffer()};
  for (int i = 0; i < 24; ++i) {
    std::vector<Lineage::Access> accesses;
    for (const std::uint32_t other : others) accesses.push_back({other, i > 0, true});
    net.add(10 * kDearNs, accesses);
  }
  for (const std::uint32_t other : others) net.ends(other);
  const std::uint32_t gradient = net.buffer(), next = net.buffer(), last = net.buffer();
  net.add(kDearNs, {{input, true, false}, {gradient, false, true}});
  net.add(kCheapNs, {{gradient, true, false}, {copy, true, false}, {next, false, true}});
  net.ends(gradient);
  net.ends(copy);
  net.add(kCheapNs, {{next, true, false}, {first, true, false}, {last, false, true}});
  for (const std::uint32_t one : {first, next, last}) net.ends(one);
  net.finish();
  const Plan plan = plan_jointly(net.profile, net.lineage, 5 * kSize, Link{3, 3}, Mapping::kForGood);
  ASSERT_TRUE(plan.fits);
  EXPECT_TRUE(plan.gaps.empty());
  ASSERT_NE(plan.rewriting, nullptr);
  EXPECT_EQ(plan.rewriting->recomputed_ns, 2 * kDearNs + 2 * kCheapNs);
}

TEST(JointPlan, NothingIsDroppedWhereAllFitsAndTheSameTwiceIsTheSame) {
  const Net net(6);
  EXPECT_EQ(plan_jointly(net.profile, net.lineage, 20 * kSize, kSlowLink).rewriting, nullptr);
  const Plan one = plan_jointly(net.profile, net.lineage, 8 * kSize, kSlowLink);
  const Plan two = plan_jointly(net.profile, net.lineage, 8 * kSize, kSlowLink);
  ASSERT_NE(one.rewriting, nullptr);
  EXPECT_EQ(one.rewriting->drops, two.rewriting->drops);
  EXPECT_EQ(one.rewriting->recomputations, two.rewriting->recomputations);
  EXPECT_EQ(one.predicted_ns, two.predicted_ns);
}

class VersionsTest : public testing::Test {
 protected:
  static Versions::Operand reads(Versions::BufferNumber buffer) { return operand(buffer, {true, false}); }
  static Versions::Operand writes(Versions::BufferNumber buffer) { return operand(buffer, {false, true}); }
  static Versions::Operand updates(Versions::BufferNumber buffer) { return operand(buffer, {true, true}); }
  static Versions::Operand operand(Versions::BufferNumber buffer, OperandUse use) {
    return {.buffer = buffer, .address = DeviceAddress{buffer << 30}, .bytes = kSize, .owns_pages = true, .use = use};
  }
  void operate(std::vector<Versions::Operand> operands, bool may_run_again = true) {
    versions_.arrives(++id_, may_run_again, 1000, operands);
    versions_.submitted();
    versions_.validate();
  }
  std::vector<std::uint64_t> ids_for(Versions::BufferNumber buffer) {
    std::vector<std::uint64_t> ids;
    const std::optional<Recipe> recipe = versions_.recipe_for({&buffer, 1});
    if (!recipe) return ids;
    for (const Recipe::Run& run : recipe->runs) ids.push_back(versions_.id_of(run.operation));
    return ids;
  }
  using Ids = std::vector<std::uint64_t>;

  Versions versions_;
  std::uint64_t id_ = 0;
};

TEST_F(VersionsTest, OnlyWhatCanBeRecomputedIsDropped) {
  operate({writes(1)}, false);
  operate({reads(1), writes(2)});
  EXPECT_FALSE(versions_.drop(1)) << "its producer may not run again";
  EXPECT_FALSE(versions_.drop(7)) << "nobody has written it";
  EXPECT_TRUE(versions_.drop(2));
  EXPECT_EQ(ids_for(2), Ids{2});
  versions_.validate();
}

TEST_F(VersionsTest, BeforeAnInputGoesTheVersionIsMadeOrMadeOtherwise) {
  operate({writes(1)}, false);
  operate({reads(1), writes(2)});
  operate({reads(2), writes(3)});
  ASSERT_TRUE(versions_.drop(3));
  const Versions::BufferNumber two = 2, one = 1;
  EXPECT_TRUE(versions_.lost_without({&two, 1}).empty()) << "it can be made of the first";
  versions_.freed(2);
  EXPECT_EQ(ids_for(3), (Ids{2, 3}));
  versions_.validate();
  EXPECT_EQ(versions_.lost_without({&one, 1}), std::vector<Versions::BufferNumber>{3});
}

TEST_F(VersionsTest, WhatIsMadeOfADroppedBufferIsMadeOfItsInputs) {
  operate({writes(1)}, false);
  operate({reads(1), writes(2)});
  operate({reads(2), writes(3)});
  operate({updates(3)});
  ASSERT_TRUE(versions_.drop(3));
  EXPECT_EQ(ids_for(3), (Ids{3, 4}));
  ASSERT_TRUE(versions_.drop(2));
  EXPECT_EQ(ids_for(3), (Ids{2, 3, 4}));
  versions_.restored(2);
  EXPECT_EQ(ids_for(3), (Ids{3, 4}));
  versions_.validate();
}

// An operation that is prepared and never submitted changes nothing.
TEST_F(VersionsTest, WhatIsNotSubmittedHasNotHappened) {
  operate({writes(1)}, false);
  operate({reads(1), writes(2)});
  const VersionId before = versions_.current(2);
  versions_.arrives(9, true, 1000, std::array{updates(2)});
  EXPECT_EQ(versions_.current(2), before);
  versions_.arrives(9, true, 1000, std::array{reads(2), writes(3)});
  versions_.submitted();
  EXPECT_EQ(versions_.current(2), before);
  EXPECT_NE(versions_.current(3), kNoVersion);
}

TEST_F(VersionsTest, OverwritingADroppedBufferEndsTheMatter) {
  operate({writes(1)}, false);
  operate({reads(1), writes(2)});
  ASSERT_TRUE(versions_.drop(2));
  operate({writes(2)});
  EXPECT_FALSE(versions_.is_dropped(2));
  EXPECT_TRUE(versions_.lost_without(std::array<Versions::BufferNumber, 1>{1}).empty());
}

TEST_F(VersionsTest, ContentsAreThereFromTheirWholeWriteToTheirLastRead) {
  for (int turn = 0; turn < 2; ++turn) {
    operate({reads(1), writes(2)});
    operate({updates(2)});
    operate({reads(2), writes(3)});
    operate({reads(3), updates(4)});
  }
  EXPECT_TRUE(versions_.content_bytes(9).empty());
  // The first is only read, and the fourth is carried from one to the next.
  EXPECT_EQ(versions_.content_bytes(4), (std::vector<Bytes>{2 * kSize, 3 * kSize, 3 * kSize, 3 * kSize}));
}

// An operation that finds it through another operand's address would not find it elsewhere.
TEST_F(VersionsTest, WhatHasToBeInItsPlaceIsReadNowhereElse) {
  const auto in_place = [](Versions::BufferNumber buffer) {
    Versions::Operand operand = reads(buffer);
    operand.use.in_place = true;
    return operand;
  };
  operate({writes(1)}, false);
  operate({reads(1), writes(2)});
  operate({in_place(2), reads(1), writes(3)});
  ASSERT_TRUE(versions_.drop(3));
  EXPECT_FALSE(versions_.is_worth_a_copy(2, 1));
  EXPECT_TRUE(versions_.is_worth_a_copy(1, 1));
  const Versions::BufferNumber two = 2, three = 3;
  EXPECT_EQ(versions_.lost_without({&two, 1}), std::vector{three}) << "it could be made again, in scratch memory";
  EXPECT_FALSE(versions_.drop(2)) << "nor may it be dropped, as then it would be made somewhere else";
}

TEST_F(VersionsTest, WhatWasCopiedAsideIsReadThere) {
  operate({writes(1)}, false);
  operate({reads(1), writes(2)});
  operate({reads(2), reads(1), writes(3)});
  ASSERT_TRUE(versions_.drop(2));
  ASSERT_TRUE(versions_.drop(3));
  EXPECT_FALSE(versions_.is_worth_a_copy(1, kSize));
  EXPECT_TRUE(versions_.is_worth_a_copy(1, kSize / 4)) << "of two that are made of it";
  EXPECT_FALSE(versions_.is_worth_a_copy(2, 1)) << "nothing is made of what is dropped";
  const Versions::BufferNumber one = 1, two = 2;
  versions_.arrives(++id_, true, 1000, std::vector{updates(1)});
  versions_.copied_aside(1, 9, DeviceAddress{9});
  EXPECT_TRUE(versions_.lost_without({&one, 1}).empty());
  versions_.submitted();
  versions_.validate();
  EXPECT_TRUE(versions_.is_read(9));
  EXPECT_EQ(ids_for(2), Ids{2});
  EXPECT_EQ(ids_for(3), (Ids{2, 3}));
  const std::optional<Recipe> recipe = versions_.recipe_for({&two, 1});
  ASSERT_TRUE(recipe);
  EXPECT_EQ(versions_.address_of(recipe->runs[0].operation, 0), DeviceAddress{9});
  EXPECT_FALSE(versions_.drop(1)) << "who made what was updated may not run again";
  operate({writes(2)});
  EXPECT_TRUE(versions_.is_read(9));
  operate({writes(3)});
  EXPECT_FALSE(versions_.is_read(9));
  versions_.freed(9);
  EXPECT_FALSE(versions_.is_copied_aside(9));
  versions_.validate();
}

// Dropped after the operation at which old ones are forgotten: too_old() is not called again in time.
TEST(Versions, WhatDroppedContentsAreMadeOfIsRemembered) {
  constexpr std::uint64_t kRemembered = 16;
  constexpr Versions::BufferNumber kInput = 1, kMade = 2, kOther = 3;
  Versions versions(kRemembered);
  const auto operand = [](Versions::BufferNumber buffer, bool writes) {
    return Versions::Operand{buffer, DeviceAddress{buffer << 30}, kSize, true, {!writes, writes}};
  };
  const std::array first{operand(kInput, false), operand(kMade, true)};
  versions.arrives(1, true, kCheapNs, first);
  versions.submitted();
  const std::array filler{operand(kInput, false), operand(kOther, true)};
  for (std::uint64_t n = 1; n < kRemembered; ++n) {
    versions.arrives(2, true, kCheapNs, filler);
    versions.submitted();
  }
  ASSERT_TRUE(versions.drop(kMade));
  for (std::uint64_t n = 0; n < 2 * kRemembered; ++n) {
    EXPECT_TRUE(versions.recipe_for(std::array{kMade}).has_value());
    versions.arrives(2, true, kCheapNs, filler);
    EXPECT_EQ(versions.too_old(), std::vector{kMade});
    versions.submitted();
  }
  versions.restored(kMade);
  versions.arrives(2, true, kCheapNs, filler);
  EXPECT_TRUE(versions.too_old().empty());
}

}  // namespace
}  // namespace thermocline
