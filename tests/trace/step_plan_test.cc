// SPDX-License-Identifier: Apache-2.0
// The plan of a recorded step for an executor outside of the library.
#include "trace/step_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "offload/recompute/segment_schedules.h"
#include "tests/trace/trace_file.h"
#include "trace/step_profile.h"

namespace thermocline::test {
namespace {

constexpr int kLayers = 24;
constexpr long long kSize = 1 << 20;
constexpr double kMicroseconds = 100;
constexpr DeviceRates kRates{1e12, 1e12, 1e10, 1e10, 0};
constexpr Bytes kPeak = (kLayers + 3) * kSize;  // at the turn: the weight, the layers, and two gradients

// One step of a chain: a weight from before; layer i makes buffer i + 1 from buffer i; backward reads them in reverse,
// and makes a gradient each.
Trace chain() {
  std::vector<std::string> lines{kHeader, alloc(0, kSize), op("begin", {}, {0}, kMicroseconds), step(0)};
  for (int i = 1; i <= kLayers; ++i) {
    lines.push_back(alloc(i, kSize));
    lines.push_back(op("layer", i == 1 ? std::vector{0} : std::vector{0, i - 1}, {i}, kMicroseconds));
  }
  int gradient = kLayers + 1;
  lines.push_back(alloc(gradient, kSize));
  lines.push_back(op("loss", {kLayers}, {gradient}, kMicroseconds));
  for (int i = kLayers; i >= 1; --i, ++gradient) {
    lines.push_back(alloc(gradient + 1, kSize));
    lines.push_back(op("layer_backward", {i, gradient}, {gradient + 1}, kMicroseconds));
    lines.push_back(release(i));
    lines.push_back(release(gradient));
  }
  lines.push_back(release(gradient));
  lines.push_back(step(1));
  return read_valid(TraceFile(lines));
}

StepTerms free_terms(const Trace& trace) { return StepTerms::free_for(trace, last_step_operators(trace)); }

TEST(StepPlan, WholeStepNeedsNoPlan) {
  const Trace trace = chain();
  const StepPlan plan = plan_step(trace, kRates, kPeak, free_terms(trace), StepPlanKind::kJoint);
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.whole_peak_bytes, kPeak);
  EXPECT_TRUE(plan.drops.empty() && plan.offloads.empty() && plan.reruns.empty());
}

TEST(StepPlan, PeakIsWithinTheBudgetAndRunsAgainWhatItDrops) {
  const Trace trace = chain();
  for (const Bytes budget : {20 * kSize, 18 * kSize}) {
    const StepPlan plan = plan_step(trace, kRates, budget, free_terms(trace), StepPlanKind::kRecompute);
    ASSERT_TRUE(plan.fits);
    EXPECT_LE(plan.peak_bytes, budget);
    EXPECT_FALSE(plan.drops.empty());
    EXPECT_TRUE(plan.offloads.empty());
    EXPECT_DOUBLE_EQ(plan.recomputed_ms, static_cast<double>(plan.reruns.size()) * kMicroseconds * 1e-3);
    for (const PlannedDrop& drop : plan.drops) EXPECT_LT(drop.last_use, drop.next_use);
  }
}

// The bytes live at each place with these offloads, counted from the trace's own events.
Bytes peak_with(const Trace& trace, const std::vector<PlannedOffload>& offloads) {
  std::vector<Bytes> live;
  Bytes now = 0;
  std::vector<std::uint32_t> death(trace.buffers.size(), ~std::uint32_t{0});
  const StepSpan last = trace.steps.back();
  for (std::size_t i = 0; i < last.end; ++i) {
    const TraceEvent& event = trace.events[i];
    if (event.kind == EventKind::kAllocate) now += trace.buffers[event.index].bytes;
    if (event.kind == EventKind::kFree) now -= trace.buffers[event.index].bytes;
    if (event.kind == EventKind::kFree) death[event.index] = static_cast<std::uint32_t>(live.size());
    if (event.kind == EventKind::kOperator && i >= last.begin) live.push_back(now);
  }
  for (const PlannedOffload& one : offloads) {
    const std::uint32_t end = one.is_fetched ? one.fetch_after + 1 : death[one.buffer];
    for (std::uint32_t q = one.last_use + 1; q < end; ++q) live[q] -= trace.buffers[one.buffer].bytes;
  }
  return *std::ranges::max_element(live);
}

// A buffer that is not read again and dies with the last operator leaves room behind its last use, and none elsewhere.
TEST(StepPlan, PeakIsThatOfTheOffloadsAlsoOfWhatDiesWithTheStep) {
  std::vector<std::string> lines{kHeader, alloc(0, kSize), op("begin", {}, {0}, kMicroseconds), step(0)};
  for (int i = 1; i <= kLayers; ++i) {
    lines.push_back(alloc(i, kSize));
    lines.push_back(op("layer", i == 1 ? std::vector{0} : std::vector{0, i - 1}, {i}, kMicroseconds));
  }
  for (int i = 1; i <= kLayers; ++i) lines.push_back(release(i));
  lines.push_back(step(1));
  const Trace trace = read_valid(TraceFile(lines));
  for (const Bytes budget : {20 * kSize, 12 * kSize, 4 * kSize}) {
    const StepPlan plan = plan_step(trace, kRates, budget, free_terms(trace), StepPlanKind::kOffload);
    ASSERT_TRUE(plan.fits) << budget;
    ASSERT_FALSE(plan.offloads.empty());
    EXPECT_EQ(plan.peak_bytes, peak_with(trace, plan.offloads));
    EXPECT_LE(plan.peak_bytes, budget);
  }
}

TEST(StepPlan, NothingLeavesWhileItIsHeld) {
  const Trace trace = chain();
  StepTerms terms = free_terms(trace);
  // The buffers of the first half of the layers are held until the second half has run.
  for (int i = 1; i <= kLayers / 2; ++i) terms.held_until[static_cast<std::size_t>(i)] = kLayers - 1;
  for (const StepPlanKind kind : {StepPlanKind::kRecompute, StepPlanKind::kOffload}) {
    const StepPlan plan = plan_step(trace, kRates, 24 * kSize, terms, kind);
    ASSERT_TRUE(plan.fits);
    EXPECT_FALSE(plan.drops.empty() && plan.offloads.empty());
    for (const PlannedDrop& drop : plan.drops) EXPECT_GE(drop.last_use, std::min(terms.held_until[drop.buffer], 24U));
    for (const PlannedOffload& one : plan.offloads)
      EXPECT_GE(one.last_use, std::min(terms.held_until[one.buffer], 24U));
  }
  terms.held_until.assign(trace.buffers.size(), StepTerms::kStays);
  EXPECT_FALSE(plan_step(trace, kRates, 24 * kSize, terms, StepPlanKind::kJoint).fits);
}

// One step over layers with a weight each, from before: forward reads each, an update in reverse writes each.
Trace with_state() {
  std::vector<std::string> lines{kHeader};
  for (int i = 0; i < kLayers; ++i) lines.push_back(alloc(i, kSize));
  lines.push_back(op("begin", {}, {0}, kMicroseconds));
  lines.push_back(step(0));
  for (int i = 0; i < kLayers; ++i) lines.push_back(op("layer", {i}, {}, kMicroseconds));
  for (int i = kLayers; i-- > 0;) lines.push_back(op("update", {i}, {i}, kMicroseconds));
  lines.push_back(step(1));
  return read_valid(TraceFile(lines));
}

TEST(StepPlan, StateMovesAlsoAcrossTheEndOfTheStep) {
  const Trace trace = with_state();
  const Bytes budget = kLayers / 4 * kSize;
  StepTerms terms = free_terms(trace);
  EXPECT_FALSE(plan_step(trace, kRates, budget, terms, StepPlanKind::kJoint).fits);
  terms.moves.assign(trace.buffers.size(), true);
  const StepPlan plan = plan_step(trace, kRates, budget, terms, StepPlanKind::kJoint);
  ASSERT_TRUE(plan.fits);
  EXPECT_TRUE(plan.drops.empty() && plan.offloads.empty());
  std::vector<Bytes> live(2 * kLayers, kLayers * kSize);
  bool crosses = false;
  for (const PlannedMove& move : plan.moves) {
    const bool in_next = move.is_fetched && move.fetch_after < move.last_use;
    crosses |= in_next;
    for (std::uint32_t q = move.last_use + 1; q < (in_next ? live.size() : move.fetch_after + 1); ++q) live[q] -= kSize;
    for (std::uint32_t q = 0; in_next && q <= move.fetch_after; ++q) live[q] -= kSize;
  }
  EXPECT_TRUE(crosses);
  EXPECT_EQ(plan.peak_bytes, *std::ranges::max_element(live));
  EXPECT_LE(plan.peak_bytes, budget);
}

TEST(StepPlan, WhatRunsOnceIsNotRecomputed) {
  const Trace trace = chain();
  StepTerms terms = free_terms(trace);
  terms.runs_once.assign(terms.runs_once.size(), true);
  EXPECT_FALSE(plan_step(trace, kRates, 20 * kSize, terms, StepPlanKind::kRecompute).fits);
  const StepPlan swapped = plan_step(trace, kRates, 20 * kSize, terms, StepPlanKind::kJoint);
  EXPECT_TRUE(swapped.fits);
  EXPECT_TRUE(swapped.drops.empty());
  EXPECT_FALSE(swapped.offloads.empty());
}

TEST(StepPlan, LeastMemoryIsThatOfTheLargestOperator) {
  const Trace trace = chain();
  // Backward of a layer: the weight, the layer's buffer, two gradients.
  EXPECT_EQ(least_memory(trace, free_terms(trace)).bytes, Bytes{4 * kSize});
  StepTerms terms = free_terms(trace);
  terms.held_until[1] = StepTerms::kStays;
  EXPECT_EQ(least_memory(trace, terms).bytes, Bytes{5 * kSize});
}

// A buffer that one operator updates in place, such as a layer's running mean.
TEST(StepPlan, WhatIsKeptAsideDoesNotKeepItsOperatorFromRunningAgain) {
  std::vector<std::string> lines{kHeader, alloc(0, kSize), op("begin", {}, {0}, 1), step(0), alloc(1, kSize)};
  lines.push_back(op("norm", {0}, {0, 1}, kMicroseconds));
  for (int i = 2; i < 30; ++i) {
    lines.push_back(alloc(i, kSize));
    lines.push_back(op("other", {}, {i}, kMicroseconds));
    lines.push_back(release(i));
  }
  lines.push_back(op("backward", {1}, {}, kMicroseconds));
  lines.push_back(release(1));
  lines.push_back(step(1));
  const Trace trace = read_valid(TraceFile(lines));
  StepTerms terms = free_terms(trace);
  EXPECT_FALSE(plan_step(trace, kRates, 2 * kSize, terms, StepPlanKind::kRecompute).fits);
  terms.is_aside[0] = true;
  const StepPlan plan = plan_step(trace, kRates, 2 * kSize, terms, StepPlanKind::kRecompute);
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.reruns, std::vector<std::uint32_t>{0});
}

