// SPDX-License-Identifier: Apache-2.0
// Recomputing in programs whose kernels run their own code: bits stay the same where that is hard, and the statistics
// show what was dropped, what ran again, and why other kernels may not.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/simulated_cudart/recompute_runs.h"

namespace {

using namespace recompute_runs;

constexpr int kTraps = 26;

void expect_controls_recomputed(const Json& statistics) {
  ASSERT_TRUE(statistics.is_object());
  for (int trap = 1; trap <= kTraps; ++trap) {
    const Json kernel = kernel_of(statistics, "::control<" + std::to_string(trap) + ">");
    ASSERT_TRUE(kernel.is_object()) << trap;
    EXPECT_GT(kernel["reruns"], 0) << kernel;
    EXPECT_TRUE(kernel["why_not"].is_null()) << kernel;
  }
  EXPECT_GE(statistics["dropped_buffers"], statistics["recomputed_buffers"]);
  EXPECT_GE(statistics["recomputed_buffers"], kTraps);
  EXPECT_GE(statistics["recomputed_bytes"], kTraps << 21);
  EXPECT_GE(statistics["recomputed_operations"], kTraps);
}

// Reruns write no redzones, and the digest of a buffer would include its redzone.
TEST(RecomputeTraps, NothingIsDroppedWhileRedzonesAreWatched) {
  const Outcome plain = run({"--no-library"}, {TRAPS_PROGRAM}, {});
  std::vector<std::string> settings = kDropsAll;
  settings.push_back("THERMOCLINE_DEBUG=guard");
  const Outcome outcome = run({"--budget", "48MiB", "--stats=json"}, {TRAPS_PROGRAM}, settings);
  expect_right(outcome, plain.output);
  EXPECT_EQ(statistics_of(outcome)["dropped_buffers"], 0);
}

// Under two budgets, one of them with the race checker and in an adversarial order. `then` is given each run's outcome.
void expect_same_bits_of(const char* program, void (*then)(const Outcome&)) {
  const Outcome plain = run({"--no-library"}, {program}, {});
  ASSERT_EQ(plain.status, 0) << plain.errors;
  for (const std::vector<std::string>& with :
       std::vector<std::vector<std::string>>{{"--budget", "24MiB"}, {"--budget", "12MiB", "--check", "--seed", "1"}}) {
    SCOPED_TRACE(testing::PrintToString(with));
    std::vector<std::string> flags = with;
    flags.push_back("--stats=json");
    const Outcome outcome = run(flags, {program}, kDropsAll);
    expect_right(outcome, plain.output);
    EXPECT_EQ(outcome.errors.find("race:"), std::string::npos) << outcome.errors;
    then(outcome);
  }
}

TEST(RecomputeTraps, LeaveTheBitsAsTheyAreWhileHarmlessKernelsRunAgain) {
  expect_same_bits_of(TRAPS_PROGRAM,
                      [](const Outcome& outcome) { expect_controls_recomputed(statistics_of(outcome)); });
}

TEST(RecomputeTraps, OfOtherKindsLeaveTheBitsAsTheyAre) {
  expect_same_bits_of(ADVERSARIES_PROGRAM, [](const Outcome& outcome) {
    const Json statistics = statistics_of(outcome);
    for (const char* const name : {"::twice<20>", "early"}) {
      const Json kernel = kernel_of(statistics, name);
      ASSERT_TRUE(kernel.is_object()) << name << "\n" << outcome.errors;
      EXPECT_GT(kernel["reruns"], 0) << kernel;
    }
  });
}

TEST(RecomputeTraps, SayWhyTheirKernelsMayNotRunAgain) {
  const Outcome outcome = run({"--budget", "24MiB", "--stats=json"}, {TRAPS_PROGRAM}, kDropsAll);
  const Json statistics = statistics_of(outcome);
  ASSERT_TRUE(statistics.is_object()) << outcome.errors;
  const std::pair<const char*, const char*> expected[] = {
      {"::read_variable", "it uses variables of the module"},
      {"::read_constant", "it uses variables of the module"},
      {"::own_address", "it may compute with addresses"},
      {"::low_address", "it may compute with addresses"},
      {"::low_address_of", "it may compute with addresses"},
      {"::take_tickets", "it has atomic operations: atom"},
      {"::read_clock", "it reads a clock: %clock64"},
      {"::read_timer", "it reads a clock: %globaltimer"},
      {"::read_shared", "its threads exchange values, in an order that is not proven for this shape and these sizes"},
      {"::read_texture", "its PTX has something that is not understood: tex.1d.v4.f32.s32"},
      {"::twice<10>", "it accesses memory that is not the library's, or that holds pointers"},
      {"::poke", "it follows pointers that it finds in memory"},
      {"::every_other<0>", "the places that it stores to are not side by side from its buffer's begin on"},
      {"::positive", "it does not store on every path"},
      {"::as_many_as", "it stores up to a bound that is not followed"},
  };
  for (const auto& [name, why] : expected) {
    const Json kernel = kernel_of(statistics, name);
    ASSERT_TRUE(kernel.is_object()) << name;
    EXPECT_EQ(kernel["why_not"], why) << kernel;
    EXPECT_EQ(kernel["may_run_again"], 0) << kernel;
    EXPECT_EQ(kernel["reruns"], 0) << kernel;
  }
}

// Contents that do not fit are recomputed by the kernels that made them, and not copied.
TEST(Recompute, RunsTheStepsOfAPlanWithTheSameBits) {
  const std::vector<std::string> program = {STEPS_PROGRAM, "6", "8"}, squeezed = {"--budget", "16MiB", "--stats=json"};
  const Outcome copies = run(squeezed, program, {"THERMOCLINE_RECOMPUTE=off"});
  ASSERT_EQ(copies.status, 0) << copies.errors;
  const Json without = statistics_of(copies);
  EXPECT_EQ(without["dropped_buffers"], 0);
  EXPECT_FALSE(without.contains("kernels"));
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{{}, {"--seed", "1", "--check"}}) {
    std::vector<std::string> with = squeezed;
    with.insert(with.end(), more.begin(), more.end());
    const Outcome drops = run(with, program, {"THERMOCLINE_RECOMPUTE=auto"});
    EXPECT_EQ(drops.output, copies.output) << drops.errors;
    EXPECT_EQ(drops.errors.find("race:"), std::string::npos) << drops.errors;
    const Json statistics = statistics_of(drops);
    ASSERT_TRUE(statistics.is_object()) << drops.errors;
    // Six of them a step, once there is a plan.
    EXPECT_GE(statistics["recomputed_buffers"], 12) << statistics;
    // The input outlives the steps: what it contains is dropped, too, and overwritten in the next one.
    EXPECT_GE(statistics["dropped_buffers"], statistics["recomputed_buffers"]) << statistics;
    EXPECT_GT(kernel_of(statistics, "::stencil")["reruns"], 0) << statistics;
    int reruns = 0;
    for (const Json& kernel : statistics["kernels"]) reruns += kernel["reruns"].get<int>();
    EXPECT_EQ(reruns, statistics["recomputed_operations"]) << statistics;
    EXPECT_EQ(kernel_of(statistics, "::sum_blocks")["may_run_again"], 0) << statistics;
    EXPECT_LT(statistics["evicted_bytes"].get<double>(), 0.8 * without["evicted_bytes"].get<double>()) << statistics;
  }
}

