// SPDX-License-Identifier: Apache-2.0
// The shares of processes in a shared device.
#include "offload/sharing/lease_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "offload/sharing/activity_watch.h"
#include "tests/support/seeds.h"

namespace thermocline {
namespace {

constexpr Bytes kCapacity = 1000 * kMiB;
constexpr Bytes kStep = kCapacity / kLeastMovedDivisor;

Sharer sharer(Bytes minimum, Bytes demand, bool is_active, Bytes lease = 0, unsigned weight = 100) {
  return {.minimum = minimum, .weight = weight, .demand = demand, .lease = lease, .is_active = is_active};
}

Bytes sum(const std::vector<Bytes>& all) { return std::accumulate(all.begin(), all.end(), Bytes{0}); }

// Each in turn, as its thread does; a stopped one does nothing.
bool settle(std::vector<Sharer>& all, std::span<const bool> stopped = {}) {
  for (int round = 0; round < 60; ++round) {
    bool has_changed = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!stopped.empty() && stopped[i]) continue;
      const Bytes next = next_lease(kCapacity, all, i);
      has_changed |= next != all[i].lease;
      all[i].lease = next;
    }
    if (!has_changed) return true;
  }
  return false;
}

TEST(LeasePolicy, OneAloneHasWhatItHasUseFor) {
  std::vector<Sharer> all = {sharer(100 * kMiB, 500 * kMiB, true)};
  ASSERT_TRUE(settle(all));
  EXPECT_GE(all[0].lease, 500 * kMiB);
  EXPECT_LE(all[0].lease, 600 * kMiB);
  all[0].demand = 5000 * kMiB;
  ASSERT_TRUE(settle(all));
  EXPECT_EQ(all[0].lease, kCapacity);
}

TEST(LeasePolicy, TheActiveGetWhatTheIdleHaveBeyondTheirMinimum) {
  std::vector<Sharer> all = {sharer(100 * kMiB, 700 * kMiB, true), sharer(100 * kMiB, 700 * kMiB, false, 900 * kMiB)};
  ASSERT_TRUE(settle(all));
  EXPECT_GE(all[0].lease, 700 * kMiB);
  EXPECT_GE(all[1].lease, 100 * kMiB);
  all[0].is_active = false;
  all[1].is_active = true;
  ASSERT_TRUE(settle(all));
  EXPECT_GE(all[1].lease, 700 * kMiB);
}

TEST(LeasePolicy, TheIdleKeepWhatNobodyNeeds) {
  std::vector<Sharer> all = {sharer(50 * kMiB, 300 * kMiB, true), sharer(50 * kMiB, 500 * kMiB, false, 550 * kMiB)};
  ASSERT_TRUE(settle(all));
  EXPECT_GE(all[0].lease, 300 * kMiB);
  EXPECT_GE(all[1].lease, 500 * kMiB);
}

TEST(LeasePolicy, TheIdleTakeNothingFromEachOther) {
  std::vector<Sharer> all = {sharer(50 * kMiB, 700 * kMiB, false, 800 * kMiB),
                             sharer(50 * kMiB, 700 * kMiB, false, 50 * kMiB)};
  ASSERT_TRUE(settle(all));
  EXPECT_EQ(all[0].lease, 800 * kMiB);
  EXPECT_GE(all[1].lease, 150 * kMiB) << "what is free it may have";
}

TEST(LeasePolicy, WeightsDivideWhatTheMinimumsLeave) {
  std::vector<Sharer> all = {sharer(100 * kMiB, kCapacity, true, 0, 300), sharer(100 * kMiB, kCapacity, true, 0, 100)};
  EXPECT_EQ(lease_targets(kCapacity, all), (std::vector<Bytes>{700 * kMiB, 300 * kMiB}));
  EXPECT_EQ(fair_share(kCapacity, all, 1), 300 * kMiB);
  EXPECT_EQ(largest_lease(kCapacity, all, 1), 900 * kMiB);
  // Memory that one of them does not need goes to the other.
  all[0].demand = 200 * kMiB;
  EXPECT_GT(lease_targets(kCapacity, all)[1], 750 * kMiB);
}

TEST(LeasePolicy, MinimumsAreAdmittedUntilTheDeviceIsPromised) {
  std::vector<Sharer> others = {sharer(600 * kMiB, 0, false)};
  EXPECT_EQ(admitted_minimum(kCapacity, others, 300 * kMiB), 300 * kMiB);
  EXPECT_EQ(admitted_minimum(kCapacity, others, 700 * kMiB), 400 * kMiB);
  others.push_back(sharer(400 * kMiB, 0, false));
  EXPECT_EQ(admitted_minimum(kCapacity, others, 1), 0u);
}

// The unused minimum of one is no other's, so it need not be given back when it is wanted.
TEST(LeasePolicy, AnUnusedMinimumIsNotLent) {
  std::vector<Sharer> all = {sharer(400 * kMiB, 0, false), sharer(0, kCapacity, true)};
  EXPECT_EQ(next_lease(kCapacity, all, 1), 600 * kMiB);
}

TEST(LeasePolicy, OthersKeepWhatTheyHaveBesideOneThatIsStopped) {
  std::vector<Sharer> all = {sharer(100 * kMiB, 0, false, 800 * kMiB), sharer(100 * kMiB, 900 * kMiB, true),
                             sharer(100 * kMiB, 0, false)};
  const bool stopped[] = {true, false, false};
  ASSERT_TRUE(settle(all, stopped));
  EXPECT_EQ(all[0].lease, 800 * kMiB);
  EXPECT_EQ(all[1].lease, 100 * kMiB);
  EXPECT_EQ(all[2].lease, 100 * kMiB);
}

