// SPDX-License-Identifier: Apache-2.0
#include "config/load.h"

#include <algorithm>
#include <exception>
#include <string_view>

#include "config/option_table.h"
#include "config/suggest.h"
#include "config/toml_file.h"
#include "config/trusted_file.h"

extern char** environ;

namespace thermocline {
namespace {

constexpr std::string_view kPrefix = "THERMOCLINE_";
constexpr std::string_view kFileVariable = "THERMOCLINE_CONFIG";

// Variables of this project that are not settings of the library: names of files, the simulated device, the build.
constexpr std::string_view kOtherVariables[] = {kFileVariable,         "THERMOCLINE_BUILD_CACHE",
                                                "THERMOCLINE_RECORD",  "THERMOCLINE_RECORD_LIMIT",
                                                "THERMOCLINE_KERNELS", kHostGroupVariable};
constexpr std::string_view kOtherPrefixes[] = {"THERMOCLINE_SIMULATE_", "THERMOCLINE_TEST_"};

bool is_other_variable(std::string_view name) {
  return std::ranges::find(kOtherVariables, name) != std::end(kOtherVariables) ||
         std::ranges::any_of(kOtherPrefixes, [name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::size_t index_of(const Option& option) { return static_cast<std::size_t>(&option - option_table().data()); }

void apply(const Option& option, std::string_view text, const std::string& origin, Problem place,
           LoadedSettings* loaded) {
  Value value;
  ParseError error;
  if (!parse_value(option, text, &value, &error)) {
    place.key = option.key;
    place.message = std::string(option.key) + ": " + error.message;
    place.suggestion = error.suggestion;
    loaded->problems.push_back(std::move(place));
    return;
  }
  if (option.type == OptionType::kBudget || option.type == OptionType::kSizeOrPercent) {
    if (ParseError doubt = doubt_about_size(text); !doubt.message.empty()) {
      place.key = option.key;
      place.message = std::string(option.key) + ": " + doubt.message;
      place.suggestion = std::move(doubt.suggestion);
      loaded->notes.push_back(std::move(place));
    }
  }
  option.store(loaded->settings, value);
  loaded->origins[index_of(option)] = origin;
}

bool type_fits(const Option& option, const TomlEntry& entry) {
  switch (entry.kind) {
    case TomlEntry::Kind::kString:
      return option.type != OptionType::kBool;
    case TomlEntry::Kind::kInteger:
      return option.type == OptionType::kSize || option.type == OptionType::kSizeOrPercent ||
             option.type == OptionType::kBudget || option.type == OptionType::kNumber;
    case TomlEntry::Kind::kBool:
      return option.type == OptionType::kBool ||
             std::ranges::any_of(option.choices, [&entry](const Choice& c) { return entry.text == c.name; });
    case TomlEntry::Kind::kOther:
      break;
  }
  return false;
}

std::string description(const TomlEntry& entry) {
  switch (entry.kind) {
    case TomlEntry::Kind::kString:
      return "the string '" + entry.text + "'";
    case TomlEntry::Kind::kInteger:
      return "the number " + entry.text;
    case TomlEntry::Kind::kBool:
      return "'" + entry.text + "'";
    case TomlEntry::Kind::kOther:
      break;
  }
  return entry.text;
}

void apply_entry(const std::string& path, const TomlEntry& entry, LoadedSettings* loaded) {
  Problem place{.source = path, .line = entry.line, .column = entry.column, .key = entry.key};
  const Option* option = find_option(entry.key);
  if (option == nullptr) {
    std::vector<std::string_view> keys;
    for (const Option& known : option_table()) keys.emplace_back(known.key);
    place.message = "unknown key '" + entry.key + "'";
    // Every setting is a key of the top level, outside of any [table]: its last component is compared.
    place.suggestion = nearest_name(entry.key.substr(entry.key.rfind('.') + 1), keys);
    loaded->problems.push_back(std::move(place));
    return;
  }
  if (!type_fits(*option, entry)) {
    place.message = entry.key + ": expected " + expected_text(*option) + ", found " + description(entry);
    loaded->problems.push_back(std::move(place));
    return;
  }
  apply(*option, entry.text, path + ":" + std::to_string(entry.line), std::move(place), loaded);
}

TomlResult apply_file(const std::string& path, LoadedSettings* loaded) {
  std::vector<TomlEntry> entries;
  const TomlResult result = read_toml(path, &entries, &loaded->problems);
  if (result == TomlResult::kMissing) return result;
  loaded->files.push_back(path);
  for (const TomlEntry& entry : entries) apply_entry(path, entry, loaded);
  return result;
}

void apply_named_file(const std::string& path, const std::string& named_by, LoadedSettings* loaded) {
  if (apply_file(path, loaded) != TomlResult::kMissing) return;
  const std::string by = named_by.empty() ? "" : " (named by " + named_by + ")";
  loaded->problems.push_back({.source = path, .message = "there is no such settings file" + by});
}

void apply_variables(const std::map<std::string, std::string>& variables, LoadedSettings* loaded) {
  for (auto it = variables.lower_bound(std::string(kPrefix)); it != variables.end() && it->first.starts_with(kPrefix);
       ++it) {
    const auto& [name, text] = *it;
    if (const Option* option = find_option_by_variable(name)) {
      // An empty variable counts as unset, so that a script can undo a setting.
      if (!text.empty()) apply(*option, text, name, {.source = name}, loaded);
    } else if (!is_other_variable(name)) {
      std::vector<std::string_view> names{kFileVariable};
      for (const Option& known : option_table()) names.emplace_back(known.variable);
      loaded->problems.push_back(
          {.source = name, .message = "unknown variable", .suggestion = nearest_name(name, names)});
    }
  }
}

std::string variable(const Surroundings& surroundings, std::string_view name) {
  const auto it = surroundings.variables.find(std::string(name));
  return it == surroundings.variables.end() ? "" : it->second;
}

std::string user_file(const Surroundings& surroundings) {
  // The XDG Base Directory Specification says that a relative path must be ignored.
  if (const std::string base = variable(surroundings, "XDG_CONFIG_HOME"); base.starts_with('/'))
    return base + "/thermocline/config.toml";
  const std::string home = variable(surroundings, "HOME");
  return home.empty() ? "" : home + "/.config/thermocline/config.toml";
}

std::vector<std::string> implicit_files(const Surroundings& surroundings) {
  std::vector<std::string> files;
  for (const std::string& path : {surroundings.system_file, user_file(surroundings), surroundings.project_file}) {
    if (!path.empty()) files.push_back(path);
  }
  return files;
}

}  // namespace

Surroundings Surroundings::of_process() { return of_process(is_privileged_program()); }

Surroundings Surroundings::of_process(bool is_privileged) {
  Surroundings out;
  if (is_privileged) {
    out.project_file.clear();
    return out;
  }
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    // If a name occurs more than once, emplace keeps the first, which is the one that getenv finds.
    if (equals != std::string_view::npos) out.variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

LoadedSettings default_loaded_settings() {
  LoadedSettings loaded;
  loaded.settings = default_settings();
  loaded.origins.assign(option_table().size(), "default");
  return loaded;
}

std::vector<std::string> settings_files(const Surroundings& surroundings) {
  std::vector<std::string> files = implicit_files(surroundings);
  if (std::string named = variable(surroundings, kFileVariable); !named.empty()) files.push_back(std::move(named));
  return files;
}

LoadedSettings load_settings(const Surroundings& surroundings) noexcept {
  LoadedSettings loaded = default_loaded_settings();
  try {
    for (const std::string& path : implicit_files(surroundings)) apply_file(path, &loaded);
    if (const std::string named = variable(surroundings, kFileVariable); !named.empty()) {
      apply_named_file(named, std::string(kFileVariable), &loaded);
    }
    apply_variables(surroundings.variables, &loaded);
  } catch (const std::exception& error) {
    loaded = default_loaded_settings();
    loaded.problems.push_back({.source = "settings", .message = error.what()});
  }
  return loaded;
}

void load_settings_file(const std::string& path, LoadedSettings* loaded) noexcept {
  try {
    apply_named_file(path, "", loaded);
  } catch (const std::exception& error) {
    loaded->problems.push_back({.source = path, .message = error.what()});
  }
}

}  // namespace thermocline
