// SPDX-License-Identifier: Apache-2.0
// The random programs that run with each push: 2,000 with 3,000 steps, and as many shorter ones whose driver calls
// fail.
#include <gtest/gtest.h>

#include <string>

#include "tests/fuzz_engine/farm.h"
#include "tests/support/seeds.h"

namespace thermocline::fuzz_engine {
namespace {

constexpr std::uint64_t kUsualSeeds = 2000;

Totals run_all(FarmOptions options) {
  options.seeds = scaled_seeds(kUsualSeeds);
  Totals totals;
  if (const auto failure = run_many(options, &totals)) {
    ADD_FAILURE() << "seed " << failure->seed << ": " << explain(*failure, options.steps, options.faults, 60);
  }
  testing::Test::RecordProperty("steps", static_cast<int>(totals.steps));
  EXPECT_EQ(totals.programs, options.seeds);
  EXPECT_GT(totals.done, totals.steps / 2) << "most steps mean something";
  EXPECT_GT(totals.evictions, 0U);
  EXPECT_GT(totals.restores, 0U);
  if (options.seeds >= 50) {
    EXPECT_GT(totals.plans, 0U);
    EXPECT_GT(totals.divergences, 0U);
    EXPECT_GT(totals.refused, 0U);
  }
  return totals;
}

TEST(FuzzEngine, ProgramsKeepTheirBytesUnderEveryPolicyAndBudget) { run_all({.steps = 3000}); }

TEST(FuzzEngine, ProgramsKeepTheirBytesWhenDriverCallsFail) {
  const Totals totals = run_all({.first = 1'000'000, .steps = 1200, .faults = true});
  EXPECT_GT(totals.faults, 0U);
}

// Part of a large buffer is on the device, without contents and without host memory for them, which a full fallback asks
// for: a sleep says so.
TEST(FuzzEngine, ASleepSaysWhyAPartWithoutContentsStays) {
  const auto kept = read_list("2771,2774,3759,3762,3776,3778,3785,3800,3806,3851,3859,3904,3954,3964");
  const Program program = only(make_program(2344, 5000, false), *kept);
  ASSERT_EQ(program.steps.back().kind, Kind::kSleep) << "the generator has changed: look for such a program again";
  ASSERT_EQ(program.setup.host_limit, 239075328U);
  EXPECT_EQ(fails(program, {}), std::nullopt);
}

// Checks that a program that fails is detected, in whichever way it fails.
TEST(FuzzEngine, SameSeedSameProgram) {
  const Program one = make_program(7, 300, false), other = make_program(7, 300, false);
  ASSERT_EQ(one.steps.size(), other.steps.size());
  for (std::size_t i = 0; i < one.steps.size(); ++i) EXPECT_EQ(describe(one.steps[i]), describe(other.steps[i]));
}

TEST(FuzzEngine, AListOfStepsIsReadAsItWasWritten) {
  const std::vector<std::size_t> list = {0, 1, 2, 7, 9, 10};
  EXPECT_EQ(write_list(list), "0-2,7,9-10");
  EXPECT_EQ(read_list(write_list(list)), list);
  EXPECT_EQ(read_list("3-,1"), std::nullopt);
}

// A program with a budget of nothing fails at once: tests the whole path from a failure to its smallest program.
TEST(FuzzEngine, AFailureIsFoundAndMadeSmall) {
  Program program = make_program(11, 200, false);
  program.setup.budget = program.setup.memory = 2 * kMiB;
  program.setup.policy = kReactivePolicy;
  program.setup.host_limit = 0;
  program.steps.resize(100);
  Step wrong{.kind = Kind::kAllocate, .bytes = 0, .operands = 1};  // refused as an invalid value, not as out of memory
  wrong.operand[0].slot = kSlots - 1;
  program.steps.insert(program.steps.begin() + 50, wrong);
  program.steps.insert(program.steps.begin() + 50, Step{.kind = Kind::kFree, .operands = 1, .operand = wrong.operand});
  const auto what = fails(program, {});
  ASSERT_TRUE(what.has_value());
  EXPECT_NE(what->find("error 1 where no call failed"), std::string::npos) << *what;
  EXPECT_EQ(shrink(program, {}, 60).size(), 1U);
}

}  // namespace
}  // namespace thermocline::fuzz_engine