// An operator's results do not exist yet while others run again for it.
TEST(StepPlan, ResultsNeedNoRoomWhileWhatTheirOperatorReadsIsMadeAgain) {
  enum { kState, kScratch, kValue, kWide, kFreed, kKept };
  std::vector<std::string> lines{kHeader, alloc(kState, kSize), op("begin", {}, {kState}, 1), step(0)};
  lines.push_back(alloc(kScratch, 2 * kSize));
  lines.push_back(op("first", {kState}, {kScratch}, 1));
  lines.push_back(alloc(kValue, kSize));
  lines.push_back(op("second", {kScratch}, {kValue}, 1));
  lines.push_back(release(kScratch));
  lines.push_back(alloc(kWide, 3 * kSize));
  for (int i = 0; i < 20; ++i) lines.push_back(op("other", {}, {kWide}, 1));
  lines.push_back(release(kWide));
  lines.push_back(alloc(kFreed, kSize));
  lines.push_back(alloc(kKept, kSize));
  lines.push_back(op("backward", {kState, kValue}, {kFreed, kKept}, 1));
  lines.push_back(release(kValue));
  lines.push_back(release(kFreed));
  lines.push_back(step(1));
  const Trace trace = read_valid(TraceFile(lines));
  StepTerms terms = free_terms(trace);
  EXPECT_FALSE(plan_step(trace, kRates, 4 * kSize, terms, StepPlanKind::kRecompute).fits);
  for (const int result : {kScratch, kValue, kWide, kFreed, kKept})
    terms.is_result[static_cast<std::size_t>(result)] = true;
  const StepPlan plan = plan_step(trace, kRates, 4 * kSize, terms, StepPlanKind::kRecompute);
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.peak_bytes, Bytes{4 * kSize});
  EXPECT_EQ(plan.reruns, (std::vector<std::uint32_t>{0, 1}));
  terms.is_result[kKept] = false;
  EXPECT_FALSE(plan_step(trace, kRates, 4 * kSize, terms, StepPlanKind::kRecompute).fits);
}

