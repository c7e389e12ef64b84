// SPDX-License-Identifier: Apache-2.0
// Checks every rule on the simulated device: in order of time and, except for rules about work that is still running,
// in adversarial orders too. What the rules' table and docs/conformance.md say about the simulated device must be
// exactly the result.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/conformance/kernels.h"
#include "tests/conformance/report.h"

namespace conformance {
namespace {

struct Case {
  Rule rule;
  const char* seed;  // of the adversarial order; "time": order of time
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.rule.says; }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Rule& rule : all_rules()) {
    all.push_back({rule, "time"});
    if (rule.needs_time || rule.simulator != OnSimulator::kAgrees) continue;
    for (const char* seed : {"1", "2", "3"}) {
      if (rule.devices == 1 || *seed == '1') all.push_back({rule, seed});
    }
  }
  return all;
}

class Conformance : public testing::TestWithParam<Case> {};

TEST_P(Conformance, IsAsTheTableSays) {
  const auto& [rule, seed] = GetParam();
  ASSERT_EQ(setenv("THERMOCLINE_SIMULATE_SEED", seed, 1), 0);
  ASSERT_EQ(setenv("THERMOCLINE_SIMULATE_DEVICES", std::to_string(rule.devices).c_str(), 1), 0);
  const Result result = run(rule, SIMULATED_CUDA);
  const Outcome expected = rule.simulator == OnSimulator::kAgrees       ? Outcome::kAgrees
                           : rule.simulator == OnSimulator::kNotCarried ? Outcome::kNotSupported
                                                                        : Outcome::kDisagrees;
  EXPECT_EQ(result.outcome, expected) << rule.says << ".\nBasis: " << rule.basis << "\n"
                                      << name_of(result.outcome) << ": " << result.detail;
}

INSTANTIATE_TEST_SUITE_P(Simulated, Conformance, testing::ValuesIn(cases()),
                         [](const auto& one) { return std::string(one.param.rule.name) + "_" + one.param.seed; });

TEST(ConformanceRules, AreManyAndHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const Rule& rule : all_rules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_TRUE(std::ranges::any_of(kSubjects, [&](const char* one) { return std::string(one) == rule.subject; }))
        << rule.subject;
  }
  EXPECT_GE(names.size(), 200u);
}

void nobody(Session&) {}
void dies(Session&) { std::abort(); }

TEST(ConformanceRunner, ReportsARuleThatDies) {
  Rule rule;
  rule.start = Start::kNothing;
  rule.body = &dies;
  const Result result = run(rule, SIMULATED_CUDA);
  EXPECT_EQ(result.outcome, Outcome::kDisagrees);
  EXPECT_NE(result.detail.find("died"), std::string::npos) << result.detail;
}

TEST(ConformanceRunner, ReportsALibraryThatIsNotThere) {
  Rule rule;
  rule.body = &nobody;
  EXPECT_EQ(run(rule, "/nowhere/libcuda.so.1").outcome, Outcome::kDisagrees);
  EXPECT_NE(describe_device("/nowhere/libcuda.so.1").why, "");
}

TEST(ConformanceReport, ReadsBackWhatItWrites) {
  Rule rule;
  rule.name = "a_rule";
  rule.subject = "start";
  rule.says = "Something holds";
  rule.basis = "A page";
  const std::string text = to_json({"", "A device", 13000, 90}, {{rule, {Outcome::kDisagrees, "because", {}}}});
  const std::string page = to_markdown({rule}, {text});
  EXPECT_NE(page.find("A device, CUDA 13.0"), std::string::npos);
  EXPECT_NE(page.find("| `a_rule` | Something holds. | A page | agrees | **disagrees** |"), std::string::npos) << page;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// scripts/gpu.sh creates the page in the same way.
TEST(ConformancePage, IsUpToDate) {
  std::set<std::filesystem::path> files;
  const std::filesystem::path folder = REPOSITORY "/bench/results";
  if (std::filesystem::exists(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("conformance-") && name.ends_with(".json")) files.insert(entry.path());
    }
  }
  std::vector<std::string> texts;
  for (const std::filesystem::path& file : files) texts.push_back(read_file(file));
  EXPECT_EQ(read_file(REPOSITORY "/docs/conformance.md"), to_markdown(all_rules(), texts))
      << "make it anew: conformance --markdown bench/results/conformance-*.json > docs/conformance.md";
}

}  // namespace
}  // namespace conformance
