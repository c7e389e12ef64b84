// SPDX-License-Identifier: Apache-2.0
// Reasons why contents were not dropped, counted over all engines of the process. The library prints them at exit if
// nothing was dropped.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "offload/planning/planner.h"

namespace thermocline {

struct RecomputeObstacles {
  // The reason why the last plan drops nothing. kUnfit: no plan fitted into the budget. kInputsGone, kNotRepeatable:
  // see NoDrops. kHostWaits, kUnknownAccesses: an operation of the iteration may wait for the host, or some of its
  // accesses are unknown. kOtherRoles: the buffers of an iteration are not those of the one before it.
  enum class Plan : std::uint8_t {
    kNone,
    kCopies,
    kMovesNothing,
    kUnfit,
    kInputsGone,
    kNotRepeatable,
    kHostWaits,
    kUnknownAccesses,
    kOtherRoles
  };

  std::atomic<std::uint64_t> dropping_plans{0};  // plans that drop contents
  // For tests (EngineOptions): no plan is needed, and no trial.
  std::atomic<bool> drops_all{false}, drops_by_proof{false};
  std::atomic<Plan> last_plan{Plan::kNone};
  // Launches that may run again according to their code, but came while an operation waited for the host, or while an
  // operation ran whose accesses were not all known.
  std::atomic<std::uint64_t> behind_host{0}, behind_unknown{0};
  // Whether the latest operation that nobody vouches for may wait for the host.
  std::atomic<bool> latest_may_wait{false};
  std::atomic<std::uint64_t> rehearsals_in_vain{0};  // for lack of memory, or of a digest

  // About the last plan that drops nothing: contents that might have been dropped, how many plans that drop some were
  // tried, the time of the fastest of these (infinite: none fits), and of copies alone (0: no plan fits).
  std::atomic<std::uint64_t> contents{0}, plans_tried{0};
  std::atomic<double> drops_ns{0}, copies_ns{0};
  // Where no plan fits: the operation that needs most, what it uses itself, what stays beside that in any plan, and how
  // much both may take.
  std::atomic<std::uint64_t> operation{0}, uses{0}, stays{0}, limit{0};

  void note(Plan why, const thermocline::Plan& plan, const Profile& profile, Bytes may_take);
};

struct WhyNothing {
  const char* word;      // docs/statistics.md lists them
  std::string sentence;  // without an end
};
// `evicted`: something was.
WhyNothing why_the_plan_drops_nothing(const RecomputeObstacles& of, bool evicted);

inline RecomputeObstacles& recompute_obstacles() {
  static RecomputeObstacles only;
  return only;
}

}  // namespace thermocline
