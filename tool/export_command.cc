// SPDX-License-Identifier: Apache-2.0
// thermocline export: writes what happens in a replay in formats of other programs.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <string_view>

#include "config/suggest.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/export_formats.h"
#include "tool/message.h"

namespace thermocline {
namespace {

struct Format {
  std::string_view name;
  void (*write)(const TimelineReplay&, OutputFile&);
  const char* seen_with;
};

constexpr Format kFormats[] = {
    {"perfetto", &export_perfetto, "open it with https://ui.perfetto.dev"},
    {"memory_viz", &export_memory_viz, "open it with https://pytorch.org/memory_viz"},
    {"memory-viz", &export_memory_viz, "open it with https://pytorch.org/memory_viz"},
    {"csv", &export_csv, "times are microseconds on the device"},
};

int export_trace(const TimelineFlags& flags, const std::string& format, const std::string& output) {
  const Format* const found = std::ranges::find(kFormats, format, &Format::name);
  if (found == std::end(kFormats)) {
    constexpr std::string_view kKnown[] = {"perfetto", "memory_viz", "csv"};
    say("--format: unknown format '" + format + "'" + did_you_mean(nearest_name(format, kKnown)) +
        "; known are perfetto, memory_viz, csv");
    return kWrongUsage;
  }
  const std::unique_ptr<OutputFile> out = OutputFile::open(output);
  if (!out) return kFailed;
  TimelineReplay replayed;
  if (const int status = replay_timeline_of(flags, flags.trace, &replayed); status != kDone) return status;
  found->write(replayed, *out);
  if (!out->finish()) return kFailed;
  if (output != "-") say("wrote " + output + ", budget " + replayed.budget_text + "; " + found->seen_with);
  return kDone;
}

}  // namespace

void add_export(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<TimelineFlags>();
  auto format = std::make_shared<std::string>();
  auto output = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("export", "Replay a recorded program and write what happens, for other viewers");
  add_timeline_flags(command, flags.get());
  command->add_option("--format", *format, "perfetto, memory_viz or csv")->required();
  command->add_option("-o,--output", *output, "the file to write ('-': stdout)")->required();
  command->callback([=] { line->action = [=] { return export_trace(*flags, *format, *output); }; });
}

}  // namespace thermocline
