// SPDX-License-Identifier: Apache-2.0
// Settings that make a framework allocate each tensor from the driver, so that the library sees it, instead of taking
// it from a large buffer of the framework's own, which can only be evicted as a whole (docs/frameworks.md lists the
// cost of each setting). `run` sets them unless the environment or the setting `frameworks` says otherwise.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace thermocline {

struct FrameworkSetting {
  const char* framework;
  const char* variable;
  const char* value;
  // If the user has set one of these, the user has chosen an allocator.
  std::vector<const char*> others = {};
  const char* price = "";  // features that no longer work with the setting
};

const std::vector<FrameworkSetting>& framework_settings();

// The variable by which the user has already decided, this one or another; null: none.
const char* users_own(const FrameworkSetting& setting);

// Adds the settings that the environment leaves open, and prints one line about them, if the program is one in which
// frameworks are used: Python, or a script.
void apply_frameworks(const std::string& program, std::map<std::string, std::string>* changes);

bool is_python_or_script(const std::string& program);

// For a name without a folder: the file found along PATH, or the name itself if there is none.
std::string found_along_path(const std::string& program);

}  // namespace thermocline
