// SPDX-License-Identifier: Apache-2.0
// Runs a program with the environment of the test and captures its output.
#pragma once

#include <string>
#include <vector>

struct Outcome {
  int status;  // as in a shell: 128 + signal if one ended it
  std::string output;
  std::string errors;
};

// `settings` are "NAME=value" and override the inherited environment.
Outcome run_program(const std::vector<std::string>& command, const std::vector<std::string>& settings = {});
