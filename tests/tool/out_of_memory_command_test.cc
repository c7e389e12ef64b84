// SPDX-License-Identifier: Apache-2.0
// What the command says when memory runs out, and that following it once is enough.
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

}  // namespace
}  // namespace thermocline::test
