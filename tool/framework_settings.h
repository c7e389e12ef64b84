// SPDX-License-Identifier: Apache-2.0
// What makes each tensor of a framework an allocation of the driver's, which the library sees, in place of a part of a
// large buffer of the framework's own, which leaves the device as a whole or not at all (docs/frameworks.md says what
// each setting costs). `run` sets it where neither the environment nor the setting `frameworks` says otherwise.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace thermocline {

struct FrameworkSetting {
  const char* framework;
  const char* variable;
  const char* value;
  // Whoever has set one of these has chosen an allocator.
  std::vector<const char*> others = {};
  const char* price = "";  // what no longer works then
};

const std::vector<FrameworkSetting>& framework_settings();

// The variable by which the user has spoken, this one or another; null: none.
const char* users_own(const FrameworkSetting& setting);

// Adds what the environment leaves open, and says in one line what that is, where the program is one in which
// frameworks are used: Python, or a script.
void apply_frameworks(const std::string& program, std::map<std::string, std::string>* changes);

bool is_python_or_script(const std::string& program);

// Of names without a folder the file that PATH leads to; itself where there is none.
std::string found_along_path(const std::string& program);

}  // namespace thermocline
