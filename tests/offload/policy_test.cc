// SPDX-License-Identifier: Apache-2.0
// Policies through their interface: those of the table, and some that only this test knows. Whatever a policy says,
// results are the same; and what it chooses is what is evicted.
#include "offload/policy/eviction_policy.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "offload/policies.h"
#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

// Evicts what has been accessed last.
class MostRecentPolicy final : public EvictionPolicy, public VictimOrder {
 public:
  VictimOrder* victim_order() override { return this; }
  void sort(std::span<EvictionUnit*> candidates) override { std::ranges::reverse(candidates); }
};

constexpr PolicyEntry kMostRecent{
    "most-recent", "what has been accessed last",
    [](const PolicyParts&) -> std::unique_ptr<EvictionPolicy> { return std::make_unique<MostRecentPolicy>(); }};

// Lets a test say what it expects.
class ExpectingPolicy final : public EvictionPolicy {
 public:
  using EvictionPolicy::Expected, EvictionPolicy::expect, EvictionPolicy::expect_nothing, EvictionPolicy::take_arrived;
};

// Evicts and fetches ahead of need what its random numbers say, in an order that they say.
class RandomPolicy final : public EvictionPolicy, public VictimOrder {
 public:
  explicit RandomPolicy(const PolicyParts& parts)
      : EvictionPolicy({.arrivals = true, .allocating = true}), residency_(parts.residency), random_(seed) {}

  void arriving(const Arrival& arrival) override {
    for (BlockState* const state : arrival.operands) blocks_[state->block->serial()] = state;
  }
  void submitted(StreamIndex) override {
    for (const auto& [serial, state] : blocks_) {
      if (random_() % 4 == 0) residency_.begin_evictions(*state, 1 + random_() % state->count, EvictReason::kPlanned);
      if (random_() % 4 == 0 && residency_.prefetch(*state, false, FetchReason::kPlanned)) ++fetched;
    }
  }
  void allocating() override {
    for (const auto& [serial, state] : blocks_) {
      if (random_() % 4 == 0 && residency_.prefetch(*state, false, FetchReason::kPlanned)) ++fetched;
    }
  }
  void freed(const Block& block) override { blocks_.erase(block.serial()); }
  VictimOrder* victim_order() override { return this; }
  void sort(std::span<EvictionUnit*> candidates) override {
    for (std::size_t i = candidates.size(); i > 1; --i) std::swap(candidates[i - 1], candidates[random_() % i]);
    ++sorted;
  }

  static inline std::uint64_t seed = 0, sorted = 0, fetched = 0;

 private:
  Residency& residency_;
  std::mt19937_64 random_;
  std::map<std::uint64_t, BlockState*> blocks_;  // by serial number: in the same order in every run
};

constexpr PolicyEntry kRandom{
    "random", "whatever its random numbers say",
    [](const PolicyParts& parts) -> std::unique_ptr<EvictionPolicy> { return std::make_unique<RandomPolicy>(parts); }};

// Fetches what was accessed first into room that has been freed, before anything new gets it.
class FirstComesBackPolicy final : public EvictionPolicy {
 public:
  explicit FirstComesBackPolicy(const PolicyParts& parts)
      : EvictionPolicy({.arrivals = true, .allocating = true}), residency_(parts.residency) {}

  void arriving(const Arrival& arrival) override {
    if (first_ == nullptr) first_ = arrival.operands.front();
  }
  void allocating() override {
    if (first_ != nullptr && first_->nonresident_units > 0) residency_.prefetch(*first_, false, FetchReason::kPlanned);
  }

 private:
  Residency& residency_;
  BlockState* first_ = nullptr;
};

constexpr PolicyEntry kFirstComesBack{"first", "all but what came first",
                                      [](const PolicyParts& parts) -> std::unique_ptr<EvictionPolicy> {
                                        return std::make_unique<FirstComesBackPolicy>(parts);
                                      }};

// Does not sort, but names the first of all again and again.
class StubbornPolicy final : public EvictionPolicy, public VictimOrder {
 public:
  VictimOrder* victim_order() override { return this; }
  void sort(std::span<EvictionUnit*> candidates) override { std::ranges::fill(candidates, candidates.front()); }
};

constexpr PolicyEntry kStubborn{"stubborn", "one at a time", [](const PolicyParts&) -> std::unique_ptr<EvictionPolicy> {
                                  return std::make_unique<StubbornPolicy>();
                                }};

class Evictions final : public MovementObserver {
 public:
  void copying_out(const MovedUnit&, EvictReason) override {}
  void evicted(const MovedUnit& unit, EvictReason) override { blocks.push_back(unit.block); }
  void fetching(const MovedUnit&, FetchReason) override {}

