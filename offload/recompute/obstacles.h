// SPDX-License-Identifier: Apache-2.0
// What stood in the way of dropping contents, and what did not: counted over all engines of the process, for what is
// said at its end where nothing was dropped.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "offload/planning/planner.h"

namespace thermocline {

struct RecomputeObstacles {
  // Of the last plan that drops nothing. kUnfit: there was none that fits into the budget. kInputsGone, kNotRepeatable:
  // NoDrops. kHostWaits, kUnknownAccesses: an operation of the iteration may wait for the host, or not all of its
  // accesses are known. kOtherRoles: the buffers of an iteration are not those of the one before it.
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
  std::atomic<Plan> last_plan{Plan::kNone};
  // Launches that may run again by their code, but came while an operation waited for the host, or while one ran of which
  // not all accesses are known.
  std::atomic<std::uint64_t> behind_host{0}, behind_unknown{0};
  // Of the latest operation that nobody vouches for: it may wait for the host.
  std::atomic<bool> latest_may_wait{false};
  std::atomic<std::uint64_t> rehearsals_in_vain{0};  // for lack of memory, or of a digest

  // Of the last plan that drops nothing: contents that might have been dropped, how many plans that drop some were tried,
  // what the fastest of these takes (infinite: none fits), and what copies alone do (0: no plan fits).
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
