// SPDX-License-Identifier: Apache-2.0
// The command's output when memory runs out, and that following its advice once is enough.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/tool/command_fixture.h"
#include "tests/tool/replayed.h"

namespace thermocline::test {
namespace {

// The engine knows what was refused; the whole step is known to the replay, whose figure needs to be followed once.
TEST_F(Command, AReplayThatRunsOutOfMemorySaysWhichBudgetSuffices) {
  for (const auto& [budget, policy] : {std::pair("100MiB", "learned"), std::pair("30%", "none")}) {
    const std::vector<std::string> base = {"replay", kUnet, "--steps", "4", "--policy", policy, "--budget"};
    const auto with = [&](const std::string& size) {
      std::vector<std::string> arguments = base;
      arguments.push_back(size);
      return run(arguments);
    };
    const ProcessResult refused = with(budget);
    EXPECT_EQ(refused.status, 1);
    std::smatch advice;
    ASSERT_TRUE(std::regex_search(
        refused.out, advice,
        std::regex("\n  do     budget = \"([0-9]+MiB)\" \\(--budget \\1\\): all 4 steps run in it\n")))
        << refused.out;
    EXPECT_EQ(with(advice[1]).status, 0) << refused.out;
    EXPECT_EQ(refused.out.find("budget = ", static_cast<std::size_t>(advice.position(1))), std::string::npos)
        << "one number";
  }
}

// A step of four operators, of which the third needs more than the budget; as PyTorch's recorder names things.
class NamedStep : public Command {
 protected:
  NamedStep() {
    std::ofstream trace(trace_);
    trace << R"({"schema":"thermocline-trace/1","created":"2026-11-28","program":"test"}
{"e":"alloc","b":7,"n":8388608,"tag":"parameter conv.weight"}
{"e":"op","k":"aten::fill_","r":[],"w":[7],"flops":1e6,"bytes":1e6}
{"e":"alloc","b":8,"n":16777216,"tag":"activation layer1.relu"}
{"e":"op","k":"aten::relu","r":[],"w":[8],"flops":1e6,"bytes":1e6}
{"e":"alloc","b":9,"n":16777216,"tag":"activation layer1.conv"}
{"e":"op","k":"aten::convolution","r":[7,8],"w":[9],"flops":1e6,"bytes":1e6}
{"e":"op","k":"aten::sum","r":[9],"w":[7],"flops":1e6,"bytes":1e6}
{"e":"free","b":9}
{"e":"free","b":8}
{"e":"free","b":7}
{"e":"step","i":0}
)";
  }
  ~NamedStep() override { std::remove(trace_.c_str()); }
  const std::string trace_ = testing::TempDir() + "named_step_" + std::to_string(getpid()) + ".jsonl";
};

TEST_F(NamedStep, AReplayNamesTheOperatorAndItsBuffers) {
  const ProcessResult refused = run({"replay", trace_, "--budget", "32MiB", "--exact"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.out.find("thermocline: out of memory: aten::convolution: its memory of 40.0 MiB was refused "),
            std::string::npos)
      << refused.out;
  EXPECT_NE(refused.out.find("  uses   3 buffers together: 16.0 MiB read + 16.0 MiB written + 8.0 MiB read\n"
                             "  at     operator 2 of 4 in step 1 of 12: aten::convolution (convolution)\n"
                             "         16.0 MiB read: buffer 8, activation layer1.relu, from aten::relu at operator 1\n"
                             "         16.0 MiB written: buffer 9, activation layer1.conv\n"
                             "         8.0 MiB read: buffer 7, parameter conv.weight, from aten::fill_ at operator 0\n"
                             "  do     budget = \"40MiB\" (--budget 40MiB): all 12 steps run in it\n"),
            std::string::npos)
      << refused.out;
  const auto json = nlohmann::json::parse(run({"replay", trace_, "--budget", "32MiB", "--json"}).out);
  EXPECT_EQ(json["refused"]["step"], 0);
  EXPECT_EQ(json["refused"]["operator"]["name"], "aten::convolution");
  EXPECT_EQ(json["refused"]["buffers"][0]["tag"], "activation layer1.relu");
  EXPECT_TRUE(nlohmann::json::parse(run({"replay", trace_, "--budget", "40MiB", "--json"}).out)["refused"].is_null());
}

TEST_F(NamedStep, AnAllocationThatIsTooLargeIsNamed) {
  const ProcessResult refused = run({"replay", trace_, "--budget", "12MiB"});
  EXPECT_NE(
      refused.out.find("  at     an allocation in step 1 of 12\n         16.0 MiB: buffer 8, activation layer1.relu\n"),
      std::string::npos)
      << refused.out;
}

TEST_F(NamedStep, AnEstimateSaysWhereMemoryRunsOut) {
  const std::vector<std::string> arguments = {"estimate", trace_, "--budget", "32MiB", "--device", "h200,a100-40g"};
  EXPECT_NE(
      run(arguments).out.find("On h200, a100-40g memory runs out at operator 2 of 4 in step 1 of 8: "
                              "aten::convolution (convolution)\n    16.0 MiB read: buffer 8, activation layer1.relu"),
      std::string::npos)
      << run(arguments).out;
}

}  // namespace
}  // namespace thermocline::test
