// SPDX-License-Identifier: Apache-2.0
// thermocline compare: compares the traces of one job's processes (ranks): whether they do the same, and how much
// memory they need together.
//
// Two traces do the same if their operators have, in order, the same names and operands of the same sizes. Times are
// the measured ones, else those of the device profile: of the last step, which is a steady one; where steps differ, the
// median of all but the first two, as in a replay.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "config/size.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/json_text.h"
#include "tool/message.h"
#include "tool/values.h"
#include "trace/replay.h"
#include "trace/steady_step.h"
#include "trace/step_plan.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

struct CompareFlags {
  std::vector<std::string> traces;
  std::string device = "reference";
  bool json = false;
};

// Facts about one trace; the trace itself may be large and is not kept in memory.
struct Facts {
  std::string path;
  std::size_t operators = 0, buffers = 0, steps = 0;
  std::size_t step_operators = 0;  // of the last step
  double step_ms = 0;
  bool steps_repeat = true;
  Bytes peak_live_bytes = 0;
  std::optional<std::size_t> differs_at;  // the first operator, from 0, that differs from the first trace
  std::string difference;
};

std::string text_of(const Trace& trace, const TraceOperator& o) {
  std::string text = trace.names[o.name];
  for (const std::uint32_t buffer : trace.reads(o)) text += " " + std::to_string(trace.buffers[buffer].bytes);
  text += " ->";
  for (const std::uint32_t buffer : trace.writes(o)) text += " " + std::to_string(trace.buffers[buffer].bytes);
  return text;
}

bool same_sizes(const Trace& a, std::span<const std::uint32_t> of_a, const Trace& b,
                std::span<const std::uint32_t> of_b) {
  return std::ranges::equal(of_a, of_b,
                            [&](std::uint32_t x, std::uint32_t y) { return a.buffers[x].bytes == b.buffers[y].bytes; });
}

void find_difference(const Trace& first, const Trace& other, Facts* facts) {
  const std::size_t both = std::min(first.operators.size(), other.operators.size());
  for (std::size_t i = 0; i < both; ++i) {
    const TraceOperator &a = first.operators[i], &b = other.operators[i];
    if (first.names[a.name] == other.names[b.name] && same_sizes(first, first.reads(a), other, other.reads(b)) &&
        same_sizes(first, first.writes(a), other, other.writes(b))) {
      continue;
    }
    facts->differs_at = i;
    facts->difference = text_of(other, b) + " in place of " + text_of(first, a);
    return;
  }
  if (first.operators.size() == other.operators.size()) return;
  facts->differs_at = both;
  facts->difference = other.operators.size() > both ? "goes on" : "ends";
}

Facts facts_of(const Trace& trace, const DeviceRates& rates) {
  Facts facts;
  facts.path = trace.path;
  facts.operators = trace.operators.size();
  facts.buffers = trace.buffers.size();
  facts.steps = trace.steps.size();
  facts.peak_live_bytes = trace.peak_live_bytes;
  if (trace.steps.empty()) return facts;
  facts.step_operators = last_step_operators(trace);
  facts.steps_repeat = steady_step(trace, rates).repeats;
  const std::size_t skipped = facts.steps_repeat ? trace.steps.size() - 1 : std::min<std::size_t>(2, facts.steps - 1);
  std::vector<double> ms;
  for (std::size_t step = skipped; step < trace.steps.size(); ++step) {
    ms.push_back(0);
    for (std::size_t i = trace.steps[step].begin; i < trace.steps[step].end; ++i) {
      const TraceEvent& event = trace.events[i];
      if (event.kind == EventKind::kOperator) ms.back() += seconds_of(trace.operators[event.index], rates) * 1e3;
    }
  }
  facts.step_ms = median(std::move(ms));
  return facts;
}

struct Summary {
  Bytes peak_live_bytes = 0;
  double slowest_ms = 0, mean_ms = 0;
  bool same = true;
};

