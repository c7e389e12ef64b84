// SPDX-License-Identifier: Apache-2.0
// `run`, for the other commands that run a program under the library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tool/commands.h"

namespace thermocline {

struct RunFlags {
  // A missing flag is not the same as an empty one, which is wrong.
  std::optional<std::string> budget, policy, config, device, trace, limit, faults;
  std::string stats;  // empty: according to the settings
  std::optional<std::uint64_t> seed;
  bool check = false, no_library = false, no_children = false, no_frameworks = false, audit = false, made_up = false;
  // A folder in which each process leaves a recording and what is known of its kernels; null: none.
  const std::string* kernels_folder = nullptr;
};

// The flags that all of these commands have.
void add_run_flags(CLI::App* command, RunFlags* flags);
// The exit status; `command`: for messages.
int run_program(const RunFlags& flags, const CommandLine& line, const std::string& command);

}  // namespace thermocline
