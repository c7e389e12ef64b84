// SPDX-License-Identifier: Apache-2.0
#include "tool/told.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "config/load.h"
#include "config/option_table.h"
#include "tool/exit_status.h"
#include "tool/message.h"
#include "tool/number_option.h"
#include "tool/places.h"
#include "tool/replay_options.h"
#include "tool/values.h"
#include "trace/steady_step.h"

namespace thermocline {
namespace {

// Enough for a plan to be in force in the last ones, which are shown.
constexpr std::size_t kUsualSteps = 6;

int check_flags(const ToldFlags& flags, Settings* settings, std::optional<Budget>* budget, Told* out) {
  LoadedSettings loaded = default_loaded_settings();
  if (flags.config) load_settings_file(*flags.config, &loaded);
  say_all(loaded.problems);
  if (!loaded.problems.empty()) return kBadInput;
  *settings = loaded.settings;
  if (loaded.settings.budget.is_set()) *budget = Budget{.size = loaded.settings.budget};
  if (flags.budget && !(*budget = parse_budget_flag(*flags.budget, "--budget", Whole::kPeak))) return kWrongUsage;
  if (flags.policy && !parse_setting_flag("policy", *flags.policy, "--policy", settings)) return kWrongUsage;
  remark_on_recompute(*settings, false);
  out->policy = value_text(*find_option("policy"), *settings);
  out->profile = find_device_flag(flags.device, "--device");
  if (out->profile == nullptr) return kWrongUsage;
  return kDone;
}

}  // namespace

void add_told_flags(CLI::App* command, ToldFlags* flags) {
  command->add_option("TRACE", flags->trace, kTraceHelp)->required();
  command->add_option("--device", flags->device,
                      "device profile (default: reference; 'thermocline devices' lists them)");
  command->add_option(
      "--budget", flags->budget,
      "most device memory: 12GiB, 60%peak (of the trace's peak; so is 60%), 60%device (default: all of the device's)");
  command->add_option("--policy", flags->policy, "none, reactive or learned (default: learned)");
  command->add_option("--config", flags->config, "a settings file; no other is read");
  add_number(
      command, "--steps", flags->steps, kKeptStepCounts,
      "how many steps; the file's last one repeats (default: 6, or the file's where it has more or they differ)");
}

int tell(const ToldFlags& flags, const std::string& path, Told* out) {
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
  StepProgram& program = out->program;
  out->steps_repeat = steady_step(out->trace, rates_of(*out->profile)).repeats;
  if (!choose_steps(out->trace, flags.steps, kUsualSteps, out->steps_repeat, &program, &reason)) {
    say(path + ": " + reason);
    return kBadInput;
  }
  const Bytes device_bytes = out->profile->memory_bytes.value;
  const Budget taken = budget.value_or(whole_device());
  out->budget = std::min(taken.resolve(device_bytes, out->trace.peak_live_bytes), device_bytes);
  out->budget_told = taken.told(out->budget, device_bytes, out->trace.peak_live_bytes);
  out->min_offload_bytes = settings.min_offload_bytes.resolve(0);
  ReplayOptions& options = out->options = replay_options(settings, *out->profile, *simulator, out->budget);
  options.device.check = false;
  Progress progress("replaying");
  options.progress = [&](std::size_t step) { progress.show(step, program.steps); };
  if (!tell_story(out->trace, program, options, &out->story, &reason)) {
    say(path + ": " + reason);
    return kFailed;
  }
  options.progress = nullptr;
  if (out->story.step_ends.empty()) {
    say(path + ": memory ran out in the first step; 'thermocline replay' shows who held it");
    return kFailed;
  }
  return kDone;
}

StoryWindow last_steps(const Story& story, std::size_t steps) {
  StoryWindow window;
  const std::size_t all = story.step_ends.size();
  window.first_step = all - std::min(steps, all);
  window.begin = window.first_step == 0 ? 0 : story.step_ends[window.first_step - 1];
  window.end = story.step_ends.back();
  window.begin_us = window.first_step == 0 ? 0 : story.step_end_us[window.first_step - 1];
  window.end_us = story.step_end_us.back();
  return window;
}

}  // namespace thermocline
