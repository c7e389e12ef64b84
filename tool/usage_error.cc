// SPDX-License-Identifier: Apache-2.0
#include "tool/usage_error.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "config/option_table.h"
#include "config/suggest.h"
#include "tool/exit_status.h"
#include "tool/message.h"

namespace thermocline {
namespace {

std::vector<std::string> long_flags(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

const CLI::App& deepest(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

// The first word that looks like a flag but is not a flag of the command; empty if there is none.
std::string unknown_flag(const std::vector<std::string_view>& known, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    std::string flag = word.substr(0, word.find('='));
    if (flag.starts_with("--") && std::ranges::find(known, flag) == known.end()) return flag;
  }
  return "";
}

// "thermocline config check"
std::string full_name(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent == nullptr ? "thermocline" : full_name(*parent) + " " + command.get_name();
}

// The first of `words`, after the command's name, that is neither a flag of the command nor a flag's value.
std::size_t first_external(const CLI::App& command, const std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string flag = words[i].substr(0, words[i].find('='));
    const CLI::Option* const option = flag.starts_with('-') ? command.get_option_no_throw(flag) : nullptr;
    if (option == nullptr) return i;
    if (option->get_items_expected_min() > 0 && flag == words[i]) ++i;
  }
  return words.size();
}

std::string joined(const std::vector<std::string>& words, std::size_t begin, std::size_t end) {
  std::string text;
  for (std::size_t i = begin; i < end; ++i) text += ' ' + shell_word(words[i]);
  return text;
}

// Messages about a number of values that does not suit the option. The parser writes "--steps: 1 required NUMBER
// missing", "--compare: At least 2 required but received 1" and "--steps: At Most 1 required but received 2".
std::string of_values(const std::string& text) {
  const std::size_t colon = text.find(": ");
  const std::size_t digits = text.find_first_of("0123456789", colon);
  if (colon == std::string::npos || digits == std::string::npos) return text;
  const std::string name = text.substr(0, colon);
  const int number = std::atoi(text.c_str() + digits);
  const bool is_most = text.find("At Most", colon) != std::string::npos;
  if (is_most) return name + (number == 1 ? " is given twice" : " takes at most " + std::to_string(number) + " values");
  return name + " needs " + (number == 1 ? "a value" : std::to_string(number) + " values or more");
}

// Messages about a missing or unknown subcommand of a command.
std::string of_inner_command(const CLI::App& command, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  std::string list;
  for (const CLI::App* const inner : command.get_subcommands(nullptr)) {
    names.push_back(inner->get_name());
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::size_t own = command.get_parent() == nullptr ? 0 : 1;
  if (words.size() <= own || words[own].starts_with('-')) return "a command is missing; known are " + list;
  return "unknown command '" + words[own] + "'" + did_you_mean(nearest_name(words[own], known)) + "; known are " + list;
}

// For commands that run a program: "--recompute" may mean the setting of that name, which has no flag there.
std::string setting_of(const CLI::App& command, std::string flag) {
  std::ranges::replace(flag, '-', '_');
  const Option* const option = find_option(flag.substr(2));
  if (option == nullptr || !takes_program(command.get_name())) return "";
  return std::string("; that is a setting: write ") + option->variable + "=VALUE in front of the command, or '" +
         option->key + "' in the settings file";
}

// Empty if every flag is known.
std::string of_unknown_flag(const CLI::App& command, const std::vector<std::string>& words) {
  const std::vector<std::string> flags = long_flags(command);
  const std::vector<std::string_view> known(flags.begin(), flags.end());
  const std::string flag = unknown_flag(known, words);
  if (flag.empty()) return "";
  const std::string nearest = nearest_name(flag, known), setting = nearest.empty() ? setting_of(command, flag) : "";
  return "unknown flag '" + flag + "'" + (setting.empty() ? did_you_mean(nearest) : setting);
}

bool is_unit(std::string word) {
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "%" || word == "b") return true;
  return !word.empty() && std::string_view("kmgt").find(word[0]) != std::string_view::npos &&
         (word.size() == 1 || word.substr(1) == "b" || word.substr(1) == "i" || word.substr(1) == "ib");
}

// A value that was written as two words: "--budget 12 GB", "--stats json". Empty if there is none.
std::string of_split_value(const CLI::App& command, const std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& before = words[i - 1];
    const bool is_number = !before.empty() && before.find_first_not_of("0123456789.") == std::string::npos;
    if (is_number && is_unit(words[i]))
      return std::string("'").append(before).append(" ").append(words[i]).append("' is one value: write ") + before +
             words[i];
    // A flag that may be without a value takes one behind '=' only.
    constexpr std::array<std::string_view, 4> kStats = {"off", "table", "line", "json"};
    if (before == "--stats" && takes_program(command.get_name()) && std::ranges::find(kStats, words[i]) != kStats.end())
      return "the value goes behind '=': --stats=" + words[i];
  }
  return "";
}

std::string in_our_words(const CLI::App& command, const CLI::ParseError& error, const std::vector<std::string>& words) {
  std::string text = error.what();
  std::ranges::replace(text, '\n', ' ');
  const bool is_extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool needs_command =
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !command.get_subcommands(nullptr).empty();
  if (is_extra || needs_command) {
    if (std::string flag = of_unknown_flag(command, words); !flag.empty()) return flag;
  }
  if (needs_command) return of_inner_command(command, words);
  if (is_extra) return "not expected: " + text.substr(text.find(": ") + 2);
  if (text == "--output is required" && command.get_name() == "record")
    return "-o TRACE is required: thermocline record -o step.trace -- PROGRAM";
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) return of_values(text);
  return text;
}

}  // namespace

bool takes_program(const std::string& command) {
  return command == "run" || command == "record" || command == "kernels";
}

int usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words,
                const CommandLine& line) {
  const CLI::App& command = deepest(app);
  const std::string help = " ('" + full_name(command) + " --help' shows the usage)";
  const bool is_extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (const std::string split = is_extra ? of_split_value(command, words) : ""; !split.empty()) {
    say(split + help);
    return kWrongUsage;
  }
  if (is_extra && takes_program(command.get_name()) && !line.has_program) {
    // Everything from the program's name on is not parsed.
    const std::size_t at = first_external(command, words);
    say("the program goes behind '--': thermocline" + joined(words, 0, at) + " --" + joined(words, at, words.size()));
    return kWrongUsage;
  }
  say(in_our_words(command, error, words) + help);
  return kWrongUsage;
}

}  // namespace thermocline