// A small buffer around one large operator, as the last layer's input is around a loss.
TEST(StepPlan, ShortGapsOfSmallBuffersAreUsedWhereNothingElseFits) {
  enum { kState, kSmall, kWide };
  std::vector<std::string> lines{kHeader, alloc(kState, kSize), op("begin", {}, {kState}, 1), step(0)};
  lines.push_back(alloc(kSmall, kSize));
  lines.push_back(op("layer", {kState}, {kSmall}, kMicroseconds));
  lines.push_back(alloc(kWide, 60 * kSize));
  lines.push_back(op("loss", {kState}, {kWide}, kMicroseconds));
  lines.push_back(release(kWide));
  lines.push_back(op("layer_backward", {kSmall}, {kState}, kMicroseconds));
  lines.push_back(release(kSmall));
  lines.push_back(step(1));
  const Trace trace = read_valid(TraceFile(lines));
  const StepTerms terms = free_terms(trace);
  ASSERT_EQ(least_memory(trace, terms).bytes, Bytes{61 * kSize});
  const StepPlan plan = plan_step(trace, kRates, 61 * kSize, terms, StepPlanKind::kRecompute);
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.peak_bytes, Bytes{61 * kSize});
  EXPECT_EQ(plan.reruns, std::vector<std::uint32_t>{0});
}

