// SPDX-License-Identifier: Apache-2.0
// thermocline config: shows the effective settings and their sources, checks a settings file, and lists all settings.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

#include "config/load.h"
#include "config/option_table.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/json_text.h"
#include "tool/message.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

// In TOML syntax.
std::string toml_text(const Option& option, const std::string& text) {
  return option.type == OptionType::kBool ? text : "\"" + text + "\"";
}

void print_text(const LoadedSettings& loaded, bool sources) {
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    const Option& option = option_table()[i];
    const std::string text = value_text(option, loaded.settings);
    // TOML has no value for "unset": the key is left out.
    const std::string line =
        text.empty() ? "# " + std::string(option.key) + " is unset" : option.key + (" = " + toml_text(option, text));
    if (sources) {
      std::printf("%-36s# %s\n", line.c_str(), loaded.origins[i].c_str());
    } else {
      std::puts(line.c_str());
    }
  }
}

void print_json(const LoadedSettings& loaded) {
  ordered_json out = {
      {"schema", "thermocline-config/1"}, {"files", loaded.files}, {"settings", ordered_json::object()}};
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    const Option& option = option_table()[i];
    const std::string text = value_text(option, loaded.settings);
    ordered_json value = text;
    if (text.empty()) value = nullptr;
    if (option.type == OptionType::kBool) value = text == "true";
    out["settings"][option.key] = {{"value", value}, {"source", loaded.origins[i]}, {"variable", option.variable}};
  }
  std::puts(json_text(out).c_str());
}

int show(bool sources, bool json) {
  const Surroundings surroundings = Surroundings::of_process();
  const LoadedSettings loaded = load_settings(surroundings);
  say_all(loaded);
  if (json) {
    print_json(loaded);
  } else {
    if (sources) {
      for (const std::string& file : settings_files(surroundings)) {
        const bool was_read = std::ranges::find(loaded.files, file) != loaded.files.end();
        std::printf("# %s%s\n", file.c_str(), was_read ? "" : " (not there)");
      }
    }
    print_text(loaded, sources);
  }
  return loaded.problems.empty() ? kDone : kBadInput;
}

int check(const std::string& path) {
  LoadedSettings loaded = default_loaded_settings();
  load_settings_file(path, &loaded);
  say_all(loaded);
  if (!loaded.problems.empty()) return kBadInput;
  std::puts((path + ": good").c_str());
  return kDone;
}

// The JSON Schema of the option's TOML values.
ordered_json schema_of(const Option& option) {
  static const char* const kSize = R"(^ *[0-9]+(\.[0-9]+)? *([bB]|[kKmMgGtT][iI]?[bB]?)? *$)";
  static const char* const kPercent = R"(^ *[0-9]+(\.[0-9]+)? *% *$)";
  const ordered_json bytes = {{"type", "integer"}, {"minimum", 1}};
  const ordered_json size = {{"type", "string"}, {"pattern", kSize}};
  const ordered_json percent = {{"type", "string"}, {"pattern", kPercent}};
  ordered_json out = {{"description", option.doc}};
  if (*option.default_text != '\0') {
    out["default"] = option.type == OptionType::kBool ? ordered_json(std::string(option.default_text) == "true")
                                                      : ordered_json(option.default_text);
  }
  switch (option.type) {
    case OptionType::kSize:
      out["anyOf"] = {bytes, size};
      break;
    case OptionType::kSizeOrPercent:
      out["anyOf"] = {bytes, size, percent};
      break;
    case OptionType::kBudget:
      out["anyOf"] = {bytes, size, percent, {{"const", "shared"}}};
      break;
    case OptionType::kNumber:
      out["anyOf"] = {{{"type", "integer"}, {"minimum", 1}, {"maximum", 10000}},
                      {{"type", "string"}, {"pattern", "^[0-9]+$"}}};
      break;
    case OptionType::kPercent:
      out.update(percent);
      break;
    case OptionType::kBool:
      out["type"] = "boolean";
      break;
    case OptionType::kDuration:
    case OptionType::kSlice:
      out["type"] = "string";
      out["pattern"] = R"(^ *(off|0|[0-9]+ *(ms|s|min|h)) *$)";
      break;
    case OptionType::kOperators:
      out["type"] = "string";
      break;
    case OptionType::kFolder:
      out["type"] = "string";
      out["pattern"] = "^(/.*)?$";
      break;
    case OptionType::kChoice:
      out["enum"] = ordered_json::array();
      for (const Choice& choice : option.choices) {
        out["enum"].push_back(choice.name);
      }
      break;
  }
  return out;
}

int schema() {
  ordered_json out = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                      {"schema", "thermocline-config-schema/1"},
                      {"title", "thermocline.toml"},
                      {"type", "object"},
                      {"additionalProperties", false},
                      {"properties", ordered_json::object()}};
  for (const Option& option : option_table()) out["properties"][option.key] = schema_of(option);
  std::puts(json_text(out, 2).c_str());
  return kDone;
}

}  // namespace

void add_config(CLI::App& app, CommandLine* line) {
  CLI::App* command =
      app.add_subcommand("config", "Settings: what is in force, whether a file is right, what may stand in one");
  command->require_subcommand(1);

  auto sources = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  CLI::App* show_command = command->add_subcommand("show", "The effective settings, as TOML");
  show_command->add_flag("--sources", *sources, "and where each comes from");
  show_command->add_flag("--json", *json, "one JSON object on stdout");
  show_command->callback([=] { line->action = [sources, json] { return show(*sources, *json); }; });

  auto path = std::make_shared<std::string>();
  CLI::App* check_command = command->add_subcommand("check", "Whether a settings file is right");
  check_command->add_option("FILE", *path, "a thermocline.toml")->required();
  check_command->callback([=] { line->action = [path] { return check(*path); }; });

  CLI::App* schema_command = command->add_subcommand("schema", "A JSON Schema of the settings file, for editors");
  schema_command->callback([=] { line->action = schema; });
}

}  // namespace thermocline
