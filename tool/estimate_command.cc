// SPDX-License-Identifier: Apache-2.0
// thermocline estimate: would this trace fit on the known devices, and how slow would it be?
//
// Each answer comes from a replay through the library itself on that device's profile with all of its memory, with
// default settings but for recompute; `thermocline replay --device D` shows more. The profiles' figures and their
// sources are printed with the answers in JSON, and by `thermocline devices`.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "config/load.h"
#include "driver/quantity.h"
#include "tool/alternatives.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/json_text.h"
#include "tool/message.h"
#include "tool/number_option.h"
#include "tool/places.h"
#include "tool/refused_event.h"
#include "tool/replay_options.h"
#include "tool/splits.h"
#include "tool/values.h"
#include "trace/bounds.h"
#include "trace/execution_order.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;
using simulator::Profile;

// On each device. Programs see 97 to 99 % of the memory in the profile, and a context takes some hundred MiB of that
// (docs/simulated_device.md).
constexpr const char* kDefaultBudget = "95%";
// Learning takes two or three steps; the figures are of the steps after that.
constexpr std::size_t kEstimateSteps = 8;

struct EstimateFlags : RecomputeFlags {
  std::string trace;
  std::vector<std::string> devices;
  std::string budget = kDefaultBudget;
  std::string alternatives = kRecordedAlternatives, split = kNoSplits;
  std::optional<std::size_t> steps;
  bool json = false;
};

// The input that all replays share.
struct Replayed {
  Settings settings = default_settings();
  bool exact = false;
  Alternatives alternatives;
  bool may_split = false;
  std::optional<std::size_t> asked;  // steps
  bool repeat = true;
  StepProgram program;  // as recorded

  bool recomputes() const { return may_recompute(settings, exact); }
};

struct DeviceAnswer {
  const Profile* profile = nullptr;
  Bytes budget_bytes = 0;
  bool runs = false;   // else it runs out of memory
  bool moves = false;  // something had to be evicted
  double step_ms = 0, compute_ms = 0;
  std::optional<double> bound_ms;  // none if steps differ
  ReplayStep last;                 // what is dropped and recomputed in a step
  std::vector<TraceChoice> taken;  // alternatives
  std::string refused;             // where it runs out of memory, and the buffers; lines
  ordered_json refused_json = nullptr;
  std::string split_told;  // "" for none
  ordered_json split = nullptr;
};

const char* fit(const DeviceAnswer& answer) { return !answer.runs ? "no" : answer.moves ? "swapped" : "whole"; }

int choose_devices(const EstimateFlags& flags, std::vector<const Profile*>* out) {
  for (const std::string& name : flags.devices) {
    out->push_back(find_device_flag(name, "--device"));
    if (out->back() == nullptr) return kWrongUsage;
  }
  // Leaves out the reference profile, which is no device that exists.
  for (const Profile& profile : simulator::profiles()) {
    if (flags.devices.empty() && profile.name != std::string_view("reference")) out->push_back(&profile);
  }
  return kDone;
}

// A trace as it is replayed on one device.
struct Taken {
  Trace trace;
  StepProgram program;

  bool choose(const Replayed& replayed, std::string* reason) {
    return choose_steps(trace, replayed.asked, kEstimateSteps, replayed.repeat, &program, reason);
  }
};

std::optional<double> step_ms_of(const Replayed& replayed, const ReplayOptions& options, const Trace& trace) {
  return replayed_step_ms(trace, {replayed.asked, kEstimateSteps, replayed.repeat}, options);
}

bool take_alternatives(const Replayed& replayed, const ReplayOptions& options, Taken* out, std::string* reason) {
  const auto step_ms = [&](const Trace& trace) { return step_ms_of(replayed, options, trace); };
  const ChoiceTerms terms{*options.rates, options.engine.budget_bytes, possible_plans(options), step_ms};
  *reason = "its alternatives can not be taken";
  return replayed.alternatives.take(terms, &out->trace) && out->choose(replayed, reason);
}