  std::vector<DeviceAddress> blocks;
};

class PolicyTest : public EngineTest {
 protected:
  // Buffers of several sizes are read and written in changing pairs, some are freed and allocated again.
  std::uint64_t run(EngineOptions options) {
    start(options);
    std::mt19937_64 random(7);
    std::vector<std::pair<DeviceAddress, Bytes>> all;
    const auto another = [&] {
      const Bytes bytes = (1 + random() % 20) * kPage;
      all.emplace_back(allocate(bytes), bytes);
      EXPECT_TRUE(operate({all.back()}, Access::kWrite).ok());
    };
    for (int i = 0; i < 12; ++i) another();
    for (int i = 0; i < 200; ++i) {
      const auto& one = all[random() % all.size()];
      const auto& other = all[random() % all.size()];
      if (one.first == other.first) continue;
      EXPECT_TRUE(operate({one, other}).ok());
      if (random() % 8 != 0) continue;
      const auto gone = all.begin() + static_cast<std::ptrdiff_t>(random() % all.size());
      EXPECT_TRUE(engine_->free(gone->first, std::nullopt).ok());
      all.erase(gone);
      another();
    }
    const std::uint64_t sum = checksum();
    evictions_ = engine_->statistics().evictions;
    TearDown();
    return sum;
  }

  static constexpr Bytes kBudget = 48 * kPage;
  std::uint64_t evictions_ = 0;
};

TEST_F(PolicyTest, EveryRowOfTheTableGivesTheSameResults) {
  const std::uint64_t expected = run({.policy = kNoPolicy});
  std::set<std::string> names;
  for (const PolicyEntry& policy : kPolicies) {
    EXPECT_TRUE(names.insert(policy.name).second) << policy.name;
    EXPECT_EQ(find_policy(policy.name), &policy);
    if (!policy.evicts()) continue;
    for (const Safety safety : {Safety::kStrict, Safety::kTrusting}) {
      EXPECT_EQ(run({.budget_bytes = kBudget, .policy = &policy, .safety = safety}), expected) << policy.name;
      EXPECT_GT(evictions_, 0u) << policy.name;
    }
  }
}

TEST_F(PolicyTest, WhatItChoosesIsEvicted) {
  for (const bool most_recent : {false, true}) {
    Evictions evictions;
    start({.budget_bytes = 16 * kPage, .policy = most_recent ? &kMostRecent : kLruPolicy, .movements = &evictions});
    std::vector<DeviceAddress> all;
    for (int i = 0; i < 6; ++i) {
      all.push_back(allocate(4 * kPage));
      ASSERT_TRUE(operate({{all[i], 4 * kPage}}).ok());
    }
    // Two have left: the oldest ones, or each time the newest of the others. Now the operations want one of these back.
    const std::size_t wanted = most_recent ? 3 : 0;
    ASSERT_TRUE(operate({{all[wanted], 4 * kPage}}).ok());
    const std::vector<DeviceAddress> expected =
        most_recent ? std::vector{all[3], all[4], all[5]} : std::vector{all[0], all[1], all[2]};
    EXPECT_EQ(evictions.blocks, expected) << most_recent;
    TearDown();
  }
}

TEST_F(PolicyTest, WhatIsPrefetchedGetsFreedRoomBeforeWhatIsAllocated) {
  start({.budget_bytes = 16 * kPage, .policy = &kFirstComesBack});
  std::vector<DeviceAddress> all;
  for (int i = 0; i < 4; ++i) all.push_back(allocate(4 * kPage));
  for (const DeviceAddress one : all) ASSERT_TRUE(operate({{one, 4 * kPage}}).ok());
  const DeviceAddress last = allocate(4 * kPage);
  ASSERT_TRUE(operate({{last, 4 * kPage}}).ok());
  ASSERT_FALSE(engine_->find(all[0])->resident) << "four of five fit";
  ASSERT_TRUE(engine_->free(last, std::nullopt).ok());
  const DeviceAddress next = allocate(3 * kPage);
  EXPECT_TRUE(engine_->find(all[0])->resident);
  EXPECT_FALSE(engine_->find(next)->resident);
  ASSERT_TRUE(operate({{next, 3 * kPage}}, Access::kWrite).ok());
}