// Buffers that steps allocate themselves, at any time, are recomputed.
class AllocatingSteps : public testing::TestWithParam<const char*> {};

TEST_P(AllocatingSteps, AreRecomputedWithTheSameBits) {
  const std::vector<std::string> program = {STEPS_PROGRAM, "6", "12", GetParam()};
  const std::vector<std::string> squeezed = {"--budget", "16MiB", "--stats=json"};
  const Outcome copies = run(squeezed, program, {"THERMOCLINE_RECOMPUTE=off"});
  ASSERT_EQ(copies.status, 0) << copies.errors;
  const Json without = statistics_of(copies);
  const bool is_checked = GetParam() == std::string("all");
  const std::vector<std::string> more =
      is_checked ? std::vector<std::string>{"--seed", "1", "--check"} : std::vector<std::string>{};
  std::vector<std::string> with = squeezed;
  with.insert(with.end(), more.begin(), more.end());
  const Outcome drops = run(with, program, {"THERMOCLINE_RECOMPUTE=auto"});
  EXPECT_EQ(drops.output, copies.output) << drops.errors;
  EXPECT_EQ(drops.errors.find("race:"), std::string::npos) << drops.errors;
  const Json statistics = statistics_of(drops);
  ASSERT_TRUE(statistics.is_object()) << drops.errors;
  // Six of them a step, once there is a plan.
  EXPECT_GE(statistics["recomputed_buffers"], 30) << statistics;
  EXPECT_LT(statistics["evicted_bytes"].get<double>(), 0.75 * without["evicted_bytes"].get<double>()) << statistics;
}