bool take_splits(const Replayed& replayed, const ReplayOptions& options, DeviceAnswer* answer, Taken* taken,
                 std::string* reason) {
  if (!replayed.may_split) return true;
  const auto step_ms = [&](const Trace& trace) { return step_ms_of(replayed, options, trace); };
  SplitTrace split = split_for_budget(taken->trace, answer->budget_bytes, *options.rates, step_ms);
  answer->split_told = split_text(taken->trace, split.operators);
  answer->split = split_json(taken->trace, split.operators);
  if (!split.any_split()) return true;
  taken->trace = std::move(split.trace);
  return taken->choose(replayed, reason);
}

// False, with a message in `reason`, if the simulated device fails for another reason than memory.
bool ask(const Replayed& replayed, const std::string& simulator, DeviceAnswer* answer, std::string* reason) {
  ReplayOptions options = replay_options(replayed.settings, *answer->profile, simulator, answer->budget_bytes);
  options.exact = replayed.exact;
  options.device.check = false;
  Taken taken;
  if (!take_alternatives(replayed, options, &taken, reason)) return false;
  answer->taken = taken.trace.choices;
  ReplayResult unlimited;
  if (!replay(taken.trace, taken.program, unlimited_options(options, taken.trace), &unlimited, reason)) return false;
  if (!take_splits(replayed, options, answer, &taken, reason)) return false;
  ReplayResult result;
  if (!replay(taken.trace, taken.program, options, &result, reason)) return false;
  answer->runs = result.outcome == ReplayOutcome::kOk;
  answer->moves = result.statistics.evicted_bytes > 0 || result.statistics.dropped_bytes > 0;
  const SteadySteps steady{learned_after_steps(result.steps), replayed.repeat};
  answer->compute_ms = steady.ms(unlimited.steps);
  if (!answer->runs) {
    answer->refused =
        refused_place(taken.trace, taken.program, result) + "\n" + refused_buffers(taken.trace, result, 4);
    answer->refused_json = refused_json(taken.trace, result);
    return true;
  }
  answer->step_ms = steady.ms(result.steps);
  answer->last = result.steps.back();
  const SwapBounds bounds(taken.trace, *options.rates);
  if (bounds.repeats()) answer->bound_ms = bounds.under(answer->budget_bytes).bound_ms;
  return true;
}

bool has_measured_times(const Trace& trace) {
  return std::ranges::any_of(trace.operators, &TraceOperator::is_measured);
}

ordered_json figures_json(const Profile& p) {
  const auto sourced = [](const auto& figure) {
    return ordered_json{{"value", figure.value}, {"source", figure.source}};
  };
  return {{"memory_bytes", sourced(p.memory_bytes)},         {"fp32_flops", sourced(p.fp32_flops)},
          {"memory_bandwidth", sourced(p.memory_bandwidth)}, {"link_to_device", sourced(p.link_to_device)},
          {"link_to_host", sourced(p.link_to_host)},         {"launch_ns", sourced(p.launch)}};
}

ordered_json recomputed_json(const ReplayStep& step) {
  return {{"operations_per_step", step.recomputed_operations},
          {"ms_per_step", static_cast<double>(step.recomputed_ns) * 1e-6},
          {"dropped_buffers_per_step", step.dropped_buffers},
          {"dropped_bytes_per_step", step.dropped_bytes}};
}

ExecutionOrder order_of(const Trace& trace) {
  // The result does not depend on the rates.
  return better_order(steady_step(trace, rates_of(*simulator::find_profile("reference"))));
}

