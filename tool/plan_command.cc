// SPDX-License-Identifier: Apache-2.0
// thermocline plan: the joint plan of a recorded step, for executors other than the library, such as a framework that
// keeps, offloads or recomputes what it saved for backward.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "driver/quantity.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/json_text.h"
#include "tool/message.h"
#include "tool/plan_policies.h"
#include "tool/plan_terms.h"
#include "tool/splits.h"
#include "tool/values.h"
#include "trace/joint_bound.h"
#include "trace/step_plan.h"
#include "trace/tuning.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

struct PlanFlags {
  std::string trace;
  std::string device = "reference";
  std::string budget;
  std::string terms;
  std::string plans = "joint";
  std::string split = kNoSplits;
  bool bound = false;
  bool json = false;
};

struct PlanAnswer {
  Bytes budget = 0;
  StepPlan plan;
  LeastMemory least;
  std::string least_operator;
  // If the budget is too small: the least, in 64ths of what could be saved, for which a plan was found.
  std::optional<Bytes> found_bytes;
  std::optional<double> bound_ms;
  std::string split_told;  // "" for none
  ordered_json split = nullptr;
};

// The buffer's id in the file; for a piece, also its place in that buffer.
ordered_json name_of(const Trace& trace, std::uint32_t b) {
  const TraceBuffer& buffer = trace.buffers[b];
  Bytes before = 0;
  bool is_piece = false;
  for (std::uint32_t other = 0; other < trace.buffers.size(); ++other) {
    if (other == b || trace.buffers[other].id != buffer.id) continue;
    is_piece = true;
    if (other < b) before += trace.buffers[other].bytes;
  }
  if (!is_piece) return buffer.id;
  return {{"buffer", buffer.id}, {"begin", before}, {"bytes", buffer.bytes}};
}

std::string operator_at(const Trace& trace, std::uint32_t place) {
  const StepSpan step = trace.steps.back();
  for (std::size_t i = step.begin; i < step.end; ++i) {
    if (trace.events[i].kind != EventKind::kOperator || place-- > 0) continue;
    return trace.title_of(trace.operators[trace.events[i].index]);
  }
  return "";
}

PlanAnswer answer(const PlanFlags& flags, const Trace& trace, const DeviceRates& rates, Bytes budget,
                  const StepTerms& terms, const PlanPolicy& policy) {
  const auto planned = [&](Bytes bytes) {
    return plan_step(trace, rates, bytes, terms, policy.kind, PlanEffort::kFull, policy.schedules);
  };
  PlanAnswer out;
  out.budget = budget;
  out.plan = planned(budget);
  out.least = least_memory(trace, terms);
  out.least_operator = operator_at(trace, out.least.place);
  const Bytes whole = out.plan.whole_peak_bytes;
  if (!out.plan.fits) {
    const Bytes low = std::min(whole, std::max(budget, out.least.bytes));
    out.found_bytes = least_budget(low, whole, std::max<Bytes>((whole - low) / 64, 1),
                                   [&](Bytes bytes) { return planned(bytes).fits; });
  }
  if (flags.bound) out.bound_ms = JointBounds(steady_step(trace, rates), rates).under(budget).bound_ms;
  return out;
}

ordered_json drops_of(const Trace& trace, const StepPlan& plan) {
  ordered_json out = ordered_json::array();
  for (const PlannedDrop& drop : plan.drops) {
    const bool recomputed = drop.next_use != PlannedDrop::kNotRecomputed;
    out.push_back(
        {name_of(trace, drop.buffer), drop.last_use, recomputed ? ordered_json(drop.next_use) : ordered_json()});
  }
  return out;
}

ordered_json offloads_of(const Trace& trace, const StepPlan& plan) {
  ordered_json out = ordered_json::array();
  for (const PlannedOffload& offload : plan.offloads) {
    const auto or_null = [&](std::uint32_t place) { return offload.is_fetched ? ordered_json(place) : ordered_json(); };
    out.push_back(
        {name_of(trace, offload.buffer), offload.last_use, or_null(offload.next_use), or_null(offload.fetch_after)});
  }
  return out;
}

ordered_json moves_of(const Trace& trace, const StepPlan& plan) {
  ordered_json out = ordered_json::array();
  for (const PlannedMove& move : plan.moves) {
    const auto or_null = [&](std::uint32_t place) { return move.is_fetched ? ordered_json(place) : ordered_json(); };
    out.push_back({name_of(trace, move.buffer), move.last_use, or_null(move.next_use), or_null(move.fetch_after)});
  }
  return out;
}

void print_json(const PlanFlags& flags, const Trace& trace, const PlanAnswer& a) {
  const auto or_null = [](const auto& value) { return value ? ordered_json(*value) : ordered_json(); };
  ordered_json out = {{"schema", "thermocline-plan/1"},
                      {"trace", flags.trace},
                      {"device", flags.device},
                      {"budget_bytes", a.budget},
                      {"fits", a.plan.fits},
                      {"whole_peak_bytes", a.plan.whole_peak_bytes},
                      {"least_bytes", a.least.bytes},
                      {"least_at", a.least.place},
                      {"least_operator", a.least_operator},
                      {"found_bytes", or_null(a.found_bytes)},
                      {"compute_ms", a.plan.compute_ms},
                      {"bound_ms", or_null(a.bound_ms)},
                      {"split", a.split}};
  if (a.plan.fits) {
    out["peak_bytes"] = a.plan.peak_bytes;
    out["step_ms"] = a.plan.step_ms;
    out["recomputed_ms"] = a.plan.recomputed_ms;
    out["offloaded_bytes"] = a.plan.offloaded_bytes;
    out["drops"] = drops_of(trace, a.plan);
    out["offloads"] = offloads_of(trace, a.plan);
    out["reruns"] = a.plan.reruns;
    out["rerun_before"] = a.plan.rerun_before;
    out["moves"] = moves_of(trace, a.plan);
  }
  std::puts(json_text(out).c_str());
}

