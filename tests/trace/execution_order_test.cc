// SPDX-License-Identifier: Apache-2.0
// Orders of execution: their gains are computed by hand and, for random steps, by trying every order; the step itself
// shows whether an order keeps all dependences.
#include "trace/execution_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "tests/trace/trace_file.h"

namespace thermocline::test {
namespace {

constexpr DeviceRates kAny{1e12, 1e12, 1e9, 1e9, 0};

SteadyStep step_of(const std::vector<std::string>& lines) { return steady_step(read_valid(TraceFile(lines)), kAny); }

// Accessed by both, and written by at least one.
bool conflict(const SteadyStep& step, std::uint32_t a, std::uint32_t b) {
  return std::ranges::any_of(step.buffers, [&](const StepBuffer& buffer) {
    const auto use = [&buffer](std::uint32_t op) { return std::ranges::find(buffer.uses, op, &StepUse::op); };
    const auto x = use(a), y = use(b);
    return x != buffer.uses.end() && y != buffer.uses.end() && (x->writes || y->writes);
  });
}

bool is_legal(const SteadyStep& step, const std::vector<std::uint32_t>& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      if (order[j] < order[i] && conflict(step, order[i], order[j])) return false;
    }
  }
  return std::set<std::uint32_t>(order.begin(), order.end()).size() == step.operators();
}

// A slow, independent computation: for each operator, what has been used by then and is used again.
Bytes peak_of(const SteadyStep& step, const std::vector<std::uint32_t>& order) {
  std::vector<std::uint32_t> place(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  Bytes most = 0;
  for (std::uint32_t now = 0; now < order.size(); ++now) {
    Bytes alive = 0;
    for (const StepBuffer& buffer : step.buffers) {
      std::vector<std::uint32_t> at;
      for (const StepUse& use : buffer.uses) at.push_back(place[use.op]);
      if (at.empty() && !buffer.is_persistent()) continue;
      const bool begun = buffer.is_from_before || *std::ranges::min_element(at) <= now;
      const bool goes_on = buffer.outlives_step || *std::ranges::max_element(at) >= now;
      if (begun && goes_on) alive += buffer.bytes;
    }
    most = std::max(most, alive);
  }
  return most;
}

// Two large results, each of which is reduced to a small one: made one after the other, they are never alive together.
TEST(ExecutionOrder, ALargeResultIsUsedUpBeforeTheNextIsMade) {
  const SteadyStep step =
      step_of({kHeader, alloc(1, 8), alloc(2, 1000), op("make", {1}, {2}, 1), alloc(3, 1000), op("make", {1}, {3}, 1),
               alloc(4, 10), op("use", {2}, {4}, 1), release(2), alloc(5, 10), op("use", {3}, {5}, 1), release(3)});
  const ExecutionOrder found = better_order(step);
  EXPECT_EQ(found.recorded_peak, 2018u);
  EXPECT_EQ(found.trimmed_peak, 2018u);
  EXPECT_TRUE(is_legal(step, found.order));
  EXPECT_EQ(found.best_peak, peak_of(step, found.order));
  EXPECT_EQ(found.best_peak, 1028u);
}

TEST(ExecutionOrder, AChainHasOneOrder) {
  const SteadyStep step = step_of({kHeader, alloc(1, 100), op("a", {}, {1}, 1), alloc(2, 200), op("b", {1}, {2}, 1),
                                   release(1), alloc(3, 300), op("c", {2}, {3}, 1), release(2)});
  const ExecutionOrder found = better_order(step);
  EXPECT_EQ(found.order, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(found.best_peak, 500u);
  EXPECT_EQ(found.recorded_peak, 500u);
}

TEST(ExecutionOrder, WhatIsFreedLateCountsOnlyAsRecorded) {
  const SteadyStep step = step_of(
      {kHeader, alloc(1, 100), op("a", {}, {1}, 1), alloc(2, 200), op("b", {}, {2}, 1), release(1), release(2)});
  const ExecutionOrder found = better_order(step);
  EXPECT_EQ(found.recorded_peak, 300u);
  EXPECT_EQ(found.trimmed_peak, 200u);
  EXPECT_EQ(found.best_peak, 200u);
}

// A step of `operators`, each writing one new buffer and reading or updating some existing ones.
SteadyStep random_step(std::mt19937& random, int operators) {
  std::vector<std::string> lines{kHeader, alloc(0, 1 + random() % 50)};
  std::vector<int> alive{0};
  for (int i = 1; i <= operators; ++i) {
    lines.push_back(alloc(i, 1 + random() % 100));
    std::vector<int> reads, writes{i};
    for (const int buffer : alive) {
      if (random() % 3 == 0) reads.push_back(buffer);
      if (random() % 8 == 0) writes.push_back(buffer);
    }
    lines.push_back(op("o", reads, writes, 1));
    alive.push_back(i);
    if (random() % 3 == 0) {
      const std::size_t gone = random() % alive.size();
      lines.push_back(release(alive[gone]));
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(gone));
    }
  }
  return step_of(lines);
}

TEST(ExecutionOrder, IsLegalAndHoldsWhatItSaysAndIsNeverWorse) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const SteadyStep step = random_step(random, 3 + static_cast<int>(random() % 30));
    const ExecutionOrder found = better_order(step);
    ASSERT_TRUE(is_legal(step, found.order)) << round;
    ASSERT_EQ(found.best_peak, peak_of(step, found.order)) << round;
    ASSERT_LE(found.best_peak, found.trimmed_peak) << round;
    ASSERT_LE(found.trimmed_peak, found.recorded_peak) << round;
  }
}

TEST(ExecutionOrder, IsMostlyTheBestThereIsWhereAllCanBeTried) {
  std::mt19937 random(11);
  int best = 0;
  constexpr int kRounds = 60;
  for (int round = 0; round < kRounds; ++round) {
    const SteadyStep step = random_step(random, 6);
    std::vector<std::uint32_t> order(step.operators());
    std::iota(order.begin(), order.end(), 0U);
    Bytes least = ~Bytes{0};
    do {
      if (is_legal(step, order)) least = std::min(least, peak_of(step, order));
    } while (std::ranges::next_permutation(order).found);
    const Bytes found = better_order(step).best_peak;
    ASSERT_GE(found, least) << round;
    best += found == least ? 1 : 0;
  }
  EXPECT_GE(best, kRounds * 9 / 10);
}

}  // namespace
}  // namespace thermocline::test
