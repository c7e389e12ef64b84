// SPDX-License-Identifier: Apache-2.0
// Of the register (assumptions.h), what a device can be asked in a second, without a kernel: for doctor and ./dev gpu,
// which want answers, where an engine (probes.h) wants to go on.
#pragma once

#include <string>
#include <vector>

#include "driver/library.h"
#include "driver/probes.h"

namespace thermocline {

struct Answer {
  const char* assumption;  // its id
  Finding finding;
  std::string detail;  // what was seen; may be empty
};

// Makes the device's primary context current on this thread, which takes memory of it while the process lives. Empty
// where that can not be; then `why` says so.
std::vector<Answer> examine(const DriverLibrary& library, int ordinal, std::string* why);

}  // namespace thermocline
