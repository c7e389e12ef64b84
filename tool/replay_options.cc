// SPDX-License-Identifier: Apache-2.0
#include "tool/replay_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tool/message.h"
#include "tool/values.h"

namespace thermocline {

void add_recompute_flags(CLI::App* command, RecomputeFlags* flags, const char* about) {
  command->add_flag("--exact", flags->exact,
                    "tell the library what each operator reads and writes, which hooks can not see");
  command->add_option("--recompute", flags->recompute, about);
}

bool take_recompute_flag(const RecomputeFlags& flags, Settings* settings) {
  return !flags.recompute || parse_setting_flag("recompute", *flags.recompute, "--recompute", settings);
}

ReplayOptions replay_options(const Settings& settings, const simulator::Profile& profile, const std::string& simulator,
                             Bytes budget_bytes) {
  ReplayOptions options;
  options.device.library = simulator;
  options.device.profile = profile.name;
  options.engine = engine_options(settings, 0, profile.memory_bytes.value, 0);
  options.engine.budget_bytes = budget_bytes;
  // Larger pages are faster if each mapping has a cost, not only each call.
  const bool has_cheap_runs = profile.host.set_access_next.value == 0 && profile.host.unmap_next.value == 0;
  if (options.engine.page_bytes == 0 && has_cheap_runs) options.engine.page_bytes = profile.page_bytes.value;
  // A replay uses hardly any host memory, and a limit would be that of this machine, not of the device's.
  options.engine.host_limit_bytes = 0;
  options.engine.annotate = false;
  options.engine.digests = DigestUse::kOff;
  options.rates = rates_of(profile);
  return options;
}

std::optional<StepPlanKind> possible_plans(const ReplayOptions& options) {
  if (!options.engine.policy->evicts()) return std::nullopt;
  if (!options.exact || options.engine.recompute == Recompute::kOff) return StepPlanKind::kOffload;
  // This plan comes nearest to such schedules.
  if (options.engine.schedules != nullptr) return StepPlanKind::kRecompute;
  switch (options.engine.recompute_plans) {
    case RecomputePlans::kRecomputeOnly:
    case RecomputePlans::kRecomputeExchanged:
      return StepPlanKind::kRecompute;
    case RecomputePlans::kJoint:
      break;
  }
  return StepPlanKind::kJoint;
}

namespace {

// Empty: it may be.
std::string why_nothing_is_recomputed(const Settings& settings, bool exact) {
  if (!exact) return ": that needs --exact, which tells the library what each operator reads and writes";
  if (!settings.policy->plans)
    return std::string(" with policy ") + settings.policy->name + "; " + planning_policies() + " does";
  if (settings.host_fallback == HostFallback::kFull) return " with host_fallback full; auto and off do";
  return "";
}

}  // namespace

bool may_recompute(const Settings& settings, bool exact) {
  return settings.recompute == Recompute::kAuto && why_nothing_is_recomputed(settings, exact).empty();
}

void remark_on_recompute(const Settings& settings, bool exact) {
  if (settings.recompute != Recompute::kAuto || may_recompute(settings, exact)) return;
  say("note: nothing is recomputed" + why_nothing_is_recomputed(settings, exact));
}

ReplayOptions unlimited_options(const ReplayOptions& options, const Trace& trace) {
  ReplayOptions unlimited = options;
  unlimited.device.memory_bytes = std::max<Bytes>(2 * trace.peak_live_bytes + 4 * kGiB, 64 * kGiB);
  unlimited.engine.budget_bytes = 0;
  unlimited.device.timeline.clear();
  unlimited.engine.policy = kNoPolicy;
  unlimited.device.check = false;
  return unlimited;
}

}  // namespace thermocline
