// SPDX-License-Identifier: Apache-2.0
// What the command's exit status means. `run` gives its program's own instead.
#pragma once

namespace thermocline {

enum ExitStatus : int {
  kDone = 0,
  kFailed = 1,      // the work was understood and did not succeed; a replay that ran out of memory
  kWrongUsage = 2,  // flags and arguments
  kBadInput = 3,    // files and settings
  kNoDevice = 4,
};

}  // namespace thermocline
