// SPDX-License-Identifier: Apache-2.0
// thermocline convert: converts a trace to another file format, chosen by the name of the new file.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "config/size.h"
#include "driver/quantity.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/message.h"
#include "tool/output_file.h"
#include "tool/values.h"
#include "trace/convert.h"

namespace thermocline {
namespace {

struct ConvertFlags {
  std::string from, to;
  bool mark_slices = false;
};

std::string size_of(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? "" : human_bytes(bytes);
}

// The rules look at all of the trace before any of it is written.
int find_rules(const ConvertFlags& flags, std::optional<SliceRules>* out) {
  if (!flags.mark_slices) return kDone;
  if (flags.from == "-") {
    say("--mark-slices reads the trace twice, which '-' does not allow; give it a file");
    return kWrongUsage;
  }
  Trace trace;
  if (!read_trace_file(flags.from, &trace)) return kBadInput;
  out->emplace(trace);
  return kDone;
}

int convert(const ConvertFlags& flags) {
  std::optional<SliceRules> rules;
  if (const int status = find_rules(flags, &rules); status != kDone) return status;
  Converted done;
  TraceError error;
  std::vector<std::string> warnings;
  const RemovedOnSignal partial(EventFile::partial_path(flags.to));
  const bool converted =
      convert_trace(input_path(flags.from), flags.to, rules ? &*rules : nullptr, &done, &error, &warnings);
  for (const std::string& warning : warnings) say((flags.from + ": note: ").append(warning));
  if (!converted) {
    if (flags.to == "-" && reader_is_gone()) return kFailed;
    say_trace_error(error);
    return error.path == flags.to ? kFailed : kBadInput;
  }
  const std::string before = size_of(flags.from), after = size_of(flags.to);
  if (flags.to == "-") return kDone;
  say("wrote " + flags.to + ": " + quantity(done.events, "line") +
      (before.empty() || after.empty() ? "" : ", " + before + " have become " + after));
  if (flags.mark_slices && !rules->knows_batch()) {
    say("nothing was marked, because the header of the trace has no \"batch\" (the batch size, 1 or more)");
    return kDone;
  }
  if (flags.mark_slices) say("marked " + quantity(done.marked, "operator") + " that may be split");
  return kDone;
}

}  // namespace

void add_convert(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App* command = app.add_subcommand("convert", "A trace in another form: packed, or JSON Lines");
  command->footer(
      "*.jsonl and *.jsonl.gz are JSON Lines (thermocline-trace/1), '-' prints them, any other name is packed.\n"
      "All commands read both, and what a recording that was killed has left.");
  command->add_option("IN", flags->from, "a trace, or what a killed recording has left ('-': stdin)")->required();
  command->add_option("OUT", flags->to, "the new file")->required();
  command->add_flag("--mark-slices", flags->mark_slices,
                    "mark operators that may be split, where names, sizes and the batch size in the header prove it");
  command->callback([=] { line->action = [flags] { return convert(*flags); }; });
}

}  // namespace thermocline
