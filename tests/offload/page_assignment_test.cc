// SPDX-License-Identifier: Apache-2.0
#include "offload/page_assignment/page_assignment.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace thermocline {
namespace {

using Kind = LiveRangeChange::Kind;

// Records an iteration; `at` takes the duration of operations in nanoseconds.
class History {
 public:
  std::uint32_t page_owner(std::uint32_t pages, bool there_already = false) {
    history.page_owners.push_back({false, history.page_owners.size() + 1, 0, {0, pages}, {}});
    if (there_already) history.page_owners.back().stays.push_back({0, 0});
    there_.push_back(there_already);
    return static_cast<std::uint32_t>(history.page_owners.size() - 1);
  }
  void change(Kind kind, std::uint32_t page_owner, std::uint64_t at) {
    history.changes.push_back({kind, page_owner, at});
    const auto now = static_cast<std::uint32_t>(history.changes.size());
    std::vector<PageOwner::Stay>& stays = history.page_owners[page_owner].stays;
    if (kind == Kind::kTakes || kind == Kind::kReturns) {
      stays.push_back({now, 0});
      there_[page_owner] = true;
    } else if (kind != Kind::kUses) {
      stays.back().to = now;
      there_[page_owner] = false;
    }
  }
  bool is_there(std::uint32_t page_owner) const { return there_[page_owner]; }
  const LiveRangeHistory& end() {
    for (std::size_t i = 0; i < there_.size(); ++i) {
      if (there_[i]) history.page_owners[i].stays.back().to = history.end();
    }
    return history;
  }

  LiveRangeHistory history;

