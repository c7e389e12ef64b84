// SPDX-License-Identifier: Apache-2.0
// Runs programs whose kernels run their own code on the simulated device, and reads their statistics.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/simulated_cudart/subprocess.h"

namespace recompute_runs {

using Json = nlohmann::json;

inline Outcome run(const std::vector<std::string>& with, const std::vector<std::string>& program,
                   std::vector<std::string> settings) {
  std::vector<std::string> command = {COMMAND_FILE, "run", "--simulate", "reference"};
  command.insert(command.end(), with.begin(), with.end());
  command.push_back("--");
  command.insert(command.end(), program.begin(), program.end());
  settings.push_back("THERMOCLINE_SIMULATE_KERNELS=real");
  return run_program(command, settings);
}

// The statistics that --stats=json printed.
inline Json statistics_of(const Outcome& outcome) {
  const std::size_t at = outcome.errors.find("{\"schema\"");
  if (at == std::string::npos) return {};
  return Json::parse(outcome.errors.substr(at, outcome.errors.find('\n', at) - at), nullptr, false);
}

// The kernel whose name ends so: the one that ran again, if it has several codes. Null: it was not launched.
inline Json kernel_of(const Json& statistics, const std::string& name) {
  Json found;
  for (const Json& kernel : statistics["kernels"]) {
    if (kernel["name"].get<std::string>().ends_with(name) && (found.is_null() || kernel["reruns"] > 0)) found = kernel;
  }
  return found;
}

// The row of a kernel in an object that `thermocline kernels --json` printed; empty: there is none.
inline Json kernel_of_rows(const Json& object, const std::string& name) {
  for (const Json& kernel : object["kernels"]) {
    if (kernel["name"].get<std::string>().ends_with(name)) return kernel;
  }
  return {};
}

// Whatever can be recomputed is dropped before each operation.
inline const std::vector<std::string> kDropsAll = {"THERMOCLINE_RECOMPUTE=auto", "THERMOCLINE_TEST_DROPS=1"};

inline void expect_right(const Outcome& outcome, const std::string& expected) {
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  std::istringstream is(outcome.output), should(expected);
  for (std::string line, other; std::getline(should, other);) {
    std::getline(is, line);
    EXPECT_EQ(line, other);
    EXPECT_TRUE(line.ends_with(" 0")) << line << ": values that the trap itself knows to be wrong";
  }
}

}  // namespace recompute_runs
