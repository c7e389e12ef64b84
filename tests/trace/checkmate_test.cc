// SPDX-License-Identifier: Apache-2.0
// Checkmate on chains so short that every plan can be tried.
#include "trace/checkmate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "offload/recompute/joint_plan.h"
#include "tests/offload/made_up_iteration.h"

namespace thermocline::test {
namespace {

constexpr std::uint64_t kUnitNs = 1'000'000;
constexpr Link kSlowLink{1, 1};

// A chain of operators of different lengths; the backward pass reads each result again.
struct Chain : MadeUpIteration {
  explicit Chain(const std::vector<std::uint64_t>& lengths) {
    std::uint32_t before = buffer(true);
    std::vector<std::uint32_t> made;
    for (const std::uint64_t length : lengths) {
      made.push_back(buffer());
      add(length * kUnitNs, {{before, true, false}, {made.back(), false, true}});
      before = made.back();
    }
    const std::uint32_t loss = buffer();
    add(kUnitNs, {{before, true, false}, {loss, false, true}});
    for (std::size_t i = made.size(); i-- > 0;) {
      add(kUnitNs, {{made[i], true, false}, {loss, true, true}});
      ends(made[i]);
    }
    ends(loss);
    finish();
  }
};

using Kept = std::vector<std::vector<bool>>;

Kept nothing_kept(const CheckmateGraph& graph) { return Kept(graph.values.size(), std::vector<bool>(graph.stages())); }

struct Tried {
  double peak_bytes, seconds;
};

// The peak and the seconds of recomputing of every plan.
std::vector<Tried> every_plan(const Chain& net, const CheckmateGraph& graph) {
  std::vector<std::pair<std::size_t, std::size_t>> choices;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    for (std::uint32_t t = 0; t <= graph.values[v].last_stage(); ++t) choices.emplace_back(v, t);
  }
  EXPECT_LE(choices.size(), 16u);
  std::vector<Tried> all;
  for (std::uint32_t set = 0; set < 1u << choices.size(); ++set) {
    Kept kept = nothing_kept(graph);
    for (std::size_t i = 0; i < choices.size(); ++i) kept[choices[i].first][choices[i].second] = (set >> i & 1) != 0;
    const Schedule schedule = checkmate_schedule(graph, net.lineage, kept);
    Rewriting rewriting;
    std::vector<std::size_t> failed;
    EXPECT_TRUE(rewrite(net.profile, net.lineage, schedule.drops, {Mapping::kForGood, 0, schedule.recomputations},
                        &rewriting, &failed));
    const std::vector<double> live = live_bytes_of(rewriting.profile);
    all.push_back({*std::ranges::max_element(live), static_cast<double>(rewriting.recomputed_ns) * 1e-9});
  }
  return all;
}

double best_within(const std::vector<Tried>& all, Bytes limit) {
  double best = std::numeric_limits<double>::infinity();
  for (const Tried& one : all) {
    if (one.peak_bytes <= static_cast<double>(limit)) best = std::min(best, one.seconds);
  }
  return best;
}

// The relaxation is a bound for all plans. Rounding, which drops or keeps all that is equally far from whole, finds the best
// one of most chains; where there is room for only some of what is equal it loses most.
TEST(Checkmate, TheProgrammeBoundsAllPlansOfShortChainsAndRoundingComesNear) {
  int planned = 0, best_ones = 0;
  for (const std::vector<std::uint64_t>& lengths :
       std::vector<std::vector<std::uint64_t>>{{1, 1, 1, 1, 1}, {5, 1, 1, 1, 4}, {1, 9, 1, 9, 1}, {8, 4, 2, 1, 1}}) {
    const Chain net(lengths);
    const CheckmateGraph graph(net.profile, net.lineage, 40);
    const std::vector<Tried> all = every_plan(net, graph);
    for (Bytes limit = 3 * kSize; limit <= 7 * kSize; limit += kSize) {
      const double best = best_within(all, limit);
      const Plan plan =
          plan_scheduled(net.profile, net.lineage, limit, kSlowLink, Mapping::kForGood, CheckmateSchedules());
      ASSERT_EQ(plan.fits, best < 1) << limit / kSize;
      if (!plan.fits) continue;
      ++planned;
      const double recomputed = plan.rewriting ? static_cast<double>(plan.rewriting->recomputed_ns) * 1e-9 : 0;
      EXPECT_GE(recomputed, best - 1e-9);
      EXPECT_LE(recomputed, 2.7 * best + 1e-9) << limit / kSize << " after " << lengths[0];
      best_ones += recomputed <= best + 1e-9 ? 1 : 0;
      CheckmateProgramme programme(graph);
      EXPECT_LE(programme.solve(static_cast<double>(limit)), best + 1e-9);
    }
  }
  EXPECT_GE(planned, 16);
  EXPECT_GE(2 * best_ones, planned) << best_ones << " of " << planned;
}

TEST(Checkmate, WithRoomForEverythingNothingIsRecomputed) {
  const Chain net({1, 2, 3, 4, 5, 6});
  const CheckmateGraph graph(net.profile, net.lineage, 40);
  CheckmateProgramme programme(graph);
  EXPECT_NEAR(programme.solve(20.0 * kSize), 0, 1e-9);
  EXPECT_GT(programme.solve(4.0 * kSize), 0.001);
}

TEST(Checkmate, GroupsAreFewHoweverLongTheStep) {
  const Chain net(std::vector<std::uint64_t>(3000, 1));
  const CheckmateGraph graph(net.profile, net.lineage, 40);
  EXPECT_LE(graph.groups(), 42u);
  EXPECT_LE(graph.stages(), 43u);
  double bytes = 0;
  for (const CheckmateGraph::Value& value : graph.values) bytes += value.bytes;
  EXPECT_EQ(bytes, 3001.0 * kSize) << "with the loss";
}

TEST(Checkmate, WhereNothingIsReadAgainItSaysSo) {
  MadeUpIteration net;
  const std::uint32_t input = net.buffer(true);
  for (int i = 0; i < 10; ++i) net.add(kUnitNs, {{input, true, true}});
  net.finish();
  EXPECT_NE(CheckmateSchedules().why_none(net.profile, net.lineage), "");
}

}  // namespace
}  // namespace thermocline::test