INSTANTIATE_TEST_SUITE_P(When, AllocatingSteps, testing::Values("all", "ends", "async"));

// The contents of a program that allocates its buffers once: ten of 2 MiB each.
class LastingContents : public testing::TestWithParam<const char*> {};

TEST_P(LastingContents, AreDroppedByPlansAndThereForWhoeverReadsThem) {
  const std::vector<std::string> program = {LASTING_PROGRAM, "4", "14", GetParam()};
  const Outcome plain = run({"--no-library"}, program, {});
  ASSERT_EQ(plain.status, 0) << plain.errors;
  std::vector<std::vector<std::string>> ways = {{"--seed", "1", "--check"}};
  if (GetParam() == std::string("none")) ways.emplace_back();
  for (const std::vector<std::string>& more : ways) {
    SCOPED_TRACE(testing::PrintToString(more));
    std::vector<std::string> with = {"--budget", "12MiB", "--stats=json"};
    with.insert(with.end(), more.begin(), more.end());
    const Outcome drops = run(with, program, {"THERMOCLINE_RECOMPUTE=auto"});
    EXPECT_EQ(drops.status, 0) << drops.errors;
    EXPECT_EQ(drops.output, plain.output) << drops.errors;
    EXPECT_EQ(drops.errors.find("race:"), std::string::npos) << drops.errors;
    const Json statistics = statistics_of(drops);
    ASSERT_TRUE(statistics.is_object()) << drops.errors;
    EXPECT_GE(statistics["recomputed_buffers"], 12) << statistics;
    EXPECT_EQ(kernel_of(statistics, "::sum_blocks")["reruns"], 0) << statistics;
  }
}

INSTANTIATE_TEST_SUITE_P(Traps, LastingContents, testing::Values("none", "carried", "left", "short"));

// Their last contents are dead once the step has read them: they leave without a copy, too.
TEST(Recompute, CopiesLessOfWhatIsOverwrittenInTheNextStep) {
  const std::vector<std::string> program = {LASTING_PROGRAM, "4", "20"}, with = {"--budget", "12MiB", "--stats=json"};
  const Json copies = statistics_of(run(with, program, {"THERMOCLINE_RECOMPUTE=off"}));
  const Json drops = statistics_of(run(with, program, {"THERMOCLINE_RECOMPUTE=auto"}));
  ASSERT_TRUE(copies.is_object() && drops.is_object());
  EXPECT_LT(drops["evicted_bytes"].get<double>(), 0.5 * copies["evicted_bytes"].get<double>()) << drops;
  EXPECT_GT(drops["dropped_buffers"], drops["recomputed_buffers"]) << drops;
}

// Steps in which nothing can be dropped, each for another reason.
class NothingDropped : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(NothingDropped, IsSaidWithItsReason) {
  const auto& [trap, why] = GetParam();
  const std::vector<std::string> program = {LASTING_PROGRAM, "4", "14", trap};
  const Outcome plain = run({"--no-library"}, program, {});
  const Outcome outcome = run({"--budget", "12MiB", "--stats=json"}, program, {"THERMOCLINE_RECOMPUTE=auto"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, plain.output) << outcome.errors;
  const Json statistics = statistics_of(outcome);
  ASSERT_TRUE(statistics.is_object()) << outcome.errors;
  EXPECT_EQ(statistics["dropped_buffers"], 0);
  ASSERT_TRUE(statistics["nothing_dropped"].is_object()) << statistics;
  EXPECT_EQ(statistics["nothing_dropped"]["why"], why) << statistics["nothing_dropped"];
}

INSTANTIATE_TEST_SUITE_P(Reasons, NothingDropped,
                         testing::Values(std::pair("host", "host_waits"), std::pair("uploads", "inputs_overwritten"),
                                         std::pair("others", "made_by_others")));

TEST(Recompute, IsInTheTable) {
  const Outcome outcome = run({"--budget", "24MiB", "--stats"}, {TRAPS_PROGRAM, "clocks"}, kDropsAll);
  for (const char* const part :
       {"  dropped ", "  recomputed ", "kernels may run again", "control<7>: 1 of 1 launch, ran again",
        "read_timer: 0 of 1 launch, ran again 0 times: it reads a clock: %globaltimer"})
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << part << "\n" << outcome.errors;
}

}  // namespace
