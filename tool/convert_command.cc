// SPDX-License-Identifier: Apache-2.0
// thermocline convert: converts a trace to another file format, chosen by the name of the new file.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <system_error>

#include "config/size.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/message.h"
#include "tool/output_file.h"
#include "tool/values.h"
#include "trace/convert.h"

namespace thermocline {
namespace {

struct Flags {
  std::string from, to;
};

std::string size_of(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? "" : human_bytes(bytes);
}

int convert(const Flags& flags) {
  std::size_t events = 0;
  TraceError error;
  std::vector<std::string> warnings;
  const RemovedOnSignal partial(EventFile::partial_path(flags.to));
  const bool converted = convert_trace(input_path(flags.from), flags.to, &events, &error, &warnings);
  for (const std::string& warning : warnings) say((flags.from + ": note: ").append(warning));
  if (!converted) {
    if (flags.to == "-" && reader_is_gone()) return kFailed;
    say_trace_error(error);
    return error.path == flags.to ? kFailed : kBadInput;
  }
  const std::string before = size_of(flags.from), after = size_of(flags.to);
  if (flags.to == "-") return kDone;
  say("wrote " + flags.to + ": " + std::to_string(events) + " lines" +
      (before.empty() || after.empty() ? "" : ", " + before + " have become " + after));
  return kDone;
}

}  // namespace

void add_convert(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("convert", "A trace in another form: packed, or JSON Lines");
  command->footer(
      "*.jsonl and *.jsonl.gz are JSON Lines (thermocline-trace/1), '-' prints them, any other name is packed.\n"
      "All commands read both, and what a recording that was killed has left.");
  command->add_option("IN", flags->from, "a trace, or what a killed recording has left ('-': stdin)")->required();
  command->add_option("OUT", flags->to, "the new file")->required();
  command->callback([=] { line->action = [flags] { return convert(*flags); }; });
}

}  // namespace thermocline