void print_text(const PlanFlags& flags, const PlanAnswer& a) {
  std::fprintf(stdout, "%s on %s: a step needs %s and computes for %.2f ms\n", flags.trace.c_str(),
               flags.device.c_str(), human_bytes(a.plan.whole_peak_bytes).c_str(), a.plan.compute_ms);
  if (!a.split_told.empty()) std::fprintf(stdout, "  split: %s\n", a.split_told.c_str());
  if (!a.plan.fits) {
    std::fprintf(stdout, "  no plan for %s: operator %u (%s), with what the program keeps beside its steps, needs %s",
                 human_bytes(a.budget).c_str(), a.least.place, a.least_operator.c_str(),
                 human_bytes(a.least.bytes).c_str());
    if (a.found_bytes) std::fprintf(stdout, "; there is a plan for %s", human_bytes(*a.found_bytes).c_str());
    std::fputs("\n", stdout);
    return;
  }
  std::fprintf(stdout, "  within %s: peak %s, %.2f ms a step\n", human_bytes(a.budget).c_str(),
               human_bytes(a.plan.peak_bytes).c_str(), a.plan.step_ms);
  std::fprintf(stdout, "  %s, %s again (%.2f ms), %s (%s)\n", quantity(a.plan.drops.size(), "drop").c_str(),
               quantity(a.plan.reruns.size(), "operator runs", "operators run").c_str(), a.plan.recomputed_ms,
               quantity(a.plan.offloads.size() + a.plan.moves.size(), "offload").c_str(),
               human_bytes(a.plan.offloaded_bytes).c_str());
  if (a.bound_ms) std::fprintf(stdout, "  no step is faster than %.2f ms\n", *a.bound_ms);
}

// Splits operators of the trace that the budget is too small for. Places and buffers are those of the result.
void split_trace(const PlanFlags& flags, const DeviceRates& rates, Bytes budget, const PlanPolicy& policy, Trace* trace,
                 PlanAnswer* out) {
  if (flags.split == kNoSplits) return;
  const auto step_ms = [&](const Trace& tried) -> std::optional<double> {
    const StepTerms terms = StepTerms::free_for(tried, last_step_operators(tried));
    const StepPlan plan = plan_step(tried, rates, budget, terms, policy.kind, PlanEffort::kQuick, policy.schedules);
    return plan.fits ? std::optional(plan.step_ms) : std::nullopt;
  };
  SplitTrace split = split_for_budget(*trace, budget, rates, step_ms);
  out->split_told = split_text(*trace, split.operators);
  out->split = split_json(*trace, split.operators);
  *trace = std::move(split.trace);
}

int plan(const PlanFlags& flags) {
  const simulator::Profile* const profile = find_device_flag(flags.device, "--device");
  if (profile == nullptr) return kWrongUsage;
  const auto budget = parse_budget_flag(flags.budget, "--budget", Whole::kPeak);
  if (!budget) return kWrongUsage;
  const PlanPolicy* const policy = find_plan_policy(flags.plans);
  if (policy == nullptr) {
    say("--plans: '" + flags.plans + "' is none of " + plan_policy_names());
    return kWrongUsage;
  }
  if (!is_split_mode(flags.split)) return kWrongUsage;
  Trace trace;
  if (!read_trace_file(flags.trace, &trace)) return kBadInput;
  const Bytes bytes = budget->resolve(profile->memory_bytes.value, trace.peak_live_bytes);
  PlanAnswer split;
  split_trace(flags, rates_of(*profile), bytes, *policy, &trace, &split);
  const std::size_t operators = last_step_operators(trace);
  if (operators == 0) {
    say(flags.trace + ": its last step has no operators");
    return kBadInput;
  }
  StepTerms terms = StepTerms::free_for(trace, operators);
  std::string reason;
  if (!flags.terms.empty() && !read_plan_terms(flags.terms, trace, &terms, &reason)) {
    say(flags.terms + ": " + reason);
    return kBadInput;
  }
  if (const std::string why = why_no_plan(*policy, trace, rates_of(*profile), terms); !why.empty()) {
    say(flags.trace + ": " + why);
    return kBadInput;
  }
  PlanAnswer a = answer(flags, trace, rates_of(*profile), bytes, terms, *policy);
  a.split_told = std::move(split.split_told);
  a.split = std::move(split.split);
  flags.json ? print_json(flags, trace, a) : print_text(flags, a);
  return a.plan.fits ? kDone : kFailed;
}

}  // namespace

void add_plan(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app.add_subcommand(
      "plan", "What to keep, offload and recompute in a step, for executors such as a framework's autograd");
  command->add_option("TRACE", flags->trace, std::string(kTraceHelp) + "; its last step is planned")->required();
  command
      ->add_option("--budget", flags->budget,
                   "a size, or a part of the trace's peak (60%peak; so is 60%) or of the device (60%device)")
      ->required();
  command->add_option("--device", flags->device,
                      "device profile: the link, and times that were not measured (default: reference)");
  CLI::Option* const terms = command->add_option(
      "--terms", flags->terms, "a JSON file with what the executor is able to do (docs/recompute.md)");
  command->add_option("--plans", flags->plans,
                      plan_policy_names() + " (default: joint); 'thermocline replay --help' says what each is");
  // Terms name the places of the step as it was recorded.
  add_split_flag(command, &flags->split)->excludes(terms);
  command->add_flag("--bound", flags->bound, "also the time below which no step can be, which takes up to minutes");
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->callback([=] { line->action = [flags] { return plan(*flags); }; });
}

}  // namespace thermocline
