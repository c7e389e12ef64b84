// SPDX-License-Identifier: Apache-2.0
// Runs a program in place of the command: with the same standard streams; signals are passed on to it, and its exit
// status becomes the command's.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace thermocline {

struct ChildResult {
  int status = 0;       // exit status, or 128 + the signal that ended it
  int start_error = 0;  // errno if it could not be started
};

// `arguments` begins with the program, which is searched along PATH. `changes` are made to the environment; an empty
// value removes the variable.
ChildResult run_child(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& changes);

}  // namespace thermocline