Summary summary_of(const std::vector<Facts>& all) {
  Summary sum;
  for (const Facts& facts : all) {
    sum.peak_live_bytes += facts.peak_live_bytes;
    sum.slowest_ms = std::max(sum.slowest_ms, facts.step_ms);
    sum.mean_ms += facts.step_ms / static_cast<double>(all.size());
    sum.same = sum.same && !facts.differs_at.has_value();
  }
  return sum;
}

void print_json(const CompareFlags& flags, const std::vector<Facts>& all) {
  const Summary sum = summary_of(all);
  ordered_json out = {{"schema", "thermocline-compare/1"}, {"device", flags.device}, {"traces", ordered_json::array()}};
  for (const Facts& facts : all) {
    const bool differs = facts.differs_at.has_value();
    out["traces"].push_back({{"trace", facts.path},
                             {"operators", facts.operators},
                             {"buffers", facts.buffers},
                             {"steps", facts.steps},
                             {"step_operators", facts.step_operators},
                             {"steps_repeat", facts.steps_repeat},
                             {"compute_step_ms", facts.step_ms},
                             {"peak_live_bytes", facts.peak_live_bytes},
                             {"differs_at", differs ? ordered_json(*facts.differs_at) : ordered_json(nullptr)},
                             {"difference", differs ? ordered_json(facts.difference) : ordered_json(nullptr)}});
  }
  out["all"] = {{"peak_live_bytes", sum.peak_live_bytes},
                {"slowest_step_ms", sum.slowest_ms},
                {"mean_step_ms", sum.mean_ms},
                {"same", sum.same}};
  std::puts(json_text(out).c_str());
}

void print_text(const std::vector<Facts>& all) {
  const Summary sum = summary_of(all);
  std::fprintf(stdout, "  %10s %8s %6s %12s %12s  %s\n", "operators", "buffers", "steps", "a step", "peak", "trace");
  for (const Facts& facts : all) {
    std::fprintf(stdout, "  %10zu %8zu %6zu %9.2f ms %12s  %s\n", facts.operators, facts.buffers, facts.steps,
                 facts.step_ms, human_bytes(facts.peak_live_bytes).c_str(), facts.path.c_str());
  }
  std::fprintf(stdout, "  together they hold %s; the slowest takes %.2f times the mean\n",
               human_bytes(sum.peak_live_bytes).c_str(), sum.mean_ms > 0 ? sum.slowest_ms / sum.mean_ms : 1.0);
  for (const Facts& facts : all) {
    if (!facts.differs_at) continue;
    std::fprintf(stdout, "  %s differs from the first at operator %zu: %s\n", facts.path.c_str(), *facts.differs_at,
                 facts.difference.c_str());
  }
  if (std::ranges::any_of(all, [](const Facts& facts) { return !facts.steps_repeat; }))
    std::fputs("  where steps differ, a step is the median of all but the first two\n", stdout);
  if (sum.same) std::fputs("  all do the same\n", stdout);
}

int compare(const CompareFlags& flags) {
  const simulator::Profile* const profile = find_device_flag(flags.device, "--device");
  if (profile == nullptr) return kWrongUsage;
  const DeviceRates rates = rates_of(*profile);
  std::vector<Facts> all;
  Trace first;
  for (const std::string& path : flags.traces) {
    Trace trace;
    if (!read_trace_file(path, &trace)) return kBadInput;
    all.push_back(facts_of(trace, rates));
    if (all.size() == 1) {
      first = std::move(trace);
    } else {
      find_difference(first, trace, &all.back());
    }
  }
  if (flags.json) {
    print_json(flags, all);
  } else {
    print_text(all);
  }
  return kDone;
}

}  // namespace

void add_compare(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* command =
      app.add_subcommand("compare", "Traces of a job's ranks side by side, and what they need together");
  command->footer(
      "mpirun -n 2 thermocline record -o step.jsonl.gz -- ./program; thermocline compare step.rank*.jsonl.gz");
  command->add_option("TRACE", flags->traces, "recorded programs; the others are compared with the first")->required();
  command->add_option("--device", flags->device,
                      "the profile for times that were not measured (default: reference; 'thermocline devices')");
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->callback([=] { line->action = [flags] { return compare(*flags); }; });
}

}  // namespace thermocline
