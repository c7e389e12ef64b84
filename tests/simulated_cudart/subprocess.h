// SPDX-License-Identifier: Apache-2.0
// Runs a program with the environment of the test and collects what it prints.
#pragma once

#include <string>
#include <vector>

struct Outcome {
  int status;  // as of a shell: 128 + signal where one ended it
  std::string output;
  std::string errors;
};

// `settings` are "NAME=value" and go before the inherited environment.
Outcome run_program(const std::vector<std::string>& command, const std::vector<std::string>& settings = {});
