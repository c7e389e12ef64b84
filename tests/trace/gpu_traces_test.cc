// SPDX-License-Identifier: Apache-2.0
// Steps that were recorded on a GPU: there some operations have other operands in each step, because kernels' parameters
// hold words that nobody sets (offload/planning/unsteady_kinds.h). They are iterations all the same, and are planned.
#include <gtest/gtest.h>

#include "trace/read.h"
#include "trace/repeat.h"
#include "trace/replay.h"

namespace thermocline::test {
namespace {

class GpuTraces : public testing::TestWithParam<const char*> {};

TEST_P(GpuTraces, AreFollowedByAPlan) {
  Trace trace;
  TraceError error;
  ASSERT_TRUE(read_trace(std::string(THERMOCLINE_TRACES "/gpu/") + GetParam() + ".jsonl.gz", &trace, &error))
      << error.text();
  StepProgram program;
  std::string reason;
  ASSERT_TRUE(plan_steps(trace, 12, &program, &reason)) << reason;
  ReplayOptions options;
  options.device.library = THERMOCLINE_SIMULATED_CUDA;
  options.device.profile = "h200";
  options.engine.policy = kLearnedPolicy;
  options.engine.page_bytes = 0;
  options.engine.budget_bytes = trace.peak_live_bytes / 100 * 60;
  ReplayResult result;
  ASSERT_TRUE(replay(trace, program, options, &result, &reason)) << reason;
  ASSERT_EQ(result.outcome, ReplayOutcome::kOk) << result.report;
  const std::optional<std::size_t> learned = learned_after_steps(result.steps);
  ASSERT_TRUE(learned.has_value());
  EXPECT_LE(*learned, 7u);
  // Without a plan, or with pages of 2 MiB, it would be twice the time without a shortage.
  options.engine.budget_bytes = 0;
  ReplayResult unlimited;
  ASSERT_TRUE(replay(trace, program, options, &unlimited, &reason)) << reason;
  EXPECT_LE(result.steps.back().ms, 1.4 * unlimited.steps.back().ms);
}
INSTANTIATE_TEST_SUITE_P(H200, GpuTraces, testing::Values("h200_gpt2_b4", "h200_unet_b8", "h200_resnet50_b64"));

}  // namespace
}  // namespace thermocline::test
