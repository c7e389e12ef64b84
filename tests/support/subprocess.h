// SPDX-License-Identifier: Apache-2.0
// Runs a program as a subprocess and captures its output, for end-to-end tests.
#pragma once

#include <string>
#include <vector>

namespace thermocline::test {

struct ProcessResult {
  int status = -1;  // the exit status, or 128 + the signal that ended it
  std::string out;
  std::string err;
};

// `arguments[0]` is the program, searched along PATH if it has no slash. `environment` has NAME=VALUE entries that are
// added to this process's environment (an empty VALUE removes the variable). THERMOCLINE_* and LD_PRELOAD are not
// inherited. Blocks until the program has ended.
ProcessResult run_process(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});

}  // namespace thermocline::test
