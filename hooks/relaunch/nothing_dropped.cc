// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/nothing_dropped.h"

#include <algorithm>

#include "driver/quantity.h"
#include "hooks/interpose/process_lifetime.h"
#include "offload/policies.h"

namespace thermocline {
namespace {

// The reason if some kernels may run again by their code, but none of them has been promoted.
NothingDropped untried(const EngineStatistics& statistics, const std::vector<KernelVerdict>& verdicts,
                       std::uint64_t in_vain) {
  std::uint64_t rehearsed = 0, given_up = 0, demoted = 0, kernels = 0;
  for (const KernelVerdict& one : verdicts) {
    if (one.reruns_allowed() == 0) continue;
    ++kernels;
    rehearsed += one.rehearsed;
    given_up += one.state == KernelTrial::State::kGivenUp;
    demoted += one.state == KernelTrial::State::kDemoted;
  }
  if (statistics.digests_unavailable > 0) return {"no_digests", "the device computes no digests to compare results by"};
  if (demoted == kernels) return {"demoted", "all kernels that may run again gave other results when they did"};
  if (demoted + given_up == kernels) {
    return {"given_up",
            "kernels that may run again were given up: their rehearsals came to nothing, for lack of room for "
            "the scratch memory or of digests" +
                (demoted > 0 ? "; " + quantity(demoted, "other") + " gave other results" : std::string())};
  }
  if (in_vain > 0) {
    return {"no_scratch_memory", "kernels are still on trial: " + quantity(in_vain, "rehearsal") +
                                     " came to nothing, for lack of room for the scratch memory or of digests"};
  }
  return {"on_trial", "kernels are still on trial: " + quantity(rehearsed, "rehearsal") +
                          " came out, and each kernel needs " + std::to_string(KernelTrial::kEqualRehearsals) +
                          " once half of the budget is in use"};
}

}  // namespace

NothingDropped forbidden_by(const Settings& settings) {
  if (!settings.policy->plans)
    return {"policy",
            std::string("policy = \"") + settings.policy->name + "\" makes no plan; " + planning_policies() + " does"};
  if (settings.host_fallback == HostFallback::kFull)
    return {"host_fallback", "with host_fallback = \"full\" nothing may be dropped"};
  if (settings.debug == DebugMode::kGuard) return {"debug_guard", "with debug = \"guard\" nothing may be dropped"};
  if (settings.audit) return {"audit", "in an audit nothing may be dropped"};
  return {};
}

const NothingDropped& forbidden_by_settings() { return process_lifetime<NothingDropped>(); }

NothingDropped why_nothing_was_dropped(const EngineStatistics& statistics, const std::vector<KernelVerdict>& verdicts,
                                       const RecomputeObstacles& obstacles, const NothingDropped& forbidden) {
  if (statistics.dropped_buffers > 0) return {};
  if (!forbidden.word.empty()) return forbidden;
  const auto may = static_cast<std::uint64_t>(
      std::ranges::count_if(verdicts, [](const KernelVerdict& one) { return one.reruns_allowed() > 0; }));
  // Until then launches are not analyzed.
  if (2 * statistics.peak_device_bytes <= statistics.budget_bytes)
    return {"budget_not_needed", "no more than half of the budget was ever in use"};
  if (may == 0) return {"no_kernel", "no kernel may run again"};
  const auto most = [&](std::uint64_t launches) { return 2 * launches > statistics.rerunnable_launches; };
  if (most(obstacles.behind_host))
    return {"host_waits", "launches came while an operation was waiting for the host (a host function, a value)"};
  if (most(obstacles.behind_host + obstacles.behind_unknown))
    return {"unknown_accesses", "launches came while an operation ran of which not all accesses are known"};
  const auto is_promoted = [](const KernelVerdict& one) { return one.state == KernelTrial::State::kPromoted; };
  if (!obstacles.drops_by_proof && std::ranges::none_of(verdicts, is_promoted))
    return untried(statistics, verdicts, obstacles.rehearsals_in_vain);
  if (obstacles.drops_all)
    return {"not_possible", "what could be dropped was in use, pinned, or without a digest at each operation"};
  if (statistics.plans == 0) return {"no_plan", "no plan was made: the program did not repeat itself often enough"};
  if (obstacles.dropping_plans == 0) {
    // The plan of the last iteration may not be of those that did not fit.
    const WhyNothing why = why_the_plan_drops_nothing(obstacles, statistics.evictions > 0);
    return {why.word, why.sentence};
  }
  return {"not_possible", "what the plan drops was in use, pinned, or without a digest when its turn came"};
}

std::string nothing_dropped_text(const NothingDropped& why) {
  return why.word.empty() ? "" : "  nothing was dropped to be recomputed: " + why.sentence + "\n";
}

std::string nothing_dropped_json(const NothingDropped& why) {
  if (why.word.empty()) return "\"nothing_dropped\": null";
  std::string sentence;
  for (const char c : why.sentence) sentence += c == '"' ? std::string("\\\"") : std::string(1, c);
  return "\"nothing_dropped\": {\"why\": \"" + why.word + "\", \"sentence\": \"" + sentence + "\"}";
}

}  // namespace thermocline
