// SPDX-License-Identifier: Apache-2.0
// The search for settings and for the least budget, on made-up costs.
#include "trace/tuning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace thermocline::test {
namespace {

TEST(Tuning, ItsResultWasAskedAndIsNeverWorseThanTheBeginning) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::vector<std::pair<Knobs, double>> asked;
    const auto ask = [&](const Knobs& k) -> std::optional<KnobWorth> {
      std::uint64_t mixed = seed * 2654435761U + k.low_water_percent * 40503U + k.clean_reserve_percent * 30011U +
                            k.min_offload_bytes / kKiB * 7919U + (k.policy == kLearnedPolicy ? 13U : 0U);
      mixed ^= mixed >> 7;
      if (mixed % 5 == 0) return std::nullopt;
      const auto step = static_cast<double>(100 + mixed % 997);
      asked.emplace_back(k, step);
      return KnobWorth{step, step * 8};
    };
    const Knobs begin;
    const KnobSearch search = search_knobs(begin, {}, ask);
    if (asked.empty()) continue;
    ASSERT_TRUE(search.worth.has_value());
    if (search.begin) {
      EXPECT_LE(search.worth->step_ms, search.begin->step_ms);
    }
    EXPECT_TRUE(std::ranges::find(asked, std::pair(search.best, search.worth->step_ms)) != asked.end());
  }
}

TEST(Tuning, EachSettingIsFoundWhereTheyDoNotDependOnEachOther) {
  const auto ask = [](const Knobs& k) -> std::optional<KnobWorth> {
    const double step = 100 + (k.policy == kReactivePolicy ? 0 : 10) + (k.min_offload_bytes == 4 * kMiB ? 0 : 10) +
                        (k.low_water_percent == 20 ? 0 : 10) + (k.clean_reserve_percent == 40 ? 0 : 10);
    return KnobWorth{step, step};
  };
  const KnobSearch search = search_knobs(Knobs(), {}, ask);
  EXPECT_EQ(search.worth->step_ms, 100);
  EXPECT_EQ(search.best.policy, kReactivePolicy);
  EXPECT_EQ(search.best.min_offload_bytes, 4 * kMiB);
  EXPECT_EQ(search.best.low_water_percent, 20u);
  EXPECT_EQ(search.best.clean_reserve_percent, 40u);
}

TEST(Tuning, WhereNothingHelpsTheSettingsStay) {
  const KnobSearch search = search_knobs(Knobs(), {.trusting = true, .recompute = true}, [](const Knobs&) {
    return KnobWorth{5, 40};
  });
  EXPECT_EQ(search.best, Knobs());
}

TEST(Tuning, RecomputingIsTriedWhereItMayBeAndTakenWhereItIsFaster) {
  const auto ask = [](const Knobs& k) -> std::optional<KnobWorth> {
    return KnobWorth{k.recompute == Recompute::kAuto ? 60.0 : 100.0, 800};
  };
  EXPECT_EQ(search_knobs(Knobs(), {}, ask).best.recompute, Recompute::kOff);
  const KnobSearch search = search_knobs(Knobs(), {.recompute = true}, ask);
  EXPECT_EQ(search.best.recompute, Recompute::kAuto);
  EXPECT_EQ(search.worth->step_ms, 60);
}

// Alone it is faster; with the pages that are found after it, it is not.
TEST(Tuning, RecomputingIsNotTakenWhereSomethingElseMakesUpForIt) {
  const auto ask = [](const Knobs& k) -> std::optional<KnobWorth> {
    if (k.page_bytes == 4 * kMiB) return KnobWorth{50, 400};
    return KnobWorth{k.recompute == Recompute::kAuto ? 60.0 : 100.0, 800};
  };
  const KnobSearch search = search_knobs(Knobs(), {.recompute = true}, ask);
  EXPECT_EQ(search.best.page_bytes, 4 * kMiB);
  EXPECT_EQ(search.best.recompute, Recompute::kOff);
  EXPECT_EQ(search.worth->step_ms, 50);
}

TEST(Tuning, FirstStepsDecideOnlyAboutWhatHappensWithoutAPlan) {
  const auto ask = [](const Knobs& k) -> std::optional<KnobWorth> {
    return KnobWorth{5, 40.0 - (k.min_offload_bytes == 8 * kMiB ? 9 : 0) - (k.low_water_percent == 30 ? 9 : 0)};
  };
  const KnobSearch search = search_knobs(Knobs(), {}, ask);
  EXPECT_EQ(search.best.min_offload_bytes, kMiB);
  EXPECT_EQ(search.best.low_water_percent, 30u);
}

TEST(Tuning, TrustingIsNotChosenUnlessAllowed) {
  const auto ask = [](const Knobs& k) -> std::optional<KnobWorth> {
    const double step = k.safety == Safety::kTrusting ? 1 : 2;
    return KnobWorth{step, step};
  };
  EXPECT_EQ(search_knobs(Knobs(), {}, ask).best.safety, Safety::kStrict);
  EXPECT_EQ(search_knobs(Knobs(), {.trusting = true}, ask).best.safety, Safety::kTrusting);
}

TEST(Tuning, SettingsThatRunAreFoundWhereTheFirstOnesDoNot) {
  const auto ask = [](const Knobs& k) -> std::optional<KnobWorth> {
    if (k.min_offload_bytes >= kMiB) return std::nullopt;
    return KnobWorth{7, 7};
  };
  const KnobSearch search = search_knobs(Knobs(), {}, ask);
  EXPECT_FALSE(search.begin.has_value());
  ASSERT_TRUE(search.worth.has_value());
  EXPECT_LT(search.best.min_offload_bytes, kMiB);
}

TEST(Tuning, PagesInWhichItRunsAreFoundWhereItDoesNotInThoseOfItsBudget) {
  const auto ask = [](const Knobs& k) -> std::optional<KnobWorth> {
    if (k.page_bytes == 0 || k.page_bytes > 4 * kMiB) return std::nullopt;
    const double step = k.page_bytes == 4 * kMiB ? 7 : 8;
    return KnobWorth{step, step};
  };
  EXPECT_EQ(search_knobs(Knobs(), {}, ask).best.page_bytes, 4 * kMiB);
}

TEST(Tuning, TheLeastBudgetIsFoundToTheGrain) {
  for (Bytes truth = 1; truth <= 40; ++truth) {
    std::size_t asked = 0;
    const auto runs = [&](Bytes budget) {
      ++asked;
      return budget >= truth * kMiB - 5;
    };
    EXPECT_EQ(least_budget(0, 40 * kMiB, kMiB, runs), truth * kMiB);
    EXPECT_LE(asked, 8u);
  }
  EXPECT_EQ(least_budget(0, 8 * kMiB, kMiB, [](Bytes) { return false; }), std::nullopt);
}

}  // namespace
}  // namespace thermocline::test
