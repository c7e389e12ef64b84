// SPDX-License-Identifier: Apache-2.0
#include "tool/replay_json.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "tool/alternatives.h"
#include "tool/refused_event.h"
#include "tool/splits.h"

namespace thermocline {
namespace {

using nlohmann::ordered_json;

ordered_json steps_json(const ReplayFindings& outcome) {
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
                     {"recomputed_operations", step.recomputed_operations},
                     {"dropped_buffers", step.dropped_buffers},
                     {"dropped_bytes", step.dropped_bytes}});
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

}  // namespace

std::string checksum_text(std::uint64_t checksum) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, checksum);
  return text;
}

ordered_json replay_json(const ReplayFlags& flags, const ReplayJob& job, const ReplayFindings& outcome) {
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
      {"checksum", if_complete(checksum_text(result.checksum))},
      {"races", result.races},
      {"race_check", flags.check},
      {"events_per_second", result.events_per_second},
      {"evicted_bytes", result.statistics.evicted_bytes},
      {"restored_bytes", result.statistics.restored_bytes},
      {"evictions", result.statistics.evictions},
      {"restores", result.statistics.restores},
      {"evictions_by_reason", by_reason(result.statistics.movements.evictions, kEvictReasonNames)},
      {"restores_by_reason", by_reason(result.statistics.movements.fetches, kFetchReasonNames)},
      {"digests", result.statistics.digests},
      {"uncopied_bytes", result.statistics.uncopied_bytes},
      {"host_waits", result.statistics.host_waits},
      {"refused", refused_json(job.trace, result)},
      {"sufficient_budget_bytes", outcome.suffices ? ordered_json(*outcome.suffices) : ordered_json(nullptr)},
      {"report", complete ? ordered_json(nullptr) : ordered_json(result.report)},
  };
}

}  // namespace thermocline
