// SPDX-License-Identifier: Apache-2.0
// The `thermocline` command. Results go to stdout; progress, notices and errors to stderr. Exit statuses:
// tool/exit_status.h.
#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string_view>

#include "config/suggest.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/framework_settings.h"
#include "tool/help.h"
#include "tool/message.h"
#include "tool/output_file.h"
#include "tool/usage_error.h"

namespace thermocline {
namespace {

constexpr const char* kFooter =
    "Exit status: run gives the program's own (128 + signal where one ended it); else 0 done, 1 failed, 2 wrong usage, "
    "3 bad\n"
    "input, 4 no device.\n"
    "Settings: thermocline config show --sources";

// Includes the words of in_our_words.
std::vector<std::string_view> command_names(const CLI::App& app, std::vector<std::string>* storage) {
  storage->assign({"help", "version"});
  for (const CLI::App* command : app.get_subcommands(nullptr)) storage->push_back(command->get_name());
  return {storage->begin(), storage->end()};
}

bool is_command(const CLI::App& app, const std::string& word) {
  return std::ranges::any_of(app.get_subcommands(nullptr),
                             [&word](const CLI::App* command) { return command->get_name() == word; });
}

// Translates words that are common in other commands (`help [COMMAND]`, `version`, `-V`) to this command's own.
std::vector<std::string> in_our_words(std::vector<std::string> words) {
  if (words.empty()) return words;
  if (words.front() == "version" || words.front() == "-V") words.front() = "--version";
  if (words.front() != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

// Whether a word that is not a command is a path, or a file that can be executed.
bool is_program(const std::string& word) {
  return word.find('/') != std::string::npos || access(found_along_path(word).c_str(), X_OK) == 0;
}

// Suggests "thermocline run --budget 60% -- ./program" if the command is missing.
int missing_run(const std::string& what, const std::vector<std::string>& flags,
                const std::vector<std::string>& program) {
  std::string text = what + "; a program is run by: thermocline run";
  for (const std::string& word : flags) text += ' ' + shell_word(word);
  text += " --";
  for (const std::string& word : program) text += ' ' + shell_word(word);
  say(text);
  return kWrongUsage;
}

// The first word decides; a word that is no subcommand is never taken for a program to run.
int check_first_word(const CLI::App& app, const std::vector<std::string>& words, const CommandLine& line) {
  const bool has_command = !words.empty() && !words.front().starts_with('-');
  if (line.has_program && !has_command) return missing_run("a command is missing", words, line.program);
  if (words.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return kWrongUsage;
  }
  const std::string& word = words.front();
  if (word.starts_with('-') || is_command(app, word)) return kDone;
  std::vector<std::string> storage;
  const std::vector<std::string_view> names = command_names(app, &storage);
  const std::string unknown = "unknown command '" + word + "'";
  if (nearest_name(word, names).empty() && is_program(word)) return missing_run(unknown, {}, words);
  say(unknown + did_you_mean(nearest_name(word, names)) + " ('thermocline --help' lists them)");
  return kWrongUsage;
}

constexpr int kReaderGone = 128 + SIGPIPE;

// Reports an error if not all output could be written (full disk), so that a part of it is not taken for the whole.
int with_whole_output(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  // The reader has closed the pipe (`| head`); the status is that of a program ended by SIGPIPE.
  if (reader_is_gone()) return kReaderGone;
  say(std::string("stdout: can not be written: ") + std::strerror(errno));
  return status == kDone ? kFailed : status;
}

// In the order in which a user comes to need them.
void group_commands(CLI::App* app) {
  const std::pair<const char*, std::vector<const char*>> groups[] = {
      {"Programs", {"run", "record", "kernels", "stats", "sleep", "wake"}},
      {"Recorded programs", {"estimate", "replay", "plan", "bound", "tune", "report", "export", "compare", "convert"}},
      {"This machine", {"devices", "doctor", "config", "manual"}}};
  for (const auto& [group, names] : groups) {
    for (const char* const name : names) app->get_subcommand(name)->group(group);
  }
}

// A file that is opened in the place of a closed stdout or stderr would receive the output. The placeholders cannot be
// written, so output that goes nowhere stays an error, and a program that is run does not inherit them.
void occupy_closed_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  }
}

int run_command_line(int argc, char** argv) {
  CLI::App app("Gives unmodified CUDA programs more memory than their GPU has.", "thermocline");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("-V,--version", std::string("thermocline ") + THERMOCLINE_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  CommandLine line;
  for (const auto add :
       {add_run, add_record, add_stats, add_sleep, add_wake, add_estimate, add_replay, add_plan, add_bound, add_tune,
        add_report, add_export, add_compare, add_convert, add_devices, add_doctor, add_config, add_kernels, add_manual})
    add(app, &line);
  group_commands(&app);

  std::vector<std::string> words = in_our_words({argv + 1, argv + argc});
  // Everything after `--` belongs to another program and is not parsed.
  if (const auto dashes = std::ranges::find(words, "--"); dashes != words.end()) {
    line.has_program = true;
    line.program.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  if (const int status = check_first_word(app, words, line); status != kDone) return status;
  if (line.has_program && !takes_program(words.front()) && words.front() != "doctor") {
    say("'" + words.front() + "' takes no program behind '--'");
    return kWrongUsage;
  }
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::Success& success) {
    return with_whole_output(app.exit(success));
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error, words, line);
  }
  // A file that is to be written gets written even if the reader of stdout has gone. A program that is run keeps the
  // default behavior.
  if (!takes_program(words.front())) std::signal(SIGPIPE, SIG_IGN);
  return with_whole_output(line.action());
}

}  // namespace
}  // namespace thermocline

int main(int argc, char** argv) {
  try {
    thermocline::occupy_closed_streams();
    return thermocline::run_command_line(argc, argv);
  } catch (const std::exception& error) {
    thermocline::say(std::string("failed: ") + error.what());
    return thermocline::kFailed;
  }
}
