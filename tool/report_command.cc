// SPDX-License-Identifier: Apache-2.0
// thermocline report: a replay as one self-contained HTML page. The page's own files are in tool/report/ and are built
// into the command.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string_view>

#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/message.h"
#include "tool/number_option.h"
#include "tool/output_file.h"
#include "tool/replay_options.h"
#include "tool/report_data.h"
#include "tool/values.h"
#include "trace/bounds.h"

namespace thermocline {

namespace embedded {
extern const char* const page_html;
extern const char* const report_css;
extern const char* const report_js;
extern const char* const page_js;
}  // namespace embedded

namespace {

struct ReportFlags {
  TimelineFlags timeline;
  std::optional<std::string> against;
  std::string output = "thermocline-report.html";
  std::size_t show = 2;
};

int look_at(const ReportFlags& flags, const std::string& path, ReportedRun* run) {
  if (const int status = replay_timeline_of(flags.timeline, path, &run->replayed); status != kDone) return status;
  run->shown_steps = flags.show;
  const TimelineReplay& replayed = run->replayed;
  const SteadySteps steady{learned_after_steps(replayed.timeline.result.steps), replayed.steps_repeat};
  run->step_ms = steady.ms(replayed.timeline.result.steps);
  ReplayResult unlimited;
  std::string reason;
  Progress progress("replaying with unlimited memory");
  ReplayOptions options = unlimited_options(replayed.options, replayed.unsplit());
  options.progress = [&](std::size_t step) { progress.show(step, replayed.program.steps); };
  if (!replay(replayed.unsplit(), replayed.unsplit_program(), options, &unlimited, &reason)) {
    say(path + ": " + reason);
    return kFailed;
  }
  run->compute_ms = steady.ms(unlimited.steps);
  const SwapBounds bounds(replayed.trace, rates_of(*replayed.profile));
  if (bounds.repeats()) {
    if (const Bounds b = bounds.under(replayed.budget); b.is_feasible) run->bound_ms = b.bound_ms;
  }
  return kDone;
}

// In a script element, "</script>" and comments must not occur, so '<' is written as an escape sequence of JSON.
std::string harmless(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '<' ? std::string("&lt;") : c == '&' ? std::string("&amp;") : std::string(1, c);
  return out;
}

void write_page(const std::string& title, const std::string& data, OutputFile& out) {
  const std::string script = std::string(embedded::report_js) + embedded::page_js;
  std::string_view page = embedded::page_html;
  const std::pair<std::string_view, std::string> parts[] = {
      {"@TITLE@", escaped(title)}, {"@STYLE@", embedded::report_css}, {"@DATA@", harmless(data)}, {"@SCRIPT@", script}};
  for (const auto& [mark, text] : parts) {
    const std::size_t at = page.find(mark);
    out.write(page.substr(0, at));
    out.write(text);
    page.remove_prefix(at + mark.size());
  }
  out.write(page);
}

int report(const ReportFlags& flags) {
  const std::unique_ptr<OutputFile> out = OutputFile::open(flags.output);
  if (!out) return kFailed;
  ReportedRun run;
  if (const int status = look_at(flags, flags.timeline.trace, &run); status != kDone) return status;
  const std::string title = "thermocline: " + run.replayed.trace.path;
  std::string data = R"({"schema":"thermocline-report/1","version":")" THERMOCLINE_VERSION R"(","runs":[)";
  data += report_json(run);
  if (flags.against) {
    ReportedRun other;
    if (const int status = look_at(flags, *flags.against, &other); status != kDone) return status;
    data += "," + report_json(other);
  }
  data += "]}";
  write_page(title, data, *out);
  if (!out->finish()) return kFailed;
  if (flags.output != "-")
    say("wrote " + flags.output + ", budget " + run.replayed.budget_text + "; open it with a browser");
  return kDone;
}

}  // namespace

void add_report(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command =
      app.add_subcommand("report", "Replay a recorded program and write a page that shows what happens");
  add_timeline_flags(command, &flags->timeline);
  command->add_option("--against", flags->against, "another recorded program, to show what differs");
  add_number(command, "--show", flags->show, kKeptStepCounts, "how many of the last steps are drawn (default: 2)");
  command->add_option("-o,--output", flags->output,
                      "the file to write (default: thermocline-report.html; '-': stdout)");
  command->callback([=] { line->action = [flags] { return report(*flags); }; });
}

}  // namespace thermocline
