// SPDX-License-Identifier: Apache-2.0
// thermocline replay: runs a recorded program through the library itself, on a simulated device.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <optional>

#include "config/load.h"
#include "config/suggest.h"
#include "driver/quantity.h"
#include "tool/alternatives.h"
#include "tool/commands.h"
#include "tool/exit_status.h"
#include "tool/json_text.h"
#include "tool/message.h"
#include "tool/number_option.h"
#include "tool/places.h"
#include "tool/plan_policies.h"
#include "tool/policy_flag.h"
#include "tool/refused_event.h"
#include "tool/replay_options.h"
#include "tool/splits.h"
#include "tool/timeline_file.h"
#include "tool/values.h"
#include "trace/bounds.h"
#include "trace/joint_bound.h"
#include "trace/replay.h"
#include "trace/spread.h"
#include "trace/tuning.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

// Learning takes two or three steps, and the first steps under a plan still vary; ./dev bench uses the same number.
constexpr std::size_t kReplaySteps = 12;

struct ReplayFlags {
  std::string trace, device = "reference", alternatives = kRecordedAlternatives, split = kNoSplits;
  std::optional<std::string> budget, policy, safety, host_fallback, recompute, config, timeline;
  std::optional<std::size_t> steps;
  std::optional<std::uint32_t> streams;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> compare;
  bool exact = false, json = false, check = true, joint_bound = false;
};

const PlanPolicy* plan_policy_of(const ReplayFlags& flags) { return find_plan_policy(flags.policy.value_or("")); }

// Everything that a replay needs, once flags and files have been checked.
struct Job {
  const simulator::Profile* profile = nullptr;
  Settings settings;
  std::optional<Budget> budget;
  std::string simulator;
  Alternatives alternatives;
  Trace trace;
  bool steps_repeat = true, has_plan = true;  // has_plan: the policy has one for this trace
  StepProgram program;
  // With --split: what needed more than the budget, and the trace and program as they were before.
  std::vector<SplitOperator> too_large;
  Trace whole;
  StepProgram whole_program;
  bool is_split() const { return !whole.operators.empty(); }
  const Trace& unsplit() const { return is_split() ? whole : trace; }
  Bytes budget_bytes = 0;

  Bytes peak_bytes() const { return alternatives.recorded().peak_live_bytes; }
};

struct Outcome {
  ReplayResult with_budget;
  ReplayResult unlimited;
  // None if there is no schedule, steps differ, or there are several streams; the joint bound also if it was not
  // requested.
  std::optional<double> bound_ms, joint_bound_ms;
  std::optional<Bytes> suffices;  // where memory ran out: a budget in which it does not
};

// The name says whether to recompute; that requires that all accesses are known.
bool take_plan_policy(const ReplayFlags& flags, const PlanPolicy& policy, Settings* settings) {
  settings->policy = kLearnedPolicy;
  settings->recompute = policy.recompute;
  if (policy.recompute == Recompute::kOff || flags.exact) return true;
  say("policy '" + *flags.policy + "' recomputes, which needs --exact");
  return false;
}

int check_flags(const ReplayFlags& flags, Job* job) {
  job->settings = default_settings();
  if (flags.config) {
    LoadedSettings loaded = default_loaded_settings();
    load_settings_file(*flags.config, &loaded);
    say_all(loaded.problems);
    if (!loaded.problems.empty()) return kBadInput;
    job->settings = loaded.settings;
    // A percentage in a settings file is of the device's memory, because the file is meant for running programs.
    if (loaded.settings.budget.is_set()) job->budget = Budget{.size = loaded.settings.budget};
  }
  job->profile = find_device_flag(flags.device, "--device");
  if (job->profile == nullptr || !is_split_mode(flags.split)) return kWrongUsage;
  if (flags.budget && !(job->budget = parse_budget_flag(*flags.budget, "--budget", Whole::kPeak))) return kWrongUsage;
  const PlanPolicy* planned = nullptr;
  if (plan_policy_of(flags) != nullptr) {
    planned = plan_policy_of(flags);
  } else if (flags.policy && !parse_policy_flag(*flags.policy, &job->settings)) {
    return kWrongUsage;
  }
  if (flags.safety && !parse_setting_flag("safety", *flags.safety, "--safety", &job->settings)) return kWrongUsage;
  if (flags.host_fallback &&
      !parse_setting_flag("host_fallback", *flags.host_fallback, "--host-fallback", &job->settings)) {
    return kWrongUsage;
  }
  if (flags.recompute && !parse_setting_flag("recompute", *flags.recompute, "--recompute", &job->settings)) {
    return kWrongUsage;
  }
  if (planned != nullptr && !take_plan_policy(flags, *planned, &job->settings)) return kWrongUsage;
  if (flags.compare.empty() || !flags.exact) remark_on_recompute(job->settings, flags.exact);
  return kDone;
}