void print_json(const EstimateFlags& flags, const Trace& trace, const Replayed& replayed,
                const std::vector<DeviceAnswer>& answers) {
  const ExecutionOrder order = order_of(trace);
  ordered_json out = {{"schema", "thermocline-estimate/1"},
                      {"trace", flags.trace},
                      {"peak_live_bytes", trace.peak_live_bytes},
                      {"times_were_measured", has_measured_times(trace)},
                      {"steps", replayed.program.steps},
                      {"steps_repeat", replayed.repeat},
                      {"execution_order",
                       {{"recorded_peak_bytes", order.recorded_peak},
                        {"freed_at_last_use_peak_bytes", order.trimmed_peak},
                        {"reordered_peak_bytes", order.best_peak}}},
                      {"devices", ordered_json::array()}};
  for (const DeviceAnswer& a : answers) {
    const auto if_runs = [&a](auto value) { return a.runs ? ordered_json(value) : ordered_json(nullptr); };
    out["devices"].push_back(
        {{"device", a.profile->name},
         {"title", a.profile->title},
         {"budget_bytes", a.budget_bytes},
         {"fit", fit(a)},
         {"steady_step_ms", if_runs(a.step_ms)},
         {"compute_step_ms", a.compute_ms},
         {"slowdown", if_runs(a.step_ms / a.compute_ms)},
         {"bound_ms", a.bound_ms ? ordered_json(*a.bound_ms) : ordered_json(nullptr)},
         {"evicted_bytes_per_step", if_runs(a.last.evicted_bytes)},
         {"recomputed", a.runs && replayed.recomputes() ? recomputed_json(a.last) : ordered_json(nullptr)},
         {"alternatives", alternatives_json(a.taken, flags.alternatives)},
         {"refused", a.refused_json},
         {"split", a.split},
         {"figures", figures_json(*a.profile)}});
  }
  std::puts(json_text(out).c_str());
}

std::string milliseconds(double ms) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f ms", ms);
  return text;
}

// The columns of the table about recomputing.
std::string recomputed_text(const ReplayStep& step) {
  char text[64];
  std::snprintf(text, sizeof text, " %12s  ", human_bytes(step.dropped_bytes).c_str());
  return text + quantity(step.recomputed_operations, "operator") + ", " +
         milliseconds(static_cast<double>(step.recomputed_ns) * 1e-6);
}

void print_order(const ExecutionOrder& order) {
  std::fprintf(
      stdout,
      "Peak of a step: %s as recorded, %s with each buffer freed at its last use, %s with operators in another\n"
      "order (no dependence broken; what a rewrite of the graph could gain).\n",
      human_bytes(order.recorded_peak).c_str(), human_bytes(order.trimmed_peak).c_str(),
      human_bytes(order.best_peak).c_str());
}

// Prints where memory runs out, once for all devices on which the place is the same.
void print_refusals(const std::vector<DeviceAnswer>& answers) {
  std::map<std::string, std::string> devices;  // by place and buffers
  for (const DeviceAnswer& a : answers) {
    if (a.runs || a.refused.starts_with('\n')) continue;
    std::string& names = devices[a.refused];
    names += (names.empty() ? "" : ", ") + std::string(a.profile->name);
  }
  for (const auto& [refused, names] : devices)
    std::fprintf(stdout, "On %s memory runs out at %s", names.c_str(), refused.c_str());
}

void print_text(const EstimateFlags& flags, const Trace& trace, const Replayed& replayed,
                const std::vector<DeviceAnswer>& answers) {
  std::fprintf(stdout, "%s holds %s at most\n", flags.trace.c_str(), human_bytes(trace.peak_live_bytes).c_str());
  const bool recomputes = replayed.recomputes();
  std::fprintf(stdout, "  %-12s %10s  %-8s %12s %9s %12s %12s%s\n", "device", "memory", "fits", "step", "slowdown",
               recomputes ? "swapping" : "at best", "out a step", recomputes ? "      dropped  made again" : "");
  for (const DeviceAnswer& a : answers) {
    const std::string memory = human_bytes(a.budget_bytes);
    if (!a.runs) {
      std::fprintf(stdout, "  %-12s %10s  %-8s out of memory (with enough of it a step takes %.2f ms)\n",
                   a.profile->name, memory.c_str(), fit(a), a.compute_ms);
      continue;
    }
    std::fprintf(stdout, "  %-12s %10s  %-8s %12s %8.2fx %12s %12s%s\n", a.profile->name, memory.c_str(), fit(a),
                 milliseconds(a.step_ms).c_str(), a.step_ms / a.compute_ms,
                 a.bound_ms ? milliseconds(*a.bound_ms).c_str() : "-", human_bytes(a.last.evicted_bytes).c_str(),
                 recomputes ? recomputed_text(a.last).c_str() : "");
  }
  print_refusals(answers);
  for (const DeviceAnswer& a : answers) {
    const std::string taken = alternatives_text(a.taken);
    if (!taken.empty()) std::fprintf(stdout, "Alternatives on %s: %s.\n", a.profile->name, taken.c_str());
    if (!a.split_told.empty()) std::fprintf(stdout, "Split on %s: %s.\n", a.profile->name, a.split_told.c_str());
  }
  if (recomputes) {
    std::fputs(
        "Dropped: in a step, without a copy. Made again: by operators that run a second time. Swapping: what only "
        "swaps is "
        "not faster.\n",
        stdout);
  }
  print_order(order_of(trace));
  if (!replayed.repeat) {
    std::fprintf(stdout, "Its steps differ: times are the median of all but the first two of %zu.\n",
                 replayed.program.steps);
  }
  if (has_measured_times(trace)) std::fputs("Operators' times are the recorded ones on every device.\n", stdout);
  std::fprintf(stdout, "Replayed on simulated devices with a budget of %s%s;\nfloat32 outside of tensor cores. ",
               flags.budget.c_str(),
               flags.budget == kDefaultBudget ? " (the rest is the driver's, the context's, the code's)" : "");
  std::fputs("'thermocline devices NAME' says where the figures come from.\n", stdout);
}

