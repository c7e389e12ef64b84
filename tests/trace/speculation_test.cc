// SPDX-License-Identifier: Apache-2.0
// Copies that are made ahead of need must not cost more than they gain: steps of varying shape, for which no plan can
// be made, and first steps, before there is one, take hardly longer than with plain least-recently-used on demand. Time
// is the simulated device's.
#include <gtest/gtest.h>

#include "tests/support/seeds.h"
#include "trace/read.h"
#include "trace/repeat.h"
#include "trace/replay.h"

namespace thermocline::test {
namespace {

constexpr double kMostOverLru = 1.02;

struct Case {
  const char* trace;
  const char* device;
  Bytes percent;  // of the trace's peak, at which it is tested however few seeds are
  std::size_t steps;
};

struct Speculation : testing::TestWithParam<Case> {
  // All steps, the first one included, in which everything is new.
  double milliseconds(const Trace& trace, const PolicyEntry* policy, Bytes budget) const {
    StepProgram program;
    std::string reason;
    EXPECT_TRUE(plan_steps(trace, GetParam().steps, &program, &reason)) << reason;
    ReplayOptions options;
    options.device.library = THERMOCLINE_SIMULATED_CUDA;
    options.device.profile = GetParam().device;
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
  file.append(GetParam().trace).append(".jsonl.gz");
  ASSERT_TRUE(read_trace(file, &trace, &error)) << error.text();
  for (const Bytes percent : {95, 90, 80, 75, 70}) {
    if (percent != GetParam().percent && percent_of_seeds() < 100) continue;
    SCOPED_TRACE(std::to_string(percent) + " %");
    const Bytes budget = trace.peak_live_bytes / 100 * percent;
    const double on_demand = milliseconds(trace, kLruPolicy, budget);
    ASSERT_GT(on_demand, 0);
    EXPECT_LE(milliseconds(trace, kReactivePolicy, budget), kMostOverLru * on_demand);
    EXPECT_LE(milliseconds(trace, kLearnedPolicy, budget), kMostOverLru * on_demand);
  }
}
INSTANTIATE_TEST_SUITE_P(
    Traces, Speculation,
    testing::Values(Case{"nmt_varlen_b128", "reference", 80, 8}, Case{"nmt_varlen_b128", "v100-16g", 90, 8},
                    Case{"nmt_b128_t50", "reference", 80, 3}, Case{"resnet50_b64", "reference", 90, 3},
                    Case{"vgg16_b32", "reference", 90, 4}, Case{"holdout/vgg16_b64", "reference", 90, 4},
                    Case{"holdout/unet_b8", "reference", 90, 4}));

}  // namespace
}  // namespace thermocline::test