ReplayOptions options_of(const ReplayFlags& flags, const Job& job) {
  ReplayOptions options = replay_options(job.settings, *job.profile, job.simulator, job.budget_bytes);
  options.device.timeline = flags.timeline.value_or("");
  options.device.seed = flags.seed;
  options.device.check = flags.check;
  options.exact = flags.exact;
  if (const PlanPolicy* planned = plan_policy_of(flags)) {
    options.engine.recompute_plans = planned->plans;
    options.engine.schedules = planned->schedules;
  }
  return options;
}

// Streams and steps of the job's trace.
bool prepare_steps(const ReplayFlags& flags, Job* job, std::string* reason) {
  const DeviceRates rates = rates_of(*job->profile);
  if (flags.streams) spread_over_streams(*flags.streams, rates, flags.seed, &job->trace);
  job->steps_repeat = steady_step(job->trace, rates).repeats;
  return choose_steps(job->trace, flags.steps, kReplaySteps, job->steps_repeat, &job->program, reason);
}

// Milliseconds of a step of this trace; none: memory runs out, or it can not be replayed.
std::optional<double> step_ms_of(const ReplayFlags& flags, const Job& job, const Trace& trace) {
  ReplayOptions options = options_of(flags, job);
  options.device.timeline = "";
  options.device.check = false;
  Job tried = job;
  tried.trace = trace;
  ReplayResult result;
  std::string reason;
  if (!prepare_steps(flags, &tried, &reason) || !replay(tried.trace, tried.program, options, &result, &reason) ||
      result.outcome != ReplayOutcome::kOk) {
    return std::nullopt;
  }
  return SteadySteps{learned_after_steps(result.steps), tried.steps_repeat}.ms(result.steps);
}

// Operators that do not fit are split, or it is said that they could be.
bool take_splits(const ReplayFlags& flags, Job* job, std::string* reason) {
  SplitTrace split = take_splits(flags.split, job->trace, job->budget_bytes, rates_of(*job->profile),
                                 [&](const Trace& trace) { return step_ms_of(flags, *job, trace); });
  if (!prepare_steps(flags, job, reason)) return false;
  const bool any_split = split.any_split();
  job->too_large = std::move(split.operators);
  if (!any_split) return true;
  job->whole = std::exchange(job->trace, std::move(split.trace));
  job->whole_program = job->program;
  return prepare_steps(flags, job, reason);
}

// A percentage of the peak is of what was recorded, whatever is taken.
bool take_alternatives(const ReplayFlags& flags, Job* job) {
  const ReplayOptions options = options_of(flags, *job);
  const auto step_ms = [&](const Trace& trace) { return step_ms_of(flags, *job, trace); };
  return job->alternatives.take({rates_of(*job->profile), job->budget_bytes, possible_plans(options), step_ms},
                                &job->trace);
}

int prepare(const ReplayFlags& flags, Job* job) {
  std::string looked;
  const std::optional<std::string> simulator = find_simulator(&looked);
  if (!simulator) {
    say("the simulated device is not installed; looked for " + looked);
    return kFailed;
  }
  job->simulator = *simulator;
  if (!job->alternatives.read(flags.trace, flags.alternatives, true)) return kBadInput;
  const Bytes device_bytes = job->profile->memory_bytes.value;
  const Bytes wanted = job->budget.value_or(whole_device()).resolve(device_bytes, job->peak_bytes());
  job->budget_bytes = std::min(wanted, device_bytes);
  if (wanted > device_bytes)
    say("note: the budget is more than " + flags.device + " has; it gets " + human_bytes(device_bytes));
  if (!take_alternatives(flags, job)) return kBadInput;
  std::string reason;
  if (!take_splits(flags, job, &reason)) {
    say(flags.trace + ": " + reason);
    return kBadInput;
  }
  if (const PlanPolicy* const planned = plan_policy_of(flags)) {
    const StepTerms terms = StepTerms::free_for(job->trace, last_step_operators(job->trace));
    job->has_plan = can_plan(*planned, flags.trace, job->trace, rates_of(*job->profile), terms);
    if (!job->has_plan) return kBadInput;
  }
  return flags.timeline && !can_be_written(*flags.timeline) ? kFailed : kDone;
}

