// SPDX-License-Identifier: Apache-2.0
// Which alternatives are chosen: never slower by plan than what was recorded, near the best of all selections; and
// whatever is chosen gives its own results under any budget, policy and order.
#include "trace/choice_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/seeds.h"
#include "tests/trace/trace_file.h"
#include "trace/choice_costs.h"
#include "trace/replay.h"

namespace thermocline::test {
namespace {

constexpr DeviceRates kRates{.flops_per_second = 1e12,
                             .memory_bytes_per_second = 1e12,
                             .link_to_device_bytes_per_second = 1e10,
                             .link_to_host_bytes_per_second = 1e10,
                             .launch_seconds = 1e-6};
constexpr long long kMi = 1 << 20;

std::string in(int choice, int alternative, std::string event) {
  event.pop_back();
  return event + ",\"c\":" + std::to_string(choice) + ",\"a\":\"" + std::to_string(alternative) + "\"}";
}

// Layers, each of which may be done in several ways that differ in time, workspace, and what they save for backward.
class Network {
 public:
  explicit Network(std::uint64_t seed) : random_(seed) {}

  std::vector<std::string> lines(int layers, int steps) {
    out_ = {kHeader};
    for (int c = 0; c < layers; ++c) declare(c);
    for (int i = 0; i < steps; ++i) add_step(i);
    return out_;
  }
  TraceFamily family(int layers, int steps) {
    const TraceFile file(lines(layers, steps));
    TraceFamily family;
    TraceError error;
    EXPECT_TRUE(family.read(file.path(), &error)) << error.text();
    return family;
  }

 private:
  struct Way {
    long long saved, workspace;
    double forward_us, backward_us;
  };

