// SPDX-License-Identifier: Apache-2.0
// A schedule says which contents are dropped, and where they are recomputed; rewriting.h turns it into an iteration. A
// source of schedules is a published policy with which the joint plan is compared.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "driver/units.h"
#include "offload/planning/profile.h"
#include "offload/recompute/lineage.h"
#include "offload/recompute/rewriting.h"

namespace thermocline {

struct Schedule {
  std::vector<Drop> drops;
  std::uint32_t kept_for = 0;                   // RewritingTerms::kept_for
  std::vector<Recomputation> recomputations{};  // by place
};

// kImpossible: something cannot be recomputed in this way, or only by a recipe that is too long.
enum class ScheduleFit { kFits, kTooLarge, kImpossible };

// Thread-safe, because planning runs on a separate thread.
class ScheduleSource {
 public:
  virtual ~ScheduleSource() = default;
  // The planner takes the fastest schedule that fits without copies (plan_scheduled in joint_plan.h).
  virtual std::vector<Schedule> schedules(const Profile& profile, const Lineage& lineage, Bytes limit) const = 0;
  // Calls `plan` for each schedule that may be the fastest that fits, one after the other.
  virtual void search(const Profile& profile, const Lineage& lineage, Bytes limit,
                      const std::function<ScheduleFit(const Schedule&)>& plan) const {
    for (const Schedule& schedule : schedules(profile, lineage, limit)) plan(schedule);
  }
  // Why there are no schedules for iterations like this one; empty: there are.
  virtual std::string why_none(const Profile& /*profile*/, const Lineage& /*lineage*/) const { return ""; }
};

}  // namespace thermocline
