// SPDX-License-Identifier: Apache-2.0
// Plans recomputing and swapping together. Buffers are chosen to be dropped, best first: bytes for each second that
// recomputing takes, with what that costs others that are dropped already. The first so many of them are dropped, for a
// number of lengths of that list; each length makes a rewritten iteration (rewriting.h), which the planner completes
// with copies and times. The fastest is the plan: none dropped (copies alone) and all that are of any use (hardly any
// copies) are among them.
//
// Pure functions of their arguments; thread-safe.
#pragma once

#include <vector>

#include "offload/options.h"
#include "offload/planning/planner.h"
#include "offload/recompute/lineage.h"
#include "offload/recompute/rewriting.h"

namespace thermocline {

// In the order in which they are chosen. `limit`: what is not live where more is live than that is left alone.
// `ns_per_drop`: beside what runs again. `kept_for`: RewritingTerms.
std::vector<Drop> rank_drops(const Profile& profile, const Lineage& lineage, Bytes limit, double ns_per_drop = 0,
                             std::uint32_t kept_for = 40);

// Plan::rewriting says what is dropped and recomputed; null: nothing.
Plan plan_jointly(const Profile& profile, const Lineage& lineage, Bytes limit, const Link& link,
                  Mapping mapping = Mapping::kEachTime, RecomputePlans plans = RecomputePlans::kJoint);

// What is dropped where the forward pass, which ends where most is live, is cut into so many segments.
std::vector<Drop> segment_drops(const Profile& profile, const Lineage& lineage, std::uint32_t segments);

}  // namespace thermocline
