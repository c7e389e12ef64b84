// SPDX-License-Identifier: Apache-2.0
// Swapping and recomputing side by side.
#include <nlohmann/json.hpp>

#include "tests/tool/command_fixture.h"
#include "tests/tool/replayed.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

TEST_F(Command, ComparesCopiesWithRecomputing) {
  const ProcessResult result = run({"replay", kResnet, "--exact", "--budget", "60%", "--no-check", "--steps", "5",
                                    "--json", "--compare", "swap", "recompute", "joint", "sqrt"});
  const json out = json::parse(result.out, nullptr, false);
  ASSERT_EQ(out["runs"].size(), 4u) << result.err;
  const json& swap = out["runs"][0];
  EXPECT_EQ(swap["recomputed_operations"], 0);
  for (std::size_t i = 0; i < 4; ++i) {
    const json& one = out["runs"][i];
    EXPECT_EQ(one["policy"], one["name"]);
    EXPECT_EQ(one["checksum"], swap["checksum"]);
  }
  const json& joint = out["runs"][2];
  EXPECT_GT(joint["recomputed_operations"], 0);
  EXPECT_LE(joint["steady_step_ms"], swap["steady_step_ms"]);
  EXPECT_EQ(run({"replay", kUnet, "--policy", "joint"}).status, 2) << "without --exact nothing may run again";
}

}  // namespace
}  // namespace thermocline::test
