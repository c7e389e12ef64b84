// SPDX-License-Identifier: Apache-2.0
// The `thermocline` command. People read stderr, programs read stdout. Exit statuses: tool/exit_status.h.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>

#include "config/suggest.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/message.h"

namespace thermocline {
namespace {

constexpr const char* kFooter =
    "Exit status: run gives the program's own (128 + signal where one ended it); else 0 done, 1 failed, 2 wrong usage, "
    "3 bad\n"
    "input, 4 no device.\n"
    "Settings: thermocline config show --sources";

std::vector<std::string_view> command_names(const CLI::App& app, std::vector<std::string>* storage) {
  for (const CLI::App* command : app.get_subcommands(nullptr)) storage->push_back(command->get_name());
  return {storage->begin(), storage->end()};
}

// The first word decides; a word that is no command is never taken for a program.
int check_first_word(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return kWrongUsage;
  }
  const std::string& word = words.front();
  if (word.starts_with('-')) return kDone;
  std::vector<std::string> storage;
  const std::vector<std::string_view> names = command_names(app, &storage);
  if (std::ranges::find(names, word) != names.end()) return kDone;
  say("unknown command '" + word + "'" + did_you_mean(nearest_name(word, names)) +
      " ('thermocline --help' lists them)");
  return kWrongUsage;
}

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

// The first word that looks like a flag and is none of the command's; "" where there is none.
std::string unknown_flag(const std::vector<std::string_view>& known, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    std::string flag = word.substr(0, word.find('='));
    if (flag.starts_with("--") && std::ranges::find(known, flag) == known.end()) return flag;
  }
  return "";
}

int usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const CLI::App& command = deepest(app);
  std::string text = error.what();
  std::ranges::replace(text, '\n', ' ');
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> flags = long_flags(command);
    const std::vector<std::string_view> known(flags.begin(), flags.end());
    const std::string flag = unknown_flag(known, words);
    if (!flag.empty()) text = "unknown flag '" + flag + "'" + did_you_mean(nearest_name(flag, known));
  }
  const std::string name = command.get_parent() == nullptr ? "thermocline" : "thermocline " + command.get_name();
  say(text + " ('" + name + " --help' shows the usage)");
  return kWrongUsage;
}

// Who reads stdout must not take a part of it for all: a disk may be full.
int with_whole_output(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  say(std::string("stdout: can not be written: ") + std::strerror(errno));
  return status == kDone ? kFailed : status;
}

int run_command_line(int argc, char** argv) {
  CLI::App app("GPU memory that sinks what is cold: runs CUDA programs past the size of their device.", "thermocline");
  app.set_version_flag("--version", std::string("thermocline ") + THERMOCLINE_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  CommandLine line;
  for (const auto add : {add_run, add_record, add_convert, add_replay, add_bound, add_estimate, add_tune, add_report,
                         add_export, add_compare, add_config, add_doctor, add_devices, add_stats, add_manual})
    add(app, &line);

  std::vector<std::string> words(argv + 1, argv + argc);
  // What is behind `--` is another program's, and no parser of ours looks at it.
  if (const auto dashes = std::ranges::find(words, "--"); dashes != words.end()) {
    line.has_program = true;
    line.program.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  if (const int status = check_first_word(app, words); status != kDone) return status;
  if (line.has_program && words.front() != "run" && words.front() != "record" && words.front() != "doctor") {
    say("'" + words.front() + "' takes no program behind '--'");
    return kWrongUsage;
  }
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error, words);
  }
  return with_whole_output(line.action());
}

}  // namespace
}  // namespace thermocline

int main(int argc, char** argv) {
  try {
    return thermocline::run_command_line(argc, argv);
  } catch (const std::exception& error) {
    thermocline::say(std::string("failed: ") + error.what());
    return thermocline::kFailed;
  }
}
