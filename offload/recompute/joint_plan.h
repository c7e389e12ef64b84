// SPDX-License-Identifier: Apache-2.0
// Plans recomputing and swapping together. Buffers to be dropped are ranked: by bytes freed for each second of
// recomputing, including the cost for others that are dropped already. The first ones of the ranking are dropped, for
// several lengths of that list. Each length gives a rewritten iteration (rewriting.h), for which the planner adds
// copies and computes times. The fastest is the plan. The lengths include none dropped (copies alone) and everything
// useful dropped (hardly any copies). If nothing fits, short gaps are dropped as well; if the plan is slow, or there is
// none, equal segments (segment_schedules.h) are tried, too.
//
// Pure functions of their arguments; thread-safe.
#pragma once

#include <vector>

#include "offload/options.h"
#include "offload/planning/planner.h"
#include "offload/recompute/lineage.h"
#include "offload/recompute/rewriting.h"
#include "offload/recompute/schedule.h"

namespace thermocline {

// Plan::rewriting says what is dropped and recomputed; null: nothing. `effort`: of the search for copies. kQuick is for
// plans without copies: the first choice of copies shows whether any are needed, and plans that need some do not guide
// the search.
Plan plan_jointly(const Profile& profile, const Lineage& lineage, Bytes limit, const Link& link,
                  Mapping mapping = Mapping::kEachTime, RecomputePlans plans = RecomputePlans::kJoint,
                  PlanEffort effort = PlanEffort::kFull);

// The fastest of the schedules that fits, without copies.
Plan plan_scheduled(const Profile& profile, const Lineage& lineage, Bytes limit, const Link& link, Mapping mapping,
                    const ScheduleSource& source);

}  // namespace thermocline