// The whole program is known here, so it can be said in which budget all of it runs, and not only what was refused
// first.
std::optional<Bytes> budget_that_suffices(const Job& job, ReplayOptions options) {
  Progress progress("looking for a budget that suffices");
  std::size_t asked = 0;
  options.progress = {};
  const auto runs = [&](Bytes budget) {
    constexpr std::size_t kLikelyReplays = 10;
    progress.show(std::min(asked++, kLikelyReplays), kLikelyReplays);
    options.engine.budget_bytes = budget;
    ReplayResult result;
    std::string reason;
    return replay(job.trace, job.program, options, &result, &reason) && result.outcome == ReplayOutcome::kOk;
  };
  // Whole pages, and room between them: some more than the peak.
  const Bytes high =
      std::min(job.trace.peak_live_bytes + job.trace.peak_live_bytes / 4 + 64 * kMiB, job.profile->memory_bytes.value);
  if (high <= job.budget_bytes) return std::nullopt;
  return least_budget(job.budget_bytes, high, std::max(kMiB, round_down(high / 256, kMiB)), runs);
}

int run_both(const ReplayFlags& flags, const Job& job, Outcome* out) {
  ReplayOptions options = options_of(flags, job);
  std::string reason;
  Progress progress("replaying");
  options.progress = [&](std::size_t step) { progress.show(step, 2 * job.program.steps); };
  if (!replay(job.trace, job.program, options, &out->with_budget, &reason)) {
    say(flags.trace + ": " + reason);
    return kFailed;
  }
  if (out->with_budget.outcome == ReplayOutcome::kOutOfMemory) out->suffices = budget_that_suffices(job, options);
  ReplayOptions unlimited = unlimited_options(options, job.unsplit());
  unlimited.progress = [&](std::size_t step) { progress.show(job.program.steps + step, 2 * job.program.steps); };
  // Splitting must not change the results, so they are compared with those of whole operators.
  if (!replay(job.unsplit(), job.is_split() ? job.whole_program : job.program, unlimited, &out->unlimited, &reason)) {
    say(flags.trace + ": with unlimited memory: " + reason);
    return kFailed;
  }
  // The bound assumes that operators run one after the other, in the order of the trace.
  if (flags.streams.value_or(1) > 1) return kDone;
  const SwapBounds swap_bounds(job.trace, *options.rates);
  const Bounds bounds = swap_bounds.under(job.budget_bytes);
  if (!bounds.is_feasible || !swap_bounds.repeats()) return kDone;
  out->bound_ms = bounds.bound_ms;
  if (flags.joint_bound)
    out->joint_bound_ms = JointBounds(swap_bounds.step(), *options.rates).under(job.budget_bytes).bound_ms;
  return kDone;
}

SteadySteps steady_steps(const Job& job, const Outcome& outcome) {
  return {learned_after_steps(outcome.with_budget.steps), job.steps_repeat};
}

bool is_complete(const Outcome& outcome) { return outcome.with_budget.outcome == ReplayOutcome::kOk; }

std::string budget_text(const Job& job) {
  return job.budget.value_or(whole_device()).text(job.budget_bytes, job.profile->memory_bytes.value, job.peak_bytes());
}

