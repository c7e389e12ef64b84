// SPDX-License-Identifier: Apache-2.0
#include "tool/replay_job.h"

#include <algorithm>
#include <utility>

#include "config/load.h"
#include "driver/quantity.h"
#include "tool/exit_status.h"
#include "tool/message.h"
#include "tool/places.h"
#include "tool/policy_flag.h"
#include "tool/timeline_file.h"
#include "trace/bounds.h"
#include "trace/joint_bound.h"
#include "trace/spread.h"
#include "trace/tuning.h"

namespace thermocline {
namespace {

// Learning takes two or three steps, and the first steps under a plan still vary; ./dev bench uses the same number.
constexpr std::size_t kReplaySteps = 12;

// The policy's name determines whether to recompute; that requires that all accesses are known.
bool take_plan_policy(const ReplayFlags& flags, const PlanPolicy& policy, Settings* settings) {
  settings->policy = kLearnedPolicy;
  settings->recompute = policy.recompute;
  if (policy.recompute == Recompute::kOff || flags.exact) return true;
  say("policy '" + *flags.policy + "' recomputes, which needs --exact");
  return false;
}

int check_flags(const ReplayFlags& flags, ReplayJob* job) {
  job->settings = default_settings();
  if (flags.config) {
    LoadedSettings loaded = default_loaded_settings();
    load_settings_file(*flags.config, &loaded);
    say_all(loaded);
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
  } else if (flags.policy) {
    const bool is_compared = std::ranges::find(flags.compare, *flags.policy) != flags.compare.end();
    if (!parse_policy_flag(*flags.policy, is_compared ? "--compare" : "--policy", &job->settings)) return kWrongUsage;
  }
  if (flags.safety && !parse_setting_flag("safety", *flags.safety, "--safety", &job->settings)) return kWrongUsage;
  if (flags.host_fallback &&
      !parse_setting_flag("host_fallback", *flags.host_fallback, "--host-fallback", &job->settings)) {
    return kWrongUsage;
  }
  if (!take_recompute_flag(flags, &job->settings)) return kWrongUsage;
  if (flags.digests && flags.exact) {
    say("--digests finds out what was written, which --exact tells: leave out one of them");
    return kWrongUsage;
  }
  if (planned != nullptr && !take_plan_policy(flags, *planned, &job->settings)) return kWrongUsage;
  if (flags.compare.empty() || !flags.exact) remark_on_recompute(job->settings, flags.exact);
  return kDone;
}

ReplayOptions options_of(const ReplayFlags& flags, const ReplayJob& job) {
  ReplayOptions options = replay_options(job.settings, *job.profile, job.simulator, job.budget_bytes);
  options.device.timeline = flags.timeline.value_or("");
  options.device.seed = flags.seed;
  options.device.check = flags.check;
  options.exact = flags.exact;
  if (flags.digests) options.engine.digests = DigestUse::kAuto;
  if (const PlanPolicy* planned = plan_policy_of(flags)) {
    options.engine.recompute_plans = planned->plans;
    options.engine.schedules = planned->schedules;
  }
  return options;
}

// Streams and steps of the job's trace.
bool prepare_steps(const ReplayFlags& flags, ReplayJob* job, std::string* reason) {
  const DeviceRates rates = rates_of(*job->profile);
  if (flags.streams) spread_over_streams(*flags.streams, rates, flags.seed, &job->trace);
  job->steps_repeat = steady_step(job->trace, rates).repeats;
  return choose_steps(job->trace, flags.steps, kReplaySteps, job->steps_repeat, &job->program, reason);
}

// Milliseconds of a step of this trace; none: memory runs out, or it can not be replayed.
std::optional<double> step_ms_of(const ReplayFlags& flags, const ReplayJob& job, const Trace& trace) {
  ReplayOptions options = options_of(flags, job);
  options.device.timeline = "";
  options.device.check = false;
  ReplayJob tried = job;
  tried.trace = trace;
  ReplayResult result;
  std::string reason;
  if (!prepare_steps(flags, &tried, &reason) || !replay(tried.trace, tried.program, options, &result, &reason) ||
      result.outcome != ReplayOutcome::kOk) {
    return std::nullopt;
  }
  return SteadySteps{learned_after_steps(result.steps), tried.steps_repeat}.ms(result.steps);
}

// Splits operators that do not fit, or prints that they could be split.
bool take_splits(const ReplayFlags& flags, ReplayJob* job, std::string* reason) {
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

// A percentage of the peak refers to the recorded program, whichever alternatives are taken.
bool take_alternatives(const ReplayFlags& flags, ReplayJob* job) {
  const ReplayOptions options = options_of(flags, *job);
  const auto step_ms = [&](const Trace& trace) { return step_ms_of(flags, *job, trace); };
  return job->alternatives.take({rates_of(*job->profile), job->budget_bytes, possible_plans(options), step_ms},
                                &job->trace);
}

int prepare(const ReplayFlags& flags, ReplayJob* job) {
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
    job->why_no_plan = why_no_plan(*planned, job->trace, rates_of(*job->profile), terms);
    if (!job->why_no_plan.empty()) return kBadInput;
  }
  return flags.timeline && !can_be_written(*flags.timeline) ? kFailed : kDone;
}

// The whole program is known here, so it can be said in which budget all of it runs, and not only what was refused
// first.
std::optional<Bytes> budget_that_suffices(const ReplayJob& job, ReplayOptions options) {
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

int run_both(const ReplayFlags& flags, const ReplayJob& job, ReplayFindings* out) {
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
  if (flags.streams.value_or(1) > 1 || !flags.bound) return kDone;
  const SwapBounds swap_bounds(job.trace, *options.rates);
  const Bounds bounds = swap_bounds.under(job.budget_bytes);
  if (!bounds.is_feasible || !swap_bounds.repeats()) return kDone;
  out->bound_ms = bounds.bound_ms;
  if (flags.joint_bound)
    out->joint_bound_ms = JointBounds(swap_bounds.step(), *options.rates).under(job.budget_bytes).bound_ms;
  return kDone;
}

}  // namespace

SteadySteps steady_steps(const ReplayJob& job, const ReplayFindings& outcome) {
  return {learned_after_steps(outcome.with_budget.steps), job.steps_repeat};
}

bool is_complete(const ReplayFindings& outcome) { return outcome.with_budget.outcome == ReplayOutcome::kOk; }

std::string budget_text(const ReplayJob& job) {
  return job.budget.value_or(whole_device()).text(job.budget_bytes, job.profile->memory_bytes.value, job.peak_bytes());
}

// Runs one replay and checks what must hold whatever the budget. Returns an exit status.
int replay_once(const ReplayFlags& flags, ReplayJob* job, ReplayFindings* outcome) {
  if (const int status = check_flags(flags, job); status != kDone) return status;
  if (const int status = prepare(flags, job); status != kDone) return status;
  return run_both(flags, *job, outcome);
}

// Prints what is an error of the library; returns false then, and if memory ran out.
bool replay_holds(const ReplayFlags& flags, const ReplayFindings& outcome) {
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

}  // namespace thermocline
