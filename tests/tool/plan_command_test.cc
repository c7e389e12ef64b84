// SPDX-License-Identifier: Apache-2.0
// `thermocline plan`: a plan for other executors, as JSON.
#include <nlohmann/json.hpp>

#include "tests/tool/command_fixture.h"
#include "tests/tool/replayed.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

TEST_F(Command, PlansAStepForOtherExecutors) {
  const json plan = json::parse(run({"plan", kResnet, "--budget", "60%", "--json"}).out, nullptr, false);
  ASSERT_TRUE(plan["fits"].get<bool>());
  EXPECT_EQ(plan["schema"], "thermocline-plan/1");
  EXPECT_LE(plan["peak_bytes"], plan["budget_bytes"]);
  EXPECT_GT(plan["drops"].size(), 0u);
  EXPECT_GE(plan["reruns"].size(), plan["drops"].size());
  EXPECT_GE(plan["step_ms"], plan["compute_ms"]);
}

TEST_F(Command, PlanSaysWhichOperatorNeedsMore) {
  const std::string trace = write("tiny.jsonl", R"({"schema":"thermocline-trace/1"}
{"e":"alloc","b":7,"n":4096}
{"e":"alloc","b":8,"n":8192}
{"e":"op","k":"wide","r":[7],"w":[8],"flops":1,"bytes":1}
{"e":"step","i":0}
)");
  const ProcessResult result = run({"plan", trace, "--budget", "8192", "--json"});
  EXPECT_EQ(result.status, 1);
  const json plan = json::parse(result.out, nullptr, false);
  EXPECT_FALSE(plan["fits"].get<bool>());
  EXPECT_EQ(plan["least_operator"], "wide");
  EXPECT_EQ(plan["least_bytes"], 12288);
  const std::string terms = write("terms.json", R"({"schema":"thermocline-plan-terms/1","held":[[9,0]]})");
  expect_refused({"plan", trace, "--budget", "1M", "--terms", terms}, 3, terms + ": the trace has no buffer 9");
  expect_refused({"plan", trace, "--budget", "1M", "--plans", "best"}, 2,
                 "--plans: 'best' is none of joint, recompute, swap, sqrt, checkpoint-all, checkmate, gruslys");
}

}  // namespace
}  // namespace thermocline::test