  int within(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void declare(int choice) {
    std::string names;
    std::vector<Way>& ways = ways_.emplace_back();
    for (int a = 0, count = within(2, 3); a < count; ++a) {
      names += (a == 0 ? "\"" : ",\"") + std::to_string(a) + "\"";
      ways.push_back(
          {within(2, 40) * kMi, within(0, 1) * within(2, 20) * kMi, within(50, 2000) * 1.0, within(50, 2000) * 1.0});
    }
    out_.push_back(R"({"e":"choice","c":)" + std::to_string(choice) + R"(,"k":"layer","of":[)" + names + "]}");
  }

  int allocate(long long bytes) {
    out_.push_back(alloc(next_, bytes));
    return next_++;
  }

  void add_step(int index) {
    std::vector<int> values{allocate(8 * kMi)};
    std::vector<std::vector<int>> saved(ways_.size());
    out_.push_back(op("input", {}, {values[0]}, 20));
    for (std::size_t c = 0; c < ways_.size(); ++c) {
      const int result = allocate(8 * kMi);
      for (std::size_t a = 0; a < ways_[c].size(); ++a) {
        saved[c].push_back(forward(static_cast<int>(c), static_cast<int>(a), values.back(), result));
      }
      values.push_back(result);
    }
    int gradient = allocate(8 * kMi);
    out_.push_back(op("loss", {values.back()}, {gradient}, 20));
    for (std::size_t c = ways_.size(); c-- > 0;) {
      const int next = allocate(8 * kMi);
      for (std::size_t a = 0; a < ways_[c].size(); ++a) {
        const auto mark = [&](const std::string& event) {
          out_.push_back(in(static_cast<int>(c), static_cast<int>(a), event));
        };
        mark(op("backward" + std::to_string(a), {values[c], saved[c][a], gradient}, {next}, ways_[c][a].backward_us));
        mark(release(saved[c][a]));
      }
      out_.push_back(release(gradient));
      out_.push_back(release(values[c + 1]));
      gradient = next;
    }
    out_.push_back(release(gradient));
    out_.push_back(release(values[0]));
    out_.push_back(step(index));
  }

  int forward(int c, int a, int from, int to) {
    const Way& way = ways_[static_cast<std::size_t>(c)][static_cast<std::size_t>(a)];
    const int kept = next_++;
    out_.push_back(in(c, a, alloc(kept, way.saved)));
    if (way.workspace == 0) {
      out_.push_back(in(c, a, op("forward" + std::to_string(a), {from}, {kept, to}, way.forward_us)));
      return kept;
    }
    const int workspace = next_++;
    out_.push_back(in(c, a, alloc(workspace, way.workspace)));
    out_.push_back(in(c, a, op("prepare" + std::to_string(a), {from}, {workspace}, way.forward_us / 2)));
    out_.push_back(in(c, a, op("forward" + std::to_string(a), {from, workspace}, {kept, to}, way.forward_us / 2)));
    out_.push_back(in(c, a, release(workspace)));
    return kept;
  }

  std::mt19937_64 random_;
  std::vector<std::vector<Way>> ways_;
  std::vector<std::string> out_;
  int next_ = 0;
};

// Every selection of the family.
std::vector<ChoiceSelection> all_selections(const TraceFamily& family) {
  std::vector<ChoiceSelection> all{{}};
  for (const TraceChoice& choice : family.recorded().choices) {
    std::vector<ChoiceSelection> longer;
    for (const ChoiceSelection& selection : all) {
      for (std::uint32_t a = 0; a < choice.alternatives.size(); ++a) {
        longer.push_back(selection);
        longer.back().push_back(a);
      }
    }
    all = std::move(longer);
  }
  return all;
}

PlannedSelection planned(const TraceFamily& family, const ChoiceSelection& selection, Bytes budget, StepPlanKind kind) {
  return plan_selection(family, selection, kRates, budget, kind, PlanEffort::kFull);
}

TEST(ChoicePlan, IsNearTheBestOfAllSelections) {
  int best_ones = 0, cases = 0;
  for (const std::uint64_t seed : test_seeds(6)) {
    const TraceFamily family = Network(seed).family(5, 1);
    for (const StepPlanKind kind : {StepPlanKind::kOffload, StepPlanKind::kJoint}) {
      const Bytes budget = family.recorded().peak_live_bytes * (seed % 2 == 0 ? 5 : 7) / 10;
      const ChoicePlan plan = choose_alternatives(family, kRates, budget, kind);
      PlannedSelection best;
      for (const ChoiceSelection& selection : all_selections(family)) {
        const PlannedSelection one = planned(family, selection, budget, kind);
        if (one.is_better_than(best)) best = one;
      }
      ASSERT_TRUE(best.fits);
      ASSERT_TRUE(plan.fits);
      EXPECT_LE(plan.step_ms, 1.03 * best.step_ms) << "seed " << seed;
      EXPECT_FALSE(planned(family, ChoiceSelection(5, 0), budget, kind).is_better_than({true, plan.step_ms, 0}));
      ++cases;
      if (plan.step_ms <= 1.002 * best.step_ms) ++best_ones;
    }
  }
  EXPECT_GE(best_ones, cases * 3 / 4);
}

TEST(ChoicePlan, TakesTheFastestWhereThereIsRoom) {
  const TraceFamily family = Network(3).family(6, 1);
  const ChoicePlan plan = choose_alternatives(family, kRates, Bytes{1} << 40, StepPlanKind::kJoint);
  EXPECT_EQ(plan.selection, ChoiceCosts(family, kRates).fastest());
  EXPECT_EQ(plan.selection, choose_alternatives(family, kRates, Bytes{1} << 40, std::nullopt).selection);
}

// Equal layers: each "0" takes 100 us less than "1", and saves 64 MiB. As many as there is room for are to be fast.
TEST(ChoicePlan, ChangesNoMoreThanMemoryAsksFor) {
  std::vector<std::string> lines{kHeader};
  constexpr int kLayers = 10;
  for (int c = 0; c < kLayers; ++c)
    lines.push_back(R"({"e":"choice","c":)" + std::to_string(c) + R"(,"k":"x","of":["0","1"]})");
  for (int c = 0; c < kLayers; ++c) {
    lines.push_back(alloc(100 + c, kMi));
    lines.push_back(in(c, 0, alloc(c, 64 * kMi)));
    lines.push_back(in(c, 0, op("fast", {}, {c, 100 + c}, 100)));
    lines.push_back(in(c, 1, op("slow", {}, {100 + c}, 200)));
  }
  for (int c = kLayers; c-- > 0;) {
    lines.push_back(in(c, 0, op("back", {c}, {100 + c}, 100)));
    lines.push_back(in(c, 0, release(c)));
    lines.push_back(in(c, 1, op("back", {100 + c}, {100 + c}, 100)));
    lines.push_back(release(100 + c));
  }
  lines.push_back(step(0));
  const TraceFile file(lines);
  TraceFamily family;
  TraceError error;
  ASSERT_TRUE(family.read(file.path(), &error)) << error.text();
  const ChoicePlan plan = choose_alternatives(family, kRates, (10 + 4 * 64) * kMi, std::nullopt);
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(std::ranges::count(plan.selection, 1u), 6);
}

TEST(ChoicePlan, WhatNeedsLeastIsTakenWhereNothingFits) {
  const TraceFamily family = Network(5).family(4, 1);
  const ChoicePlan plan = choose_alternatives(family, kRates, kMi, StepPlanKind::kOffload);
  EXPECT_FALSE(plan.fits);
  Bytes least = ~Bytes{0};
  for (const ChoiceSelection& selection : all_selections(family))
    least = std::min(least, planned(family, selection, kMi, StepPlanKind::kOffload).least_bytes);
  EXPECT_EQ(planned(family, plan.selection, kMi, StepPlanKind::kOffload).least_bytes, least);
}

ReplayResult replayed(const Trace& trace, Bytes budget, Recompute recompute, std::optional<std::uint64_t> seed) {
  StepProgram program;
  std::string reason;
  EXPECT_TRUE(plan_steps(trace, 6, &program, &reason)) << reason;
  ReplayOptions options;
  options.device.library = THERMOCLINE_SIMULATED_CUDA;
  options.device.seed = seed;
  options.device.check = true;
  options.engine.budget_bytes = budget;
  options.engine.policy = budget == 0 ? kNoPolicy : kLearnedPolicy;
  options.engine.recompute = recompute;
  options.exact = true;
  options.rates = kRates;
  ReplayResult result;
  EXPECT_TRUE(replay(trace, program, options, &result, &reason)) << reason;
  EXPECT_EQ(result.outcome, ReplayOutcome::kOk) << result.report;
  EXPECT_EQ(result.races, 0u);
  return result;
}

TEST(ChoicePlan, WhateverIsTakenGivesItsOwnResultsInAnyOrder) {
  for (const std::uint64_t seed : test_seeds(12)) {
    const TraceFamily family = Network(seed + 100).family(6, 3);
    std::mt19937_64 random(seed);
    ChoiceSelection selection;
    for (const TraceChoice& choice : family.recorded().choices)
      selection.push_back(static_cast<std::uint32_t>(random() % choice.alternatives.size()));
    const Bytes budget = family.recorded().peak_live_bytes * 7 / 10;
    if (seed % 3 == 0) selection = choose_alternatives(family, kRates, budget, StepPlanKind::kJoint).selection;
    Trace trace;
    TraceError error;
    ASSERT_TRUE(family.take(selection, &trace, &error)) << error.text();
    const std::uint64_t expected = replayed(trace, 0, Recompute::kOff, {}).checksum;
    EXPECT_EQ(replayed(trace, budget, Recompute::kOff, seed).checksum, expected);
    EXPECT_EQ(replayed(trace, budget, Recompute::kAuto, seed).checksum, expected);
    EXPECT_EQ(replayed(trace, budget, Recompute::kAuto, {}).checksum, expected);
  }
}

}  // namespace
}  // namespace thermocline::test
