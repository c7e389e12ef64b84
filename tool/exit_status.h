// SPDX-License-Identifier: Apache-2.0
// The command's exit statuses. `run` returns its program's exit status instead.
#pragma once

namespace thermocline {

enum ExitStatus : int {
  kDone = 0,
  kFailed = 1,      // valid request that did not succeed; for example, a replay ran out of memory
  kWrongUsage = 2,  // wrong flags or arguments
  kBadInput = 3,    // wrong files or settings
  kNoDevice = 4,
};

}  // namespace thermocline