// Whether the figures are of steps under a plan, and if not, why.
std::string plan_text(const Job& job, const Outcome& outcome) {
  if (job.settings.policy != kLearnedPolicy) return "";
  if (const std::optional<std::size_t> learned = learned_after_steps(outcome.with_budget.steps)) {
    const std::size_t steps = outcome.with_budget.steps.size() - *learned;
    return "the plan was in force in the last " + std::to_string(steps) + " of " +
           quantity(outcome.with_budget.steps.size(), "step");
  }
  if (outcome.with_budget.statistics.evicted_bytes == 0) return "no plan was needed: nothing had to leave";
  return "no plan was in force: " + quantity(outcome.with_budget.steps.size(), "step") +
         " did not repeat, or too few (--steps); the figures are those of policy reactive";
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

ordered_json steps_json(const Outcome& outcome) {
  ordered_json steps = ordered_json::array();
  for (std::size_t i = 0; i < outcome.with_budget.steps.size(); ++i) {
    const ReplayStep& step = outcome.with_budget.steps[i];
    steps.push_back({{"index", i},
                     {"ms", step.ms},
                     {"compute_ms", outcome.unlimited.steps[i].ms},
                     {"evicted_bytes", step.evicted_bytes},
                     {"restored_bytes", step.restored_bytes},
                     {"maps", step.maps},
                     {"unmaps", step.unmaps},
                     {"recomputed_ms", static_cast<double>(step.recomputed_ns) * 1e-6},
                     {"recomputed_operations", step.recomputed_operations}});
  }
  return steps;
}

template <std::size_t count>
ordered_json by_reason(const std::array<MovementCount, count>& counts, const std::array<const char*, count>& names) {
  ordered_json all = ordered_json::object();
  for (std::size_t i = 0; i < count; ++i)
    all[names[i]] = {{"units", counts[i].units}, {"copied_bytes", counts[i].copied_bytes}};
  return all;
}

ordered_json json_of(const ReplayFlags& flags, const Job& job, const Outcome& outcome) {
  const ReplayResult& result = outcome.with_budget;
  const bool complete = is_complete(outcome);
  const SteadySteps steady = steady_steps(job, outcome);
  const std::optional<std::size_t> learned = steady.learned_after;
  // Null: there is no such figure.
  const auto if_complete = [complete](const auto& value) {
    return complete ? ordered_json(value) : ordered_json(nullptr);
  };
  return {
      {"schema", "thermocline-replay/1"},
      {"trace", flags.trace},
      {"device", flags.device},
      {"policy", plan_policy_of(flags) != nullptr ? *flags.policy : job.settings.policy->name},
      {"streams", job.trace.streams.size()},
      {"outcome", complete ? "ok" : "out_of_memory"},
      {"budget", job.budget.value_or(whole_device()).text()},
      {"budget_bytes", job.budget_bytes},
      {"peak_live_bytes", job.unsplit().peak_live_bytes},
      {"alternatives", alternatives_json(job.trace.choices, flags.alternatives)},
      {"split", split_json(job.unsplit(), job.too_large)},
      {"peak_device_bytes", result.peak_device_bytes},
      {"peak_host_bytes", result.statistics.peak_host_bytes},
      {"steps", steps_json(outcome)},
      {"steps_repeat", job.steps_repeat},
      {"steady_step_ms", if_complete(steady.ms(result.steps))},
      {"compute_step_ms", steady.ms(outcome.unlimited.steps)},
      {"bound_ms", outcome.bound_ms ? ordered_json(*outcome.bound_ms) : ordered_json(nullptr)},
      {"joint_bound_ms", outcome.joint_bound_ms ? ordered_json(*outcome.joint_bound_ms) : ordered_json(nullptr)},
      {"recomputed_ms", if_complete(steady.recomputed_ms(result.steps))},
      {"recomputed_operations", result.statistics.recomputed_operations},
      {"learned_after_steps", learned ? ordered_json(*learned) : ordered_json(nullptr)},
      {"predicted_step_ms", result.statistics.predicted_step_ns == 0
                                ? ordered_json(nullptr)
                                : ordered_json(static_cast<double>(result.statistics.predicted_step_ns) * 1e-6)},
      {"checksum", if_complete(hex(result.checksum))},
      {"races", result.races},
      {"race_check", flags.check},
      {"events_per_second", result.events_per_second},
      {"evicted_bytes", result.statistics.evicted_bytes},
      {"restored_bytes", result.statistics.restored_bytes},
      {"evictions", result.statistics.evictions},
      {"restores", result.statistics.restores},
      {"evictions_by_reason", by_reason(result.statistics.movements.evictions, kEvictReasonNames)},
      {"restores_by_reason", by_reason(result.statistics.movements.fetches, kFetchReasonNames)},
      {"host_waits", result.statistics.host_waits},
      {"refused", refused_json(job.trace, result)},
      {"sufficient_budget_bytes", outcome.suffices ? ordered_json(*outcome.suffices) : ordered_json(nullptr)},
      {"report", complete ? ordered_json(nullptr) : ordered_json(result.report)},
  };
}

void print_json(const ReplayFlags& flags, const Job& job, const Outcome& outcome) {
  std::puts(json_text(json_of(flags, job, outcome)).c_str());
}

// The engine's report, whose advice on the budget is of what was refused alone, with the one that suffices in its
// place.
std::string report_with(std::optional<Bytes> suffices, std::size_t steps, std::string report) {
  if (!suffices) return report;
  constexpr std::string_view kAdvice = "  do     budget = ";
  const std::string size = std::to_string((*suffices + kMiB - 1) / kMiB) + "MiB";
  const std::string advice = std::string(kAdvice) + "\"" + size + "\" (--budget " + size +
                             "): " + (steps == 1 ? "the step runs" : "all " + std::to_string(steps) + " steps run") +
                             " in it\n";
  const std::size_t begin = report.find(kAdvice), first = report.find("\n  do     ");
  if (begin != std::string::npos) return report.replace(begin, report.find('\n', begin) + 1 - begin, advice);
  return first == std::string::npos ? report + advice : report.insert(first + 1, advice);
}

void print_text(const ReplayFlags& flags, const Job& job, const Outcome& outcome) {
  const ReplayResult& result = outcome.with_budget;
  const std::size_t streams = job.trace.streams.size();
  std::fprintf(stdout, "%s on %s%s, budget %s: %s\n", flags.trace.c_str(), flags.device.c_str(),
               streams == 1 ? "" : (" in " + quantity(streams, "stream")).c_str(), budget_text(job).c_str(),
               is_complete(outcome) ? "ok" : "out of memory");
  if (!is_complete(outcome)) {
    const std::string report = report_with_names(job.trace, job.program, result);
    std::fputs(report_with(outcome.suffices, job.program.steps, report).c_str(), stdout);
    return;
  }
  if (const std::string taken = alternatives_text(job.trace.choices); !taken.empty())
    std::fprintf(stdout, "  of alternatives (%s) it takes %s\n", flags.alternatives.c_str(), taken.c_str());
  if (const std::string split = split_text(job.unsplit(), job.too_large); !split.empty())
    std::fprintf(stdout, "  split: %s\n", split.c_str());
  const SteadySteps of = steady_steps(job, outcome);
  const double steady = of.ms(result.steps), compute = of.ms(outcome.unlimited.steps);
  std::fprintf(stdout, "  a step takes %.2f ms, %.3f x unlimited memory (%.2f ms)\n", steady, steady / compute,
               compute);
  if (!of.repeat)
    std::fprintf(stdout, "  its steps differ: these are the median of all but the first two of %zu\n",
                 result.steps.size());
  if (outcome.bound_ms)
    std::fprintf(stdout, "  %s than %.2f ms: this is %.3f x that\n",
                 job.settings.recompute == Recompute::kOff ? "no swapping is faster"
                                                           : "swapping without recomputing is not faster",
                 *outcome.bound_ms, steady / *outcome.bound_ms);
  if (outcome.joint_bound_ms)
    std::fprintf(stdout, "  nor, with recomputation, than %.2f ms\n", *outcome.joint_bound_ms);
  if (const std::string plan = plan_text(job, outcome); !plan.empty()) std::fprintf(stdout, "  %s\n", plan.c_str());
  std::fprintf(stdout, "  on the device %s at most, on the host %s; moved out %s, in %s\n",
               human_bytes(result.peak_device_bytes).c_str(), human_bytes(result.statistics.peak_host_bytes).c_str(),
               human_bytes(result.statistics.evicted_bytes).c_str(),
               human_bytes(result.statistics.restored_bytes).c_str());
  std::fprintf(stdout, "  checksum %s, %.0f events a second\n", hex(result.checksum).c_str(), result.events_per_second);
}

// Runs one replay and checks what must hold whatever the budget. Returns an exit status.
int replay_once(const ReplayFlags& flags, Job* job, Outcome* outcome) {
  if (const int status = check_flags(flags, job); status != kDone) return status;
  if (const int status = prepare(flags, job); status != kDone) return status;
  return run_both(flags, *job, outcome);
}

// Prints what is an error of the library; returns false then, and if memory ran out.
bool holds(const ReplayFlags& flags, const Outcome& outcome) {
  const bool is_same = !is_complete(outcome) || outcome.unlimited.outcome != ReplayOutcome::kOk ||
                       outcome.with_budget.checksum == outcome.unlimited.checksum;
  if (!is_same) {
    say(flags.trace + ": the results differ from those with unlimited memory; this is a fault of thermocline");
  }
  const bool is_ordered = outcome.with_budget.races == 0;
  if (!is_ordered) {
    say(flags.trace + ": " + quantity(outcome.with_budget.races, "race") +
        " on the simulated device; this is a fault of thermocline");
  }
  return is_complete(outcome) && is_same && is_ordered;
}

int replay_trace(const ReplayFlags& flags) {
  Job job;
  Outcome outcome;
  if (const int status = replay_once(flags, &job, &outcome); status != kDone) return status;
  bool good = holds(flags, outcome);
  if (flags.timeline && !is_whole_timeline(*flags.timeline)) {
    say(*flags.timeline + ": the timeline could not be written to its end");
    good = false;
  }
  if (flags.json)
    print_json(flags, job, outcome);
  else
    print_text(flags, job, outcome);
  return good ? kDone : kFailed;
}

// --- Side by side ---

struct ComparedReplay {
  std::string asked, name;
  Job job;
  Outcome outcome;
};

void print_comparison(const ReplayFlags& flags, const std::vector<ComparedReplay>& compared) {
  const ComparedReplay& first = compared.front();
  std::fprintf(stdout, "%s on %s, peak %s\n  %-22s", flags.trace.c_str(), flags.device.c_str(),
               human_bytes(first.job.trace.peak_live_bytes).c_str(), "");
  for (const ComparedReplay& c : compared) std::fprintf(stdout, " %18s", c.name.c_str());
  const auto row = [&](const char* name, const auto& value) {
    std::fprintf(stdout, "\n  %-22s", name);
    for (const ComparedReplay& c : compared) std::fprintf(stdout, " %18s", value(c).c_str());
  };
  const auto steady = [](const ComparedReplay& c) {
    return steady_steps(c.job, c.outcome).ms(c.outcome.with_budget.steps);
  };
  const auto text = [](double value, const char* unit) {
    char line[32];
    std::snprintf(line, sizeof line, "%.3f%s", value, unit);
    return std::string(line);
  };
  const auto if_runs = [](const ComparedReplay& c, const std::string& value) {
    return is_complete(c.outcome) ? value : "out of memory";
  };
  row("budget", [](const ComparedReplay& c) { return human_bytes(c.job.budget_bytes); });
  row("of the peak", [](const ComparedReplay& c) {
    return std::to_string((c.job.budget_bytes * 100 + c.job.trace.peak_live_bytes / 2) / c.job.trace.peak_live_bytes) +
           "%";
  });
  row("a step", [&](const ComparedReplay& c) { return if_runs(c, text(steady(c), " ms")); });
  row("against the first", [&](const ComparedReplay& c) {
    return is_complete(first.outcome) && is_complete(c.outcome) ? text(steady(c) / steady(first), " x") : "-";
  });
  row("at best", [&](const ComparedReplay& c) { return c.outcome.bound_ms ? text(*c.outcome.bound_ms, " ms") : "-"; });
  row("against at best", [&](const ComparedReplay& c) {
    return is_complete(c.outcome) && c.outcome.bound_ms ? text(steady(c) / *c.outcome.bound_ms, " x") : "-";
  });
  row("at best, recomputing",
      [&](const ComparedReplay& c) { return c.outcome.joint_bound_ms ? text(*c.outcome.joint_bound_ms, " ms") : "-"; });
  row("recomputed, a step", [&](const ComparedReplay& c) {
    return if_runs(c, text(steady_steps(c.job, c.outcome).recomputed_ms(c.outcome.with_budget.steps), " ms"));
  });
  row("steps under a plan", [](const ComparedReplay& c) {
    const std::vector<ReplayStep>& steps = c.outcome.with_budget.steps;
    const std::optional<std::size_t> learned = learned_after_steps(steps);
    return learned ? std::to_string(steps.size() - *learned) + " of " + std::to_string(steps.size()) : "none";
  });
  row("out, all steps",
      [](const ComparedReplay& c) { return human_bytes(c.outcome.with_budget.statistics.evicted_bytes); });
  row("in, all steps",
      [](const ComparedReplay& c) { return human_bytes(c.outcome.with_budget.statistics.restored_bytes); });
  row("host memory",
      [](const ComparedReplay& c) { return human_bytes(c.outcome.with_budget.statistics.peak_host_bytes); });
  row("waits of the host",
      [](const ComparedReplay& c) { return std::to_string(c.outcome.with_budget.statistics.host_waits); });
  row("same results", [&](const ComparedReplay& c) {
    return if_runs(c, c.outcome.with_budget.checksum == c.outcome.unlimited.checksum ? "yes" : "NO");
  });
  std::fputc('\n', stdout);
}

// Each name is a policy or a settings file; the other flags apply to all of them.
int compare(const ReplayFlags& flags) {
  std::vector<ComparedReplay> compared;
  bool good = true;
  for (const std::string& name : flags.compare) {
    ReplayFlags each = flags;
    const bool is_file = name.find('/') != std::string::npos || name.ends_with(".toml");
    (is_file ? each.config : each.policy) = name;
    ComparedReplay& one = compared.emplace_back();
    one.asked = name;
    one.name = name.substr(name.rfind('/') + 1);
    const int status = replay_once(each, &one.job, &one.outcome);
    if (status != kDone && one.job.has_plan) return status;
    if (status == kDone) good = holds(each, one.outcome) && good;
    if (!one.job.has_plan) compared.pop_back();  // why has been said
  }
  if (compared.empty()) return kBadInput;
  if (flags.json) {
    ordered_json runs = ordered_json::array();
    for (const ComparedReplay& one : compared) {
      ReplayFlags each = flags;
      each.policy = one.asked;
      if (plan_policy_of(each) == nullptr) each.policy = flags.policy;
      ordered_json run = json_of(each, one.job, one.outcome);
      run["name"] = one.asked;
      runs.push_back(std::move(run));
    }
    std::puts(json_text({{"schema", "thermocline-replay-compare/1"}, {"runs", runs}}).c_str());
  } else {
    print_comparison(flags, compared);
  }
  return good ? kDone : kFailed;
}

}  // namespace

