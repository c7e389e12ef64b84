// SPDX-License-Identifier: Apache-2.0
// Copies that are made ahead of need must not cost more than they gain: steps of varying shape, for which no plan can
// be made, and steps that run without one take hardly longer than with plain least-recently-used on demand. Time is the
// simulated device's.
#include <gtest/gtest.h>

#include "tests/support/seeds.h"
#include "trace/read.h"
#include "trace/repeat.h"
#include "trace/replay.h"

namespace thermocline::test {
namespace {

constexpr double kMostOverLru = 1.02;

struct Speculation : testing::TestWithParam<std::pair<const char*, std::size_t>> {
  // All steps, the first one included, in which everything is new.
  double milliseconds(const Trace& trace, const PolicyEntry* policy, Bytes budget) const {
    StepProgram program;
    std::string reason;
    EXPECT_TRUE(plan_steps(trace, GetParam().second, &program, &reason)) << reason;
    ReplayOptions options;
    options.device.library = THERMOCLINE_SIMULATED_CUDA;
    options.engine.budget_bytes = budget;
    options.engine.policy = policy;
    ReplayResult result;
    EXPECT_TRUE(replay(trace, program, options, &result, &reason)) << reason;
    EXPECT_EQ(result.outcome, ReplayOutcome::kOk);
    double sum = 0;
    for (const ReplayStep& step : result.steps) sum += step.ms;
    return sum;
  }
};

TEST_P(Speculation, CostsHardlyMoreThanItBrings) {
  Trace trace;
  TraceError error;
  std::string file = THERMOCLINE_TRACES "/";
  file.append(GetParam().first).append(".jsonl.gz");
  ASSERT_TRUE(read_trace(file, &trace, &error)) << error.text();
  for (const Bytes percent : {95, 90, 80, 70}) {
    if (percent != 80 && percent_of_seeds() < 100) continue;
    SCOPED_TRACE(std::to_string(percent) + " %");
    const Bytes budget = trace.peak_live_bytes / 100 * percent;
    const double on_demand = milliseconds(trace, kLruPolicy, budget);
    ASSERT_GT(on_demand, 0);
    EXPECT_LE(milliseconds(trace, kReactivePolicy, budget), kMostOverLru * on_demand);
    EXPECT_LE(milliseconds(trace, kLearnedPolicy, budget), kMostOverLru * on_demand);
  }
}
INSTANTIATE_TEST_SUITE_P(Traces, Speculation,
                         testing::Values(std::pair("nmt_varlen_b128", std::size_t{8}),
                                         std::pair("nmt_b128_t50", std::size_t{3})));

}  // namespace
}  // namespace thermocline::test
