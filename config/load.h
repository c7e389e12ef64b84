// SPDX-License-Identifier: Apache-2.0
// Collects the settings from everywhere. Later sources win: defaults, system file, user file, ./thermocline.toml, the
// file named by THERMOCLINE_CONFIG, THERMOCLINE_* variables. Flags of the tool travel as variables. A value that is
// wrong is reported and leaves what an earlier source gave. Nothing here throws.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/problem.h"
#include "config/settings.h"

namespace thermocline {

// Where to look; tests bring their own. An empty path is not looked at.
struct Surroundings {
  std::map<std::string, std::string> variables;
  std::string system_file = "/etc/thermocline/config.toml";
  std::string project_file = "thermocline.toml";

  // Of a privileged program the system file alone: whoever starts it rules the rest.
  static Surroundings of_process();
  static Surroundings of_process(bool is_privileged);
};

struct LoadedSettings {
  Settings settings;
  std::vector<std::string> origins;  // by index in the option table: "default", "FILE:LINE" or the variable's name
  std::vector<Problem> problems;
  std::vector<std::string> files;  // those that were read, in order
};

LoadedSettings load_settings(const Surroundings& surroundings) noexcept;

// One file alone, as `config check` does. Its values are applied to `loaded`.
void load_settings_file(const std::string& path, LoadedSettings* loaded) noexcept;

LoadedSettings default_loaded_settings();

// The files that would be read, existing or not, in order.
std::vector<std::string> settings_files(const Surroundings& surroundings);

}  // namespace thermocline
