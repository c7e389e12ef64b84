// SPDX-License-Identifier: Apache-2.0
// Reruns are verified: kernels that are wrongly said to give the same results again are found before anything depends
// on them, or reported.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "offload/kernel_trial.h"
#include "tests/simulated_cudart/recompute_runs.h"

namespace {

using namespace recompute_runs;
using thermocline::KernelTrial;

// Whatever may be dropped is, before each operation.
const std::vector<std::string> kVerified = {"THERMOCLINE_RECOMPUTE=auto", "THERMOCLINE_TEST_DROPS=verified",
                                            "THERMOCLINE_TEST_PROVEN=wrongly"};
const std::vector<std::string> kInOrder, kAdversarial = {"--seed", "1", "--check"};

Outcome run_trap(const char* trap, const std::vector<std::string>& more,
                 std::vector<std::string> settings = kVerified) {
  std::vector<std::string> with = {"--budget", "12MiB", "--stats=json"};
  with.insert(with.end(), more.begin(), more.end());
  return run(with, {WRONG_PROGRAM, trap, "12"}, settings);
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

const char* const kWarning = "wrongly gave other results when it was run a second time";
const char* const kError = "THE RESULTS OF THIS RUN MAY BE WRONG";

void expect_others_promoted(const Json& statistics, std::uint64_t others) {
  for (const char* const name : {"::harmless", "::in_place"}) {
    const Json kernel = kernel_of(statistics, name);
    ASSERT_TRUE(kernel.is_object()) << name;
    EXPECT_EQ(kernel["trial"], "promoted") << kernel;
    EXPECT_EQ(kernel["rehearsed"], KernelTrial::kEqualRehearsals) << kernel;
    EXPECT_LE(kernel["verified"], kernel["reruns"]) << kernel;
    EXPECT_EQ(kernel["mismatched"], 0) << kernel;
    // The contents that are updated in place were brought by a copy, which does not run again.
    EXPECT_EQ(kernel["reruns"] > 0, name == std::string("::harmless")) << kernel;
  }
  EXPECT_EQ(statistics["promoted_kernels"], others) << statistics;
}

class WronglyVouchedFor : public testing::TestWithParam<const char*> {};

TEST_P(WronglyVouchedFor, IsFoundBeforeAnythingDependsOnIt) {
  const Outcome plain = run({"--no-library"}, {WRONG_PROGRAM, GetParam(), "12"}, {});
  ASSERT_TRUE(plain.output.starts_with("changed 0, wrong 0, digest ")) << plain.output << plain.errors;
  for (const std::vector<std::string>& more : {kInOrder, kAdversarial}) {
    SCOPED_TRACE(testing::PrintToString(more));
    const Outcome outcome = run_trap(GetParam(), more);
    EXPECT_EQ(outcome.output, plain.output) << outcome.errors;
    EXPECT_EQ(times(outcome.errors, kWarning), 1u) << outcome.errors;
    EXPECT_EQ(times(outcome.errors, kError), 0u) << outcome.errors;
    EXPECT_EQ(times(outcome.errors, "race:"), 0u) << outcome.errors;
    const Json statistics = statistics_of(outcome);
    ASSERT_TRUE(statistics.is_object()) << outcome.errors;
    const Json kernel = kernel_of(statistics, "::wrongly");
    EXPECT_EQ(kernel["trial"], "demoted") << kernel;
    EXPECT_GE(kernel["mismatched"], 1) << kernel;
    EXPECT_EQ(kernel["reruns"], 0) << kernel;
    EXPECT_EQ(statistics["demoted_kernels"], 1) << statistics;
    EXPECT_EQ(statistics["mismatched_results"], kernel["mismatched"]) << statistics;
    expect_others_promoted(statistics, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Traps, WronglyVouchedFor, testing::Values("address", "count", "leaves"));

TEST(Verification, PromotesWhatGivesTheSameAndComparesItInUse) {
  const Outcome outcome = run_trap("none", kAdversarial);
  ASSERT_TRUE(outcome.output.starts_with("changed 0, wrong 0, ")) << outcome.output << outcome.errors;
  const Json statistics = statistics_of(outcome);
  ASSERT_TRUE(statistics.is_object()) << outcome.errors;
  expect_others_promoted(statistics, 3);
  EXPECT_EQ(statistics["rehearsed_launches"], 3 * KernelTrial::kEqualRehearsals) << statistics;
  EXPECT_EQ(statistics["mismatched_results"], 0) << statistics;
  EXPECT_EQ(statistics["demoted_kernels"], 0) << statistics;
  EXPECT_GT(kernel_of(statistics, "::harmless")["verified"], 0) << statistics;
  // All that was made again, and the rehearsals; perhaps but for what was made again last.
  EXPECT_GE(statistics["verified_results"].get<std::uint64_t>() + 2,
            statistics["recomputed_buffers"].get<std::uint64_t>() + 3 * KernelTrial::kEqualRehearsals)
      << statistics;
  EXPECT_EQ(times(outcome.errors, kWarning) + times(outcome.errors, kError), 0u) << outcome.errors;
}

// Nothing is left that could mend it.
TEST(Verification, ReportsWhatCameOutOtherwiseInUse) {
  const Outcome outcome = run_trap("late", kInOrder);
  const Json statistics = statistics_of(outcome);
  ASSERT_TRUE(statistics.is_object()) << outcome.errors;
  EXPECT_EQ(times(outcome.errors, kError), 1u) << outcome.errors;
  EXPECT_NE(outcome.errors.find("wrongly made other contents of a buffer of 2097152 bytes"), std::string::npos)
      << outcome.errors;
  EXPECT_NE(outcome.errors.find("THERMOCLINE_RECOMPUTE=off"), std::string::npos) << outcome.errors;
  const Json kernel = kernel_of(statistics, "::wrongly");
  EXPECT_EQ(kernel["trial"], "demoted") << kernel;
  EXPECT_EQ(statistics["demoted_kernels"], 1) << statistics;
  expect_others_promoted(statistics, 3);
}

TEST(Verification, TrustingTakesNoDigestsOnceAKernelIsPromoted) {
  std::vector<std::string> settings = kVerified;
  settings.push_back("THERMOCLINE_SAFETY=trusting");
  const Outcome outcome = run_trap("none", kInOrder, settings);
  ASSERT_TRUE(outcome.output.starts_with("changed 0, wrong 0, ")) << outcome.output << outcome.errors;
  const Json statistics = statistics_of(outcome);
  ASSERT_TRUE(statistics.is_object()) << outcome.errors;
  EXPECT_EQ(statistics["digests"], 2 * statistics["rehearsed_launches"].get<std::uint64_t>()) << statistics;
  EXPECT_EQ(statistics["verified_results"], statistics["rehearsed_launches"]) << statistics;
  EXPECT_EQ(kernel_of(statistics, "::harmless")["verified"], 0) << statistics;
  EXPECT_GT(statistics["recomputed_buffers"], 12) << statistics;
}

// With plans in the place of drops before each operation. They count on the kernel until it is demoted.
TEST(Verification, PlansGoOnWithoutAKernelThatWasDemoted) {
  const auto statistics_behind = [](const char* steps) {
    const Outcome outcome = run({"--budget", "12MiB", "--stats=json"}, {LASTING_PROGRAM, "4", steps, "late"},
                                {"THERMOCLINE_RECOMPUTE=auto", "THERMOCLINE_TEST_PROVEN=late_stencil"});
    EXPECT_EQ(times(outcome.errors, "late_stencil made other contents"), steps == std::string("14") ? 0u : 1u)
        << outcome.errors;
    return statistics_of(outcome);
  };
  const Json before = statistics_behind("14"), soon = statistics_behind("20"), later = statistics_behind("26");
  ASSERT_TRUE(before.is_object() && soon.is_object() && later.is_object());
  EXPECT_EQ(kernel_of(before, "::late_stencil")["trial"], "promoted") << before;
  EXPECT_GT(kernel_of(before, "::late_stencil")["reruns"], 12) << before;
  EXPECT_EQ(kernel_of(later, "::late_stencil")["trial"], "demoted") << later;
  EXPECT_EQ(kernel_of(soon, "::late_stencil")["reruns"], kernel_of(later, "::late_stencil")["reruns"]) << later;
  EXPECT_GT(later["plans"], before["plans"]) << later;
}

}  // namespace
