// SPDX-License-Identifier: Apache-2.0
// Swapping and recomputing side by side, and the table of them that docs/recompute.md shows.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tool/command_fixture.h"
#include "tests/tool/replayed.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

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

// What ./dev bench recompute wrote is what the page says.
TEST_F(Command, TheTableOfRecomputingIsThatOfTheResults) {
  const std::string repository = kTraces + "/../..";
  const std::string page = text_of(repository + "/docs/recompute.md");
  const json results = json::parse(text_of(repository + "/bench/results/recompute.json"), nullptr, false);
  ASSERT_EQ(results["schema"], "thermocline-bench-recompute/1");
  ASSERT_GE(results["rows"].size(), 8u);
  const auto cell = [](const json& value) {
    char text[32] = "-";
    if (value.is_number()) std::snprintf(text, sizeof text, "%.1f", value.get<double>());
    return " " + std::string(text) + " |";
  };
  for (const json& row : results["rows"]) {
    std::string line = "| " + row["workload"].get<std::string>() + " | " + row["budget_percent"].dump() + " % |" +
                       cell(row["compute_ms"]) + cell(row["bound_ms"]) + cell(row["joint_bound_ms"]);
    for (const char* const policy : {"swap", "recompute", "joint", "sqrt"}) line += cell(row[policy]["step_ms"]);
    EXPECT_NE(page.find(line + "\n"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace thermocline::test
