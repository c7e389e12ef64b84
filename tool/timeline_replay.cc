// SPDX-License-Identifier: Apache-2.0
#include "tool/timeline_replay.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "config/load.h"
#include "config/option_table.h"
#include "tool/exit_status.h"
#include "tool/message.h"
#include "tool/number_option.h"
#include "tool/places.h"
#include "tool/policy_flag.h"
#include "tool/splits.h"
#include "tool/values.h"
#include "trace/steady_step.h"

namespace thermocline {
namespace {

// Enough for a plan to be in force in the last ones, which are shown.
constexpr std::size_t kTimelineSteps = 6;

int check_flags(const TimelineFlags& flags, Settings* settings, std::optional<Budget>* budget, TimelineReplay* out) {
  LoadedSettings loaded = default_loaded_settings();
  if (flags.config) load_settings_file(*flags.config, &loaded);
  say_all(loaded);
  if (!loaded.problems.empty()) return kBadInput;
  *settings = loaded.settings;
  if (loaded.settings.budget.is_set()) *budget = Budget{.size = loaded.settings.budget};
  if (flags.budget && !(*budget = parse_budget_flag(*flags.budget, "--budget", Whole::kPeak))) return kWrongUsage;
  if (flags.policy && !parse_setting_flag("policy", *flags.policy, "--policy", settings)) return kWrongUsage;
  if (!take_recompute_flag(flags, settings)) return kWrongUsage;
  remark_on_recompute(*settings, flags.exact);
  out->policy = value_text(*find_option("policy"), *settings);
  out->profile = find_device_flag(flags.device, "--device");
  if (out->profile == nullptr || !is_split_mode(flags.split)) return kWrongUsage;
  return kDone;
}

// The trace as it is replayed, and how many steps of it.
bool prepare(const TimelineFlags& flags, TimelineReplay* out, std::string* reason) {
  const WantedSteps steps{flags.steps, kTimelineSteps, out->steps_repeat};
  const auto choose = [&](Trace* trace, StepProgram* program) {
    return choose_steps(*trace, steps.asked, steps.usual, steps.repeat, program, reason);
  };
  SplitTrace split = take_splits(flags.split, out->trace, out->budget, *out->options.rates,
                                 [&](const Trace& trace) { return replayed_step_ms(trace, steps, out->options); });
  if (!choose(&out->trace, &out->program)) return false;
  const bool any_split = split.any_split();
  out->too_large = std::move(split.operators);
  if (!any_split) return true;
  out->whole = std::exchange(out->trace, std::move(split.trace));
  out->whole_program = out->program;
  return choose(&out->trace, &out->program);
}

}  // namespace

void add_timeline_flags(CLI::App* command, TimelineFlags* flags) {
  command->add_option("TRACE", flags->trace, kTraceHelp)->required();
  command->add_option("--device", flags->device,
                      "device profile (default: reference; 'thermocline devices' lists them)");
  command->add_option(
      "--budget", flags->budget,
      "most device memory: 12GiB, 60%peak (of the trace's peak; so is 60%), 60%device (default: all of the device's)");
  command->add_option("--policy", flags->policy, policy_setting_help());
  add_recompute_flags(command, flags);
  add_split_flag(command, &flags->split);
  command->add_option("--config", flags->config, "a settings file; no other is read");
  add_number(
      command, "--steps", flags->steps, kKeptStepCounts,
      "how many steps; the file's last one repeats (default: 6, or the file's where it has more or they differ)");
}

int replay_timeline_of(const TimelineFlags& flags, const std::string& path, TimelineReplay* out) {
  Settings settings;
  std::optional<Budget> budget;
  if (const int status = check_flags(flags, &settings, &budget, out); status != kDone) return status;
  std::string looked, reason;
  const std::optional<std::string> simulator = find_simulator(&looked);
  if (!simulator) {
    say("the simulated device is not installed; looked for " + looked);
    return kFailed;
  }
  if (!read_trace_file(path, &out->trace)) return kBadInput;
  out->steps_repeat = steady_step(out->trace, rates_of(*out->profile)).repeats;
  const Bytes device_bytes = out->profile->memory_bytes.value;
  const Budget taken = budget.value_or(whole_device());
  out->budget = std::min(taken.resolve(device_bytes, out->trace.peak_live_bytes), device_bytes);
  out->budget_text = taken.text(out->budget, device_bytes, out->trace.peak_live_bytes);
  out->min_offload_bytes = settings.min_offload_bytes.resolve(0);
  ReplayOptions& options = out->options = replay_options(settings, *out->profile, *simulator, out->budget);
  options.device.check = false;
  options.exact = flags.exact;
  out->recomputes = may_recompute(settings, flags.exact);
  if (!prepare(flags, out, &reason)) {
    say(path + ": " + reason);
    return kBadInput;
  }
  Progress progress("replaying");
  options.progress = [&](std::size_t step) { progress.show(step, out->program.steps); };
  if (!replay_with_timeline(out->trace, out->program, options, &out->timeline, &reason)) {
    say(path + ": " + reason);
    return kFailed;
  }
  options.progress = nullptr;
  if (out->timeline.step_ends.empty()) {
    say(path + ": memory ran out in the first step; 'thermocline replay' shows who held it");
    return kFailed;
  }
  return kDone;
}

TimelineWindow last_steps(const ReplayTimeline& timeline, std::size_t steps) {
  TimelineWindow window;
  const std::size_t all = timeline.step_ends.size();
  window.first_step = all - std::min(steps, all);
  window.begin = window.first_step == 0 ? 0 : timeline.step_ends[window.first_step - 1];
  window.end = timeline.step_ends.back();
  window.begin_us = window.first_step == 0 ? 0 : timeline.step_end_us[window.first_step - 1];
  window.end_us = timeline.step_end_us.back();
  return window;
}

}  // namespace thermocline