void add_replay(CLI::App& app, CommandLine* line) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* command = app.add_subcommand("replay", "Run a recorded program through the library on a simulated device");
  command->add_option("TRACE", flags->trace, kTraceHelp)->required();
  command->add_option("--device", flags->device,
                      "device profile (default: reference; 'thermocline devices' lists them)");
  command->add_option(
      "--budget", flags->budget,
      "most device memory: 12GiB, 60%peak (of the trace's peak; so is 60%), 60%device (default: all of the device's)");
  command->add_option("--policy", flags->policy, policy_help());
  command->add_option("--safety", flags->safety, "strict or trusting (default: strict)");
  command->add_option("--host-fallback", flags->host_fallback, "off, auto or full (default: the setting's)");
  command->add_option("--recompute", flags->recompute,
                      "off or auto: whether contents may be dropped and recomputed; with --exact (default: the "
                      "setting's)");
  add_alternatives_flag(command, &flags->alternatives, true);
  add_split_flag(command, &flags->split);
  command->add_option("--config", flags->config, "a settings file; no other is read");
  add_number(
      command, "--steps", flags->steps, kStepCounts,
      "how many steps; the file's last one repeats (default: 12, or the file's where it has more or they differ)");
  add_number(command, "--streams", flags->streams, CountRange{1, kMostStreams},
             "deal the operators out to this many streams, ordered by the buffers they name and nothing else; "
             "with --seed by chance (default: the file's streams)");
  add_number(command, "--seed", flags->seed, kSeeds, "adversarial order of this number (default: order of time)");
  command->add_flag("--exact", flags->exact,
                    "tell the library what each operator reads and writes, which hooks can not see");
  command->add_flag("!--no-check", flags->check, "do not look for races on the simulated device, which is quicker");
  command->add_flag("--joint-bound", flags->joint_bound,
                    "also say what no swapping and recomputing can beat, which takes up to minutes");
  command->add_option("--timeline", flags->timeline,
                      "write when everything ran into this file (open it with ui.perfetto.dev)");
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->add_option("--compare", flags->compare, "two or more policies or settings files, side by side")
      ->expected(2, 8)
      ->excludes("--timeline");
  command->callback(
      [=] { line->action = [flags] { return flags->compare.empty() ? replay_trace(*flags) : compare(*flags); }; });
}

}  // namespace thermocline
