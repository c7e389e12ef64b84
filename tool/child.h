// SPDX-License-Identifier: Apache-2.0
// Runs a program in place of the command: same standard streams, signals passed on, its exit status ours.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace thermocline {

struct ChildResult {
  int status = 0;       // exit status, or 128 + the signal that ended it
  int start_error = 0;  // errno when it could not be started
};

// `arguments` begins with the program, which is looked for along PATH; `changes` to the environment: an empty value
// removes.
ChildResult run_child(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& changes);

}  // namespace thermocline
