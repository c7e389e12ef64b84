// SPDX-License-Identifier: Apache-2.0
// Searches for the settings with which a program is fastest, and for the least memory in which it runs. The caller
// evaluates settings by replaying the program (tool/replay_meter.h); the search accepts nothing that has not been
// evaluated.
//
// The search is a descent along one setting after the other, starting from the caller's settings, until no single
// change helps. So the result is never worse than the start. It is greedy: two changes that only help together are not
// found.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "driver/units.h"
#include "offload/engine/engine.h"

namespace thermocline {

// The settings that affect a replay and may be chosen freely: none changes what a program computes.
struct Knobs {
  const PolicyEntry* policy = EngineOptions{}.policy;
  Safety safety = EngineOptions{}.safety;
  Bytes page_bytes = 0;  // 0: chosen by the budget (offload/page_bytes.h)
  Bytes min_offload_bytes = EngineOptions{}.min_offload_bytes;
  unsigned low_water_percent = EngineOptions{}.low_water_percent;
  unsigned clean_reserve_percent = EngineOptions{}.clean_reserve_percent;
  Recompute recompute = EngineOptions{}.recompute;

  friend bool operator==(const Knobs&, const Knobs&) = default;
};

struct KnobWorth {
  double step_ms = 0;  // duration of a steady step: the objective
  double all_ms = 0;   // of all steps, including those before learning; decides between equal step_ms
};

// Nothing: the program does not run with these settings.
using AskWorth = std::function<std::optional<KnobWorth>(const Knobs&)>;

struct KnobSearch {
  Knobs best;
  std::optional<KnobWorth> begin, worth;  // of the initial settings, and of `best`
  std::size_t asked = 0;
};

// Choices that need a guarantee about the program.
struct KnobTerms {
  bool trusting = false;   // trusting safety: all accesses of the program are known
  bool recompute = false;  // recomputing: the reads and writes of each operator are known
};

// Chooses recomputing only if the step is slower without it, whatever else has been chosen.
KnobSearch search_knobs(const Knobs& begin, KnobTerms terms, const AskWorth& ask);

// The least budget, in steps of `grain`, within (low, high] for which `runs` is true; nothing if it is false for
// `high`. Assumes that a program that runs with a budget also runs with a larger one.
std::optional<Bytes> least_budget(Bytes low, Bytes high, Bytes grain, const std::function<bool(Bytes)>& runs);

}  // namespace thermocline
