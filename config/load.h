// SPDX-License-Identifier: Apache-2.0
// Collects the settings from all sources. Later sources win: defaults, system file, user file, ./thermocline.toml, the
// file named by THERMOCLINE_CONFIG, THERMOCLINE_* variables. Flags of the tool are passed as variables. A wrong value
// is reported, and the value of an earlier source stays. Nothing here throws.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/problem.h"
#include "config/settings.h"

namespace thermocline {

// Where to look for settings; tests provide their own. An empty path is skipped.
struct Surroundings {
  std::map<std::string, std::string> variables;
  std::string system_file = "/etc/thermocline/config.toml";
  std::string project_file = "thermocline.toml";

  // For a privileged program: only the system file, because the user who starts it controls all other sources.
  static Surroundings of_process();
  static Surroundings of_process(bool is_privileged);
};

struct LoadedSettings {
  Settings settings;
  std::vector<std::string> origins;  // by index in the option table: "default", "FILE:LINE" or the variable's name
  std::vector<Problem> problems;
  std::vector<Problem> notes;      // about values that were accepted but are hardly intended
  std::vector<std::string> files;  // the files that were read, in order
};

LoadedSettings load_settings(const Surroundings& surroundings) noexcept;

// Reads one file only, as `config check` does, and applies its values to `loaded`.
void load_settings_file(const std::string& path, LoadedSettings* loaded) noexcept;

LoadedSettings default_loaded_settings();

// The files that would be read, in order, whether or not they exist.
std::vector<std::string> settings_files(const Surroundings& surroundings);

}  // namespace thermocline
