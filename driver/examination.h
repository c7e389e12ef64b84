// SPDX-License-Identifier: Apache-2.0
// Checks the assumptions (assumptions.h) that a device can answer within a second and without launching a kernel, for
// doctor and ./dev gpu. Includes the probes of engines (probes.h).
#pragma once

#include <string>
#include <vector>

#include "driver/library.h"
#include "driver/probes.h"

namespace thermocline {

struct Answer {
  const char* assumption;  // its id
  Finding finding;
  std::string detail;  // the observation; may be empty
};

// Makes the device's primary context current on this thread; it takes device memory until the process ends. Returns
// nothing on failure and sets `why`.
std::vector<Answer> examine(const DriverLibrary& library, int ordinal, std::string* why);

}  // namespace thermocline
