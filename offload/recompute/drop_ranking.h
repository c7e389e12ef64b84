// SPDX-License-Identifier: Apache-2.0
// Which contents are dropped first: those that free the most bytes for each second of recomputing. Each choice makes others
// more expensive, if they are computed from what it drops; that counts.
//
// Pure functions of their arguments; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/planning/planner.h"
#include "offload/recompute/lasting_contents.h"
#include "offload/recompute/lineage.h"
#include "offload/recompute/rewriting.h"

namespace thermocline {

// kPlain: without short gaps of large buffers, and without contents that need kept inputs. If these look cheap and
// crowd out others, lists without them are better. kShort: includes short gaps of small buffers.
enum class Candidates { kAll, kPlain, kShort };

struct RankingTerms {
  Bytes limit = 0;              // only buffers that are live where live bytes exceed it are dropped
  double ns_per_drop = 0;       // cost of a drop in addition to what runs again
  std::uint32_t kept_for = 40;  // see RewritingTerms
  Candidates which = Candidates::kAll;
};

struct RankedDrops {
  std::vector<Drop> drops;              // in the order in which they are chosen
  bool has_special = false;             // some candidates are not plain
  NoDrops why_none = NoDrops::kSlower;  // if there are no drops
};

RankedDrops rank_drops(const Profile& profile, const Lineage& lineage, const LastingContents& lasting,
                       const RankingTerms& terms);

}  // namespace thermocline