// A recurrent net: each state is made of the one before it, by operators whose results only the next one reads.
Trace recurrent(int states, int operators) {
  std::vector<std::string> lines{kHeader, alloc(0, kSize), op("begin", {}, {0}, kMicroseconds), step(0)};
  int made = 0;
  for (int t = 1; t <= states; ++t) {
    for (int i = 1; i <= operators; ++i) {
      lines.push_back(alloc(made + 1, kSize));
      lines.push_back(op("cell", {made}, {made + 1}, kMicroseconds));
      if (i > 1) lines.push_back(release(made));
      ++made;
    }
  }
  for (int t = states; t >= 1; --t) {
    lines.push_back(op("cell_backward", {t * operators}, {0}, kMicroseconds));
    lines.push_back(release(t * operators));
  }
  lines.push_back(step(1));
  return read_valid(TraceFile(lines));
}

TEST(StepPlan, APlanIsFoundWhereverSegmentsFitAndItIsNoSlower) {
  const Trace trace = recurrent(60, 20);
  const StepTerms terms = free_terms(trace);
  const SqrtSchedules segments;
  int fitting = 0;
  double before_ms = std::numeric_limits<double>::infinity();
  for (Bytes budget = 14 * kSize; budget < 62 * kSize; budget += 8 * kSize) {
    const StepPlan other =
        plan_step(trace, kRates, budget, terms, StepPlanKind::kRecompute, PlanEffort::kFull, &segments);
    const StepPlan plan = plan_step(trace, kRates, budget, terms, StepPlanKind::kRecompute);
    EXPECT_GE(plan.fits, other.fits || before_ms < std::numeric_limits<double>::infinity()) << budget / kSize;
    if (!plan.fits) continue;
    ++fitting;
    EXPECT_LE(plan.peak_bytes, budget);
    const double other_ms = other.fits ? std::max(other.step_ms, 1.5 * plan.compute_ms) : before_ms;
    EXPECT_LE(plan.step_ms, 1.002 * other_ms) << budget / kSize;
    EXPECT_LE(plan.step_ms, 1.01 * before_ms) << budget / kSize;
    before_ms = plan.step_ms;
  }
  EXPECT_GE(fitting, 5);
}

}  // namespace
}  // namespace thermocline::test
