// SPDX-License-Identifier: Apache-2.0
// Runs programs whose kernels run their own code on the simulated device, and reads their statistics.
#pragma once

#include <nlohmann/json.hpp>
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

// Of --stats=json.
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

}  // namespace recompute_runs
