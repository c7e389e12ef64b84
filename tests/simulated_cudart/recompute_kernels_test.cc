// SPDX-License-Identifier: Apache-2.0
// Kernels as programs have them may run again, and those that only look like them never do.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/simulated_cudart/recompute_runs.h"

namespace {

using namespace recompute_runs;

class RecomputeKernels : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(RecomputeKernels, RunAgainIfTheyMayAndLeaveTheBitsAsTheyAre) {
  const Outcome plain = run({"--no-library"}, {KERNELS_PROGRAM}, {});
  ASSERT_EQ(plain.status, 0) << plain.errors;
  std::vector<std::string> flags = GetParam();
  flags.push_back("--stats=json");
  const Outcome outcome = run(flags, {KERNELS_PROGRAM}, kDropsAll);
  expect_right(outcome, plain.output);
  const Json statistics = statistics_of(outcome);
  ASSERT_TRUE(statistics.is_object()) << outcome.errors;
  int may = 0, must_not = 0;
  for (const Json& kernel : statistics["kernels"]) {
    const std::string name = kernel["name"];
    if (name.find("must_not_::") != std::string::npos) {
      ++must_not;
      EXPECT_EQ(kernel["may_run_again"], 0) << kernel;
      EXPECT_EQ(kernel["reruns"], 0) << kernel;
      EXPECT_FALSE(kernel["why_not"].is_null()) << kernel;
    } else if (name.find("may_::") != std::string::npos) {
      ++may;
      EXPECT_EQ(kernel["may_run_again"], kernel["launches"]) << kernel;
      EXPECT_GT(kernel["reruns"], 0) << kernel;
    }
  }
  EXPECT_EQ(may, 28);
  EXPECT_EQ(must_not, 28);
}

INSTANTIATE_TEST_SUITE_P(Budgets, RecomputeKernels,
                         testing::Values(std::vector<std::string>{"--budget", "12MiB"},
                                         std::vector<std::string>{"--budget", "12MiB", "--check", "--seed", "1"}));

TEST(RecomputeKernels, SayWhyTheyMayNotRunAgain) {
  const Outcome outcome = run({"--budget", "24MiB", "--stats=json"}, {KERNELS_PROGRAM}, kDropsAll);
  const Json statistics = statistics_of(outcome);
  ASSERT_TRUE(statistics.is_object()) << outcome.errors;
  const std::pair<const char*, const char*> expected[] = {
      {"::other_bound",
       "launched with a shape or sizes that the proof is not of, as grid (32, 64, 1) of blocks (32, 8, 1), for what it "
       "stores through parameter 1 of 4"},
      {"::wraps",
       "launched with a shape or sizes that the proof is not of, as grid (32, 64, 1) of blocks (32, 8, 1), for what it "
       "stores through parameter 1 of 4"},
      {"::stride_in_memory",
       "it stores to places that are not linear in the thread's number, scattered or taken apart by / and %"},
      {"::two_strides",
       "a thread stores to several places that are not in a row, as in an unrolled loop over a row, or in nested "
       "loops"},
      {"::ends_early", "it does not store on every path"},
      {"::right_neighbour", "it reads from what it writes to, at other places than the thread's own"},
      {"::upper_half", "it reads from what it writes to, at other places than the thread's own"},
      {"::from_behind", "what it writes is given to it twice, or it may read there by a pointer to the buffer behind"},
      {"::in_order", "it may compute with addresses"},
      {"::picks", "it takes pointers from shared or local memory, as where it picks one of an array by number"},
  };
  for (const auto& [name, why] : expected) EXPECT_EQ(kernel_of(statistics, name)["why_not"], why) << name;
}

}  // namespace