int estimate(const EstimateFlags& flags) {
  const auto budget = parse_budget_flag(flags.budget, "--budget", Whole::kDevice);
  if (!budget || !is_split_mode(flags.split)) return kWrongUsage;
  std::vector<const Profile*> devices;
  if (const int status = choose_devices(flags, &devices); status != kDone) return status;
  std::string looked;
  const std::optional<std::string> simulator = find_simulator(&looked);
  if (!simulator) {
    say("the simulated device is not installed; looked for " + looked);
    return kFailed;
  }
  Replayed replayed;
  if (!take_recompute_flag(flags, &replayed.settings)) return kWrongUsage;
  replayed.exact = flags.exact;
  remark_on_recompute(replayed.settings, replayed.exact);
  if (!replayed.alternatives.read(flags.trace, flags.alternatives, true)) return kBadInput;
  const Trace& trace = replayed.alternatives.recorded();
  replayed.may_split = flags.split != kNoSplits;
  replayed.asked = flags.steps;
  replayed.repeat = steady_step(trace, rates_of(*devices.front())).repeats;
  std::string reason;
  if (!choose_steps(trace, flags.steps, kEstimateSteps, replayed.repeat, &replayed.program, &reason)) {
    say(flags.trace + ": " + reason);
    return kBadInput;
  }
  std::vector<DeviceAnswer> answers;
  {
    Progress progress("estimating");
    for (const Profile* profile : devices) {
      progress.show(answers.size(), devices.size());
      const Bytes device_bytes = profile->memory_bytes.value;
      DeviceAnswer answer;
      answer.profile = profile;
      answer.budget_bytes = std::min(budget->resolve(device_bytes, trace.peak_live_bytes), device_bytes);
      answers.push_back(answer);
      if (!ask(replayed, *simulator, &answers.back(), &reason)) {
        say(flags.trace + ": on " + profile->name + ": " + reason);
        return kFailed;
      }
    }
  }
  if (flags.json)
    print_json(flags, trace, replayed, answers);
  else
    print_text(flags, trace, replayed, answers);
  return kDone;
}

}  // namespace

void add_estimate(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<EstimateFlags>();
  CLI::App* command =
      app.add_subcommand("estimate", "Would a recorded program fit on known devices, and how slow would it be");
  command->add_option("TRACE", flags->trace, kTraceHelp)->required();
  command->add_option("--device", flags->devices, "only these profiles, separated by commas or spaces (default: all)")
      ->delimiter(',');
  command->add_option(
      "--budget", flags->budget,
      "a size, 95% of each device's memory, or 60%peak of the trace's peak (default: 95%; the rest is the driver's "
      "and the context's)");
  add_alternatives_flag(command, &flags->alternatives, true);
  add_recompute_flags(command, flags.get());
  add_split_flag(command, &flags->split);
  add_number(
      command, "--steps", flags->steps, kStepCounts,
      "how many steps; the file's last one repeats (default: 8, or the file's where it has more or they differ)");
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->callback([=] { line->action = [flags] { return estimate(*flags); }; });
}

}  // namespace thermocline
