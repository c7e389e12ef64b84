// SPDX-License-Identifier: Apache-2.0
// Running rules, each in a process of its own: a rule may break its context, end its process or hang, and the next one
// meets a driver that nobody has called yet. The calling process must have one thread and never loads the driver.
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
  std::vector<std::string> answers;  // what was answered where several answers are allowed
};

Result run(const Rule& rule, const std::string& library);

// What the driver says of itself and of device 0. On failure `why` says what is missing, and nothing else is meant.
struct DeviceFacts {
  std::string why;
  std::string name;
  int driver_version = 0;
  int compute_capability = 0;
};
DeviceFacts describe_device(const std::string& library);

}  // namespace conformance
