// SPDX-License-Identifier: Apache-2.0
// Runs a program under the library like `run`, for other commands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tool/commands.h"

namespace thermocline {

struct RunFlags {
  // std::nullopt: the flag is missing. An empty value is wrong usage.
  std::optional<std::string> budget, policy, config, device, trace, limit, faults;
  std::string stats;  // empty: according to the settings
  std::optional<std::uint64_t> seed;
  bool check = false, no_library = false, no_children = false, no_frameworks = false, audit = false, made_up = false;
  // A folder in which each process leaves a recording and the facts about its kernels; null: none.
  const std::string* kernels_folder = nullptr;
};

// Adds the flags that all of these commands have.
void add_run_flags(CLI::App* command, RunFlags* flags);
// Returns the exit status; `command`: its name, for messages.
int run_program(const RunFlags& flags, const CommandLine& line, const std::string& command);

}  // namespace thermocline
