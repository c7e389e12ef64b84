// SPDX-License-Identifier: Apache-2.0
// Looks for settings under which a program is fastest, and for the least memory in which it runs. What a setting is
// worth is asked of the caller, who replays the program (tool/replay_meter.h); nothing is accepted unasked.
//
// The search is a descent along one setting after the other, from where the caller begins, until no single change
// helps. So its result is never worse than its beginning. It is greedy: two changes that only help together are not
// found.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "driver/units.h"
#include "offload/engine/engine.h"

namespace thermocline {

// The settings that matter to a replay and may be chosen freely: none changes what a program computes.
struct Knobs {
  const PolicyEntry* policy = EngineOptions{}.policy;
  Safety safety = EngineOptions{}.safety;
  Bytes min_offload_bytes = EngineOptions{}.min_offload_bytes;
  unsigned low_water_percent = EngineOptions{}.low_water_percent;
  unsigned clean_reserve_percent = EngineOptions{}.clean_reserve_percent;

  friend bool operator==(const Knobs&, const Knobs&) = default;
};

struct KnobWorth {
  double step_ms = 0;  // of a steady step; what counts
  double all_ms = 0;   // of all steps, those before learning too; decides between equal steps
};

// None: the program does not run with these settings.
using AskWorth = std::function<std::optional<KnobWorth>(const Knobs&)>;

struct KnobSearch {
  Knobs best;
  std::optional<KnobWorth> begin, worth;  // of the first settings, and of `best`
  std::size_t asked = 0;
};

// `may_trust`: trusting safety may be chosen, which is for programs all of whose accesses are known.
KnobSearch search_knobs(const Knobs& begin, bool may_trust, const AskWorth& ask);

// The least budget, in steps of `grain`, that `runs` accepts within (low, high]; none where `high` is refused. As good
// as the assumption that whatever runs, runs with more.
std::optional<Bytes> least_budget(Bytes low, Bytes high, Bytes grain, const std::function<bool(Bytes)>& runs);

}  // namespace thermocline
