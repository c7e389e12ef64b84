// SPDX-License-Identifier: Apache-2.0
// Steps as this library runs them, compared with the least time that swapping can take: never less, because then the
// bound or the replay would be wrong, and not much more. Time is the simulated device's.
#include <gtest/gtest.h>

#include "tests/support/seeds.h"
#include "trace/bounds.h"
#include "trace/read.h"
#include "trace/repeat.h"
#include "trace/replay.h"

namespace thermocline::test {
namespace {

// The replay's clock is a float.
constexpr double kRounding = 1e-6;
// A recorded step, and the largest factor over the bound: the cost of planning and of pages of 2 MiB. The planner was
// not developed on the steps in the folder `holdout`.
struct RecordedStep {
  const char* trace;
  double most_over_the_bound;
};
constexpr RecordedStep kRecordedSteps[] = {
    {"unet3d_b1_128", 1.01},           {"resnet50_b64", 1.08},          {"gpt2_b8", 1.03},
    {"holdout/densenet121_b64", 1.15}, {"holdout/googlenet_b64", 1.16}, {"holdout/unet_b8", 1.04},
    {"holdout/vgg16_b64", 1.14},
};
constexpr std::size_t kSteps = 10;
constexpr DeviceRates kReference{.flops_per_second = 40e12,
                                 .memory_bytes_per_second = 3500e9,
                                 .link_to_device_bytes_per_second = 50e9,
                                 .link_to_host_bytes_per_second = 50e9,
                                 .launch_seconds = 4e-6};

class Floor : public testing::TestWithParam<RecordedStep> {
 protected:
  ReplayResult replayed(Bytes budget) const {
    StepProgram program;
    std::string reason;
    EXPECT_TRUE(plan_steps(trace_, kSteps, &program, &reason)) << reason;
    ReplayOptions options;
    options.device.library = THERMOCLINE_SIMULATED_CUDA;
    options.engine.budget_bytes = budget;
    options.engine.policy = kLearnedPolicy;
    options.exact = true;
    options.rates = kReference;
    ReplayResult result;
    EXPECT_TRUE(replay(trace_, program, options, &result, &reason)) << reason;
    EXPECT_EQ(result.outcome, ReplayOutcome::kOk);
    return result;
  }
  Trace trace_;
};

TEST_P(Floor, NoStepIsFasterThanTheBoundNorMuchSlower) {
  TraceError error;
  ASSERT_TRUE(read_trace(std::string(THERMOCLINE_TRACES "/") + GetParam().trace + ".jsonl.gz", &trace_, &error))
      << error.text();
  const SwapBounds bounds(trace_, kReference);
  for (const Bytes percent : {80, 60, 50}) {
    if (percent != 60 && percent_of_seeds() < 100) continue;
    SCOPED_TRACE(std::to_string(percent) + " %");
    const Bytes budget = trace_.peak_live_bytes / 100 * percent;
    const ReplayResult result = replayed(budget);
    ASSERT_EQ(result.steps.size(), kSteps);
    EXPECT_GT(result.statistics.evicted_bytes, 0u);
    const double step_ms = result.steps.back().ms, bound_ms = bounds.under(budget).bound_ms;
    EXPECT_GE(step_ms * (1 + kRounding), bound_ms);
    EXPECT_LE(step_ms, GetParam().most_over_the_bound * bound_ms);
  }
}
INSTANTIATE_TEST_SUITE_P(Traces, Floor, testing::ValuesIn(kRecordedSteps));

}  // namespace
}  // namespace thermocline::test
