// SPDX-License-Identifier: Apache-2.0
// Runs rules, each in a process of its own: a rule may break its context, end its process or hang, and the next rule
// gets a driver that has not been called yet. The calling process must be single-threaded and never loads the driver.
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/rule.h"

namespace conformance {

enum class Outcome { kAgrees, kDisagrees, kNotSupported };

const char* name_of(Outcome outcome);  // agrees, disagrees, not supported

struct Result {
  Outcome outcome = Outcome::kDisagrees;
  std::string detail;                // why not, else empty
  std::vector<std::string> answers;  // the results of checks that allow several
};

Result run(const Rule& rule, const std::string& library);

// The driver's facts about itself and about device 0. On failure `why` says what is missing, and the rest is
// undefined.
struct DeviceFacts {
  std::string why;
  std::string name;
  int driver_version = 0;
  int compute_capability = 0;
};
DeviceFacts describe_device(const std::string& library);

}  // namespace conformance