TEST_F(PolicyTest, APolicyOfTheCallersGivesTheSameResults) {
  const std::uint64_t expected = run({.policy = kNoPolicy});
  for (const Safety safety : {Safety::kStrict, Safety::kTrusting}) {
    for (const PolicyEntry* const policy : {&kMostRecent, &kStubborn}) {
      EXPECT_EQ(run({.budget_bytes = kBudget, .policy = policy, .safety = safety}), expected) << policy->name;
      EXPECT_GT(evictions_, 0u) << policy->name;
    }
    for (RandomPolicy::seed = 1; RandomPolicy::seed <= 10; ++RandomPolicy::seed) {
      EXPECT_EQ(run({.budget_bytes = kBudget, .policy = &kRandom, .safety = safety}), expected) << RandomPolicy::seed;
      EXPECT_GT(evictions_, 0u);
    }
  }
  EXPECT_GT(RandomPolicy::sorted, 0u);
  EXPECT_GT(RandomPolicy::fetched, 0u);
}

TEST_F(PolicyTest, OnceMemoryMayBeUsedUnseenNothingLeavesWhateverItSays) {
  for (const Safety safety : {Safety::kStrict, Safety::kTrusting}) {
    std::atomic<bool> unseen{false};
    RandomPolicy::seed = 1;
    start({.budget_bytes = 16 * kPage, .policy = &kRandom, .evict_no_more = &unseen, .safety = safety});
    std::vector<DeviceAddress> all;
    for (int i = 0; i < 4; ++i) all.push_back(allocate(3 * kPage));
    const auto use_all = [&] {
      for (int i = 0; i < 40; ++i) ASSERT_TRUE(operate({{all[i % all.size()], 3 * kPage}}).ok());
    };
    use_all();
    const Bytes before = engine_->statistics().evicted_bytes;
    ASSERT_GT(before, 0u) << "all of them fit: they leave because the policy says so";
    unseen = true;
    use_all();
    EXPECT_EQ(engine_->statistics().evicted_bytes, before);
    TearDown();
  }
}

TEST(ExpectedOperations, ArriveInTheirOrderOverAndOverIfNothingDiffers) {
  using Expected = EvictionPolicy::Expected;
  const std::vector<Expected> all = {{1, 0, 100, 1000}, {2, 5, 200, 2000}, {1, 0, 200, 2000}};
  ExpectingPolicy policy;
  EXPECT_FALSE(policy.arrives_as_expected(all[0]));
  policy.expect(all, 1);
  // Each differs in one respect, and is not counted.
  for (const Expected& other : {Expected{1, 5, 200, 2000}, {2, 0, 200, 2000}, {2, 5, 100, 2000}, {2, 5, 200, 1000}})
    EXPECT_FALSE(policy.arrives_as_expected(other));
  for (const std::size_t place : {1, 2, 0, 1, 2, 0}) EXPECT_TRUE(policy.arrives_as_expected(all[place])) << place;
  EXPECT_EQ(policy.take_arrived(), 6u);
  EXPECT_FALSE(policy.arrives_as_expected(all[0]));
  EXPECT_TRUE(policy.arrives_as_expected(all[1]));
  EXPECT_EQ(policy.take_arrived(), 1u);
  policy.expect_nothing();
  EXPECT_FALSE(policy.arrives_as_expected(all[2]));
  EXPECT_EQ(policy.take_arrived(), 0u);
}

// As on a GPU: some words of a kernel's parameters are set by nobody, and point into another live buffer each time.
TEST_F(PolicyTest, LearnedFollowsKernelsThatSeemToUseOtherBuffersEachTime) {
  start({.budget_bytes = 16 * kPage, .policy = kLearnedPolicy, .host_is_readable = false});
  constexpr Bytes kBytes = 2 * kPage;
  std::vector<DeviceAddress> buffers(10);
  for (DeviceAddress& buffer : buffers) {
    buffer = allocate(kBytes);
    ASSERT_TRUE(submit({{buffer, kBytes}}, Access::kWrite, {.nanoseconds = 1000}, 1).ok());
  }
  std::vector<DeviceAddress> others(3);
  for (std::size_t i = 0; i < others.size(); ++i) others[i] = allocate(kPage << i);
  std::mt19937 random(1);
  for (int turn = 0; turn < 8; ++turn) {
    for (std::size_t i = 0; i < 60; ++i) {
      Operands operands = {{buffers[i * buffers.size() / 60], kBytes}, {buffers[(i + 1) * 7 % 10], kBytes}};
      if (i % 3 == 0) operands.emplace_back(others[random() % others.size()], kPage);
      const OperationInfo info{.kind = 100 + i, .nanoseconds = 500'000, .name = "kernel", .follows = true};
      ASSERT_TRUE(submit(operands, Access::kUnknown, info, 500).ok());
    }
  }
  const EngineStatistics found = engine_->statistics();
  EXPECT_GT(found.plans, 0u);
  EXPECT_EQ(found.divergences, 0u);
  EXPECT_GT(found.evicted_bytes, 0u);
}

}  // namespace
}  // namespace thermocline