 private:
  std::vector<bool> there_;
};

// Checks that no two owners have one page at the same time, and that contents which stay into the next iteration stay in
// their pages; returns how many pages are assigned in all live ranges.
std::uint64_t check(const LiveRangeHistory& history, const PageAssignment& assignment) {
  std::map<PageNumber, std::vector<PageOwner::Stay>> taken;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> stays;
  std::map<std::pair<std::uint32_t, std::uint32_t>, PageNumber> over_the_end;
  for (const AssignedPage& one : assignment.assigned) {
    EXPECT_LT(one.physical, assignment.pages);
    const PageOwner& page_owner = history.page_owners[one.page_owner];
    EXPECT_LT(one.page, page_owner.range.count);
    const PageOwner::Stay stay = page_owner.stays[one.stay];
    for (const PageOwner::Stay& other : taken[one.physical]) {
      EXPECT_TRUE(stay.to <= other.from || other.to <= stay.from) << "page " << one.physical << " has two owners";
    }
    taken[one.physical].push_back(stay);
    ++stays[{one.page_owner, one.page}];
    if (page_owner.stays.size() < 2 || page_owner.stays.front().from != 0 ||
        page_owner.stays.back().to != history.end())
      continue;
    if (one.stay != 0 && one.stay + 1 != page_owner.stays.size()) continue;
    const auto [before, is_first] = over_the_end.try_emplace({one.page_owner, one.page}, one.physical);
    EXPECT_TRUE(is_first || before->second == one.physical) << "owner " << one.page_owner << " would need a copy";
  }
  std::uint64_t complete = 0;
  for (const auto& [page, count] : stays) {
    const std::size_t all = history.page_owners[page.first].stays.size();
    EXPECT_LE(count, all) << "a page has one home at a time";
    complete += count == all ? 1 : 0;
  }
  return complete;
}

TEST(PageAssignment, WhoComesAfterAnotherHasGoneSharesItsPages) {
  History it;
  const auto a = it.page_owner(3), b = it.page_owner(3);
  it.change(Kind::kTakes, a, 100);
  it.change(Kind::kFrees, a, 200);
  it.change(Kind::kTakes, b, 300);
  it.change(Kind::kFrees, b, 400);
  const PageAssignment assignment = assign_pages(it.end(), 3, {});
  EXPECT_EQ(assignment.unassigned, 0u);
  EXPECT_EQ(assignment.owned_pages, 6u);
  EXPECT_EQ(assignment.pages, 3u);
  EXPECT_EQ(check(it.history, assignment), 6u);
  EXPECT_TRUE(assignment.is_worth_it());
}

TEST(PageAssignment, WhoAlwaysStaysNeedsNoHome) {
  History it;
  it.page_owner(5, true);
  const auto b = it.page_owner(1);
  it.change(Kind::kTakes, b, 100);
  it.change(Kind::kFrees, b, 200);
  const PageAssignment assignment = assign_pages(it.end(), 1, {});
  EXPECT_EQ(assignment.owned_pages, 1u);
  EXPECT_EQ(assignment.assigned.size(), 1u);
}

TEST(PageAssignment, WhatLeavesAndReturnsComesBackToItsPages) {
  History it;
  const auto a = it.page_owner(2, true), b = it.page_owner(2);
  it.change(Kind::kLeaves, a, 100);
  it.change(Kind::kTakes, b, 200);
  it.change(Kind::kFrees, b, 300);
  it.change(Kind::kReturns, a, 400);
  it.change(Kind::kUses, a, 500);
  const PageAssignment assignment = assign_pages(it.end(), 0, {10, 10});
  EXPECT_EQ(assignment.unassigned, 0u);
  EXPECT_EQ(check(it.history, assignment), 4u);
  std::map<std::uint32_t, std::vector<PageNumber>> of_a;
  for (const AssignedPage& one : assignment.assigned) {
    if (one.page_owner == a) of_a[one.page].push_back(one.physical);
  }
  for (const auto& [page, both] : of_a) {
    ASSERT_EQ(both.size(), 2u);
    EXPECT_EQ(both[0], both[1]);
  }
}

// With a's page, b waits for a's copy out; with the other page it waits for nothing.
TEST(PageAssignment, NobodyWaitsForACopyWhereAnotherPageIsFree) {
  History it;
  const auto a = it.page_owner(1, true), b = it.page_owner(1), c = it.page_owner(1);
  it.change(Kind::kLeaves, a, 100);
  it.change(Kind::kTakes, b, 150);
  it.change(Kind::kFrees, b, 5000);
  it.change(Kind::kTakes, c, 6000);
  it.change(Kind::kFrees, c, 7000);
  it.change(Kind::kReturns, a, 8000);
  it.change(Kind::kUses, a, 10000);
  const PageAssignment assignment = assign_pages(it.end(), 1, {1000, 1000});
  EXPECT_EQ(assignment.unassigned, 0u);
  EXPECT_DOUBLE_EQ(assignment.assigned_ns, assignment.anywhere_ns);
  PageNumber of_a = 0, of_b = 0;
  for (const AssignedPage& one : assignment.assigned) {
    if (one.page_owner == a) of_a = one.physical;
    if (one.page_owner == b) of_b = one.physical;
  }
  EXPECT_NE(of_a, of_b);
}

// Neither page is free in all of its live ranges, but each is free in one of them.
TEST(PageAssignment, WhoFitsNowhereForAllItsStaysHasAHomeForEach) {
  History it;
  const auto a = it.page_owner(1, true), b = it.page_owner(1, true), c = it.page_owner(1);
  it.change(Kind::kFrees, a, 100);
  it.change(Kind::kTakes, c, 200);
  it.change(Kind::kLeaves, c, 300);
  it.change(Kind::kTakes, a, 400);
  it.change(Kind::kFrees, b, 500);
  it.change(Kind::kReturns, c, 600);
  it.change(Kind::kUses, c, 700);
  it.change(Kind::kFrees, c, 800);
  it.change(Kind::kTakes, b, 900);
  const PageAssignment assignment = assign_pages(it.end(), 0, {});
  check(it.history, assignment);
  EXPECT_EQ(assignment.unassigned, 0u);
  std::vector<PageNumber> of_c;
  for (const AssignedPage& one : assignment.assigned) {
    if (one.page_owner == c) of_c.push_back(one.physical);
  }
  ASSERT_EQ(of_c.size(), 2u);
  EXPECT_NE(of_c[0], of_c[1]);
}

// A step whose contents are dropped and made again up to three times (tests/simulated_cudart/recompute_steps.cu): of its
// owners of one page each, one finds no page for all of its live ranges, nor the others one for each of theirs.
TEST(PageAssignment, WhereOwnersFindNoPlaceTheirLiveRangesDo) {
  LiveRangeHistory history;
  const std::vector<std::vector<PageOwner::Stay>> owners = {{{1, 5}},
                                                            {{2, 6}, {55, 61}},
                                                            {{3, 25}, {28, 54}, {57, 66}},
                                                            {{4, 9}, {59, 60}},
                                                            {{7, 10}, {51, 63}},
                                                            {{8, 62}},
                                                            {{11, 13}, {44, 65}},
                                                            {{12, 16}, {45, 64}},
                                                            {{14, 17}, {41, 58}},
                                                            {{15, 43}},
                                                            {{18, 20}, {34, 36}},
                                                            {{19, 23}, {35, 37}},
                                                            {{21, 24}, {30, 33}},
                                                            {{22, 32}},
                                                            {{26, 29}},
                                                            {{27, 31}},
                                                            {{38, 40}},
                                                            {{39, 42}},
                                                            {{46, 48}},
                                                            {{47, 50}},
                                                            {{49, 52}},
                                                            {{53, 56}}};
  history.changes.resize(66);
  for (std::uint32_t i = 0; i < owners.size(); ++i) {
    history.page_owners.push_back({false, i + 1, 0, {0, 1}, owners[i]});
    for (const PageOwner::Stay& stay : owners[i]) {
      history.changes[stay.from - 1] = {Kind::kTakes, i, 1000 * stay.from};
      history.changes[stay.to - 1] = {Kind::kFrees, i, 1000 * stay.to};
    }
  }
  const PageAssignment assignment = assign_pages(history, 7, {});
  EXPECT_EQ(check(history, assignment), 22u);
  EXPECT_EQ(assignment.unassigned, 0u);
  // Two mapping calls there and back for each of a few.
  EXPECT_GT(assignment.changing, 0u);
  EXPECT_LE(assignment.changing, 6u);
  // Their time counts: what takes less than they do is not replaced.
  EXPECT_FALSE(assignment.is_worth_it(100e3));
  EXPECT_TRUE(assignment.is_worth_it(1e6));
}

TEST(PageAssignment, WhoFindsNoPageIsCounted) {
  History it;
  const auto a = it.page_owner(2), b = it.page_owner(3);
  it.change(Kind::kTakes, a, 100);
  it.change(Kind::kTakes, b, 200);
  it.change(Kind::kFrees, b, 300);
  it.change(Kind::kFrees, a, 400);
  const PageAssignment assignment = assign_pages(it.end(), 4, {});
  EXPECT_EQ(assignment.unassigned, 1u);
  EXPECT_EQ(check(it.history, assignment), 4u);
  EXPECT_FALSE(assignment.is_worth_it());
}

// Others are always resident in all pages.
TEST(PageAssignment, WithoutPagesNobodyFindsOne) {
  History it;
  const auto a = it.page_owner(1);
  it.change(Kind::kTakes, a, 100);
  it.change(Kind::kFrees, a, 200);
  it.change(Kind::kTakes, a, 300);
  it.change(Kind::kFrees, a, 400);
  const PageAssignment assignment = assign_pages(it.end(), 0, {});
  EXPECT_EQ(assignment.unassigned, 1u);
  EXPECT_EQ(check(it.history, assignment), 0u);
  EXPECT_FALSE(assignment.is_worth_it());
}

// Mapping calls cost time that neither of its durations has.
TEST(PageAssignment, WhatIsFasterThanWhatWasMeasuredIsWorthATry) {
  PageAssignment slower;
  slower.owned_pages = 1000;
  slower.anywhere_ns = 100;
  slower.assigned_ns = 120;
  EXPECT_FALSE(slower.is_worth_it());
  EXPECT_FALSE(slower.is_worth_it(120));
  EXPECT_TRUE(slower.is_worth_it(130));
  slower.unassigned = 3;
  EXPECT_FALSE(slower.is_worth_it(130)) << "three pages in a thousand have no place";
}

TEST(PageAssignment, OfRandomIterationsNoTwoOwnersMeet) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto pick = [&random](std::uint64_t below) { return random() % below; };
    History it;
    std::uint64_t pages = 0, used = 0, peak = 0;
    const std::uint64_t page_owners = 2 + pick(30);
    for (std::uint64_t i = 0; i < page_owners; ++i) {
      const auto count = static_cast<std::uint32_t>(1 + pick(6));
      const bool there = pick(3) == 0;
      it.page_owner(count, there);
      used += there ? count : 0;
    }
    pages = peak = used;
    std::uint64_t at = 0;
    std::vector<bool> gone(page_owners), left(page_owners);
    for (std::uint64_t i = 0, changes = pick(120); i < changes; ++i) {
      const auto which = static_cast<std::uint32_t>(pick(page_owners));
      const std::uint64_t count = it.history.page_owners[which].range.count;
      at += pick(1000);
      if (it.is_there(which)) {
        left[which] = pick(2) == 0;
        it.change(left[which] ? Kind::kLeaves : Kind::kFrees, which, at);
        used -= count;
      } else {
        it.change(left[which] ? Kind::kReturns : Kind::kTakes, which, at);
        used += count;
      }
      peak = std::max(peak, used);
    }
    const auto loose = static_cast<std::uint32_t>(peak - pages + pick(4));
    const PageAssignment assignment = assign_pages(it.end(), loose, {double(pick(500)), double(pick(500))});
    const std::uint64_t complete = check(it.history, assignment);
    EXPECT_EQ(complete + assignment.unassigned, assignment.owned_pages);
    EXPECT_LE(assignment.pages, pages + loose);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace thermocline
