// SPDX-License-Identifier: Apache-2.0
// Checks the rules under the library. All must hold, except those listed here with a reason; a listed rule that holds
// fails the test and must be removed from the list.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/subprocess.h"

namespace {

const std::map<std::string, std::string> kNotKept = {
    {"copy_to_unknown_address_fails", "a freed address keeps its memory, for the next allocation"},
    {"ipc_memory_is_seen_by_both", "memory of the library is shared where `shareable` is set"},
    {"ipc_handle_opens_to_one_address", "the same"},
    {"ipc_handle_flags_are_checked", "the same"},
    {"ipc_opens_in_another_process", "the same"},
};

TEST(ConformanceUnderTheLibrary, KeepsEveryRuleButThoseListed) {
  const std::string file = testing::TempDir() + "conformance-preload.json";
  const auto ended = thermocline::test::run_process(
      {CONFORMANCE, "--json", file},
      {"LD_PRELOAD=" LIBRARY_FILE, "LD_LIBRARY_PATH=" SIMULATOR_FOLDER, "THERMOCLINE_SIMULATE_DEVICE=reference",
       "THERMOCLINE_SIMULATE_MEMORY_BYTES=2147483648", "THERMOCLINE_SIMULATE_PROGRESS=off",
       "THERMOCLINE_SIMULATE_DEVICES=2"});
  ASSERT_LE(ended.status, 1) << ended.out << ended.err;
  std::ifstream stream(file);
  const nlohmann::json results = nlohmann::json::parse(stream);
  std::remove(file.c_str());
  std::map<std::string, std::string> differs;
  for (const auto& rule : results.at("rules")) {
    if (rule.at("outcome") == "disagrees") differs[rule.at("name")] = rule.at("detail");
  }
  for (const auto& [name, detail] : differs) EXPECT_TRUE(kNotKept.count(name) != 0) << name << ": " << detail;
  for (const auto& [name, reason] : kNotKept)
    EXPECT_TRUE(differs.count(name) != 0) << name << " is kept, although: " << reason;
}

}  // namespace