TEST(LeasePolicy, LittleIsNotAskedBack) {
  std::vector<Sharer> all = {sharer(0, 500 * kMiB, true, 505 * kMiB), sharer(0, 490 * kMiB, true, 495 * kMiB)};
  const std::vector<Sharer> before = all;
  ASSERT_TRUE(settle(all));
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].lease, before[i].lease);
}

TEST(LeasePolicy, WhatNobodyHasUseForIsGivenBack) {
  std::vector<Sharer> all = {sharer(10 * kMiB, 100 * kMiB, false, 900 * kMiB)};
  ASSERT_TRUE(settle(all));
  EXPECT_LT(all[0].lease, 200 * kMiB);
  EXPECT_GE(all[0].lease, 100 * kMiB);
}

// Random processes that come and go, are stopped, become active and idle.
class RandomSharers {
 public:
  explicit RandomSharers(std::uint64_t seed) : random_(seed) {}

  void run() {
    for (int step = 0; step < 60; ++step) {
      change();
      // A few looks, in any order; then perhaps until nothing changes.
      for (int i = 0; i < 20 && !all_.empty(); ++i) look(below(all_.size()));
      if (below(3) == 0) become_idle();
      if (testing::Test::HasFailure()) return;
    }
  }

 private:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }

  void change() {
    const std::uint64_t what = below(8);
    if (what < 2 && all_.size() < 6) {
      const Bytes minimum = admitted_minimum(kCapacity, all_, below(kCapacity / 3));
      all_.push_back(sharer(minimum, below(2 * kCapacity), below(2) == 0, 0, 1 + static_cast<unsigned>(below(500))));
      had_minimum_.push_back(false);
      stopped_.push_back(false);
    } else if (what == 2 && !all_.empty()) {
      const auto at = static_cast<std::ptrdiff_t>(below(all_.size()));
      all_.erase(all_.begin() + at);
      had_minimum_.erase(had_minimum_.begin() + at);
      stopped_.erase(stopped_.begin() + at);
    } else if (!all_.empty()) {
      const std::size_t at = below(all_.size());
      if (what == 3) all_[at].is_active = !all_[at].is_active;
      if (what == 4) stopped_[at] = !stopped_[at];
      if (what > 4) all_[at].demand = below(2 * kCapacity);
    }
  }

  void look(std::size_t at) {
    if (stopped_[at]) return;
    const Bytes before = all_[at].lease;
    all_[at].lease = next_lease(kCapacity, all_, at);
    Bytes taken = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      taken += i == at ? all_[i].lease : std::max(all_[i].lease, all_[i].minimum);
    }
    if (all_[at].lease > before) {
      EXPECT_LE(taken, kCapacity);
    }
    Bytes leases = 0;
    for (const Sharer& one : all_) leases += one.lease;
    EXPECT_LE(leases, kCapacity);
    // A process that has had its minimum once keeps it.
    if (all_[at].lease >= all_[at].minimum) had_minimum_[at] = true;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      EXPECT_TRUE(!had_minimum_[i] || all_[i].lease >= all_[i].minimum);
    }
    EXPECT_LE(sum(lease_targets(kCapacity, all_)), kCapacity);
  }

  // Leases only ever move towards the targets, and come near them if nobody is stopped.
  void become_idle() {
    const std::vector<Bytes> targets = lease_targets(kCapacity, all_);
    std::vector<int> direction(all_.size(), 0);
    for (int round = 0; round < 80; ++round) {
      for (std::size_t i = 0; i < all_.size(); ++i) {
        const Bytes before = all_[i].lease;
        look(i);
        const int moved = all_[i].lease > before ? 1 : all_[i].lease < before ? -1 : 0;
        EXPECT_TRUE(moved == 0 || moved == direction[i] || direction[i] == 0) << "it goes back and forth";
        if (moved != 0) direction[i] = moved;
      }
    }
    if (std::ranges::any_of(stopped_, [](bool one) { return one; })) return;
    const Bytes free = kCapacity - std::min(kCapacity, leases());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      EXPECT_GE(all_[i].lease, all_[i].minimum);
      if (all_[i].lease >= targets[i]) continue;
      EXPECT_TRUE(!all_[i].is_active || targets[i] - all_[i].lease <= kStep);
      // Nobody lacks what is free.
      EXPECT_LT(free, kMiB);
    }
  }

  Bytes leases() const {
    Bytes all = 0;
    for (const Sharer& one : all_) all += one.lease;
    return all;
  }

  std::mt19937_64 random_;
  std::vector<Sharer> all_;
  std::vector<bool> had_minimum_;
  std::vector<bool> stopped_;
};

TEST(LeasePolicy, KeepsItsPromisesInRandomPrograms) {
  for (const std::uint64_t seed : test_seeds(40)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomSharers(seed).run();
    if (HasFailure()) return;
  }
}

TEST(ActivityWatch, WhoIsSoonActiveAgainRestsLongerTheNextTime) {
  ActivityWatch watch;
  std::uint64_t now = 1'000'000'000, activity = 0;
  const auto rest = [&] { return watch.look(now, ++activity, false) - now; };
  EXPECT_EQ(rest(), ActivityWatch::kLeastRestNs);
  EXPECT_EQ(watch.look(now + 1, activity, false), now + ActivityWatch::kLeastRestNs);
  Bytes longest = 0;
  for (int i = 0; i < 10; ++i) {
    now = watch.look(now, activity, false) + 1'000'000;
    longest = rest();
  }
  EXPECT_EQ(longest, ActivityWatch::kMostRests * ActivityWatch::kLeastRestNs);
  now += 20 * longest;
  EXPECT_EQ(rest(), ActivityWatch::kLeastRestNs);
  // A process that still runs work is active.
  now += 10'000'000'000;
  EXPECT_GT(watch.look(now, activity, true), now);
}

}  // namespace
}  // namespace thermocline
