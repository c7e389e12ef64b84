// SPDX-License-Identifier: Apache-2.0
#include "trace/tuning.h"

#include <array>

namespace thermocline {
namespace {

// Smaller gains are ignored: relative, for one step; and for all steps, if one step takes equally long.
constexpr double kGain = 0.0005;
constexpr double kGainOfAll = 0.005;

bool is_better(const std::optional<KnobWorth>& a, const std::optional<KnobWorth>& b, bool for_first_steps) {
  if (!a) return false;
  if (!b || a->step_ms < b->step_ms * (1 - kGain)) return true;
  return for_first_steps && a->step_ms <= b->step_ms && a->all_ms < b->all_ms * (1 - kGainOfAll);
}

using Change = std::function<void(Knobs&)>;

struct Setting {
  std::vector<Change> changes;
  // Whether a gain in the first steps alone is enough to change the setting. True for settings that only affect running
  // without a plan. False for settings that limit what can be evicted: they cost time if memory is shorter than here.
  bool for_first_steps = false;
};

template <auto member, typename Values>
std::vector<Change> changes_of(const Values& values) {
  std::vector<Change> changes;
  changes.reserve(values.size());
  for (const auto value : values) changes.push_back([value](Knobs& knobs) { knobs.*member = value; });
  return changes;
}

std::vector<Setting> all_settings(KnobTerms terms) {
  std::vector<const PolicyEntry*> policies;
  for (const PolicyEntry& policy : kPolicies) {
    if (policy.evicts() && !policy.for_comparison) policies.push_back(&policy);
  }
  constexpr std::array kSafeties = {Safety::kTrusting, Safety::kStrict};
  constexpr std::array kRecompute = {Recompute::kAuto, Recompute::kOff};
  constexpr std::array<Bytes, 9> kSmallest = {16 * kKiB, 128 * kKiB, 512 * kKiB, kMiB,     2 * kMiB,
                                              4 * kMiB,  8 * kMiB,   16 * kMiB,  32 * kMiB};
  constexpr std::array<Bytes, 4> kPages = {2 * kMiB, 4 * kMiB, 8 * kMiB, 16 * kMiB};
  constexpr std::array kLowWater = {10U, 20U, 30U, 40U, 50U, 60U, 70U, 80U, 90U};
  constexpr std::array kReserve = {0U, 10U, 25U, 40U, 60U};
  std::vector<Setting> all = {{changes_of<&Knobs::policy>(policies)}};
  if (terms.recompute) all.push_back({changes_of<&Knobs::recompute>(kRecompute)});
  if (terms.trusting) all.push_back({changes_of<&Knobs::safety>(kSafeties)});
  all.push_back({changes_of<&Knobs::page_bytes>(kPages)});
  all.push_back({changes_of<&Knobs::min_offload_bytes>(kSmallest)});
  all.push_back({changes_of<&Knobs::low_water_percent>(kLowWater), true});
  all.push_back({changes_of<&Knobs::clean_reserve_percent>(kReserve), true});
  return all;
}

}  // namespace

KnobSearch search_knobs(const Knobs& begin, KnobTerms terms, const AskWorth& ask) {
  KnobSearch search{.best = begin, .begin = ask(begin), .worth = {}, .asked = 1};
  search.worth = search.begin;
  const std::vector<Setting> all = all_settings(terms);
  // Settings tried since the last gain. When all have been tried without one, no single change helps.
  std::size_t unhelped = 0;
  for (std::size_t at = 0; unhelped < all.size(); at = (at + 1) % all.size()) {
    const Knobs before = search.best;
    for (const Change& change : all[at].changes) {
      Knobs knobs = before;
      change(knobs);
      if (knobs == search.best || knobs == before) continue;
      ++search.asked;
      const std::optional<KnobWorth> worth = ask(knobs);
      if (!is_better(worth, search.worth, all[at].for_first_steps)) continue;
      search.best = knobs;
      search.worth = worth;
    }
    unhelped = search.best == before ? unhelped + 1 : 0;
  }
  // Settings that were chosen later may have made recomputing unnecessary.
  if (search.best.recompute == begin.recompute) return search;
  Knobs without = search.best;
  without.recompute = begin.recompute;
  ++search.asked;
  const std::optional<KnobWorth> worth = ask(without);
  if (!is_better(search.worth, worth, false)) {
    search.best = without;
    search.worth = worth;
  }
  return search;
}

std::optional<Bytes> least_budget(Bytes low, Bytes high, Bytes grain, const std::function<bool(Bytes)>& runs) {
  Bytes fails = low / grain, works = (high + grain - 1) / grain;
  if (!runs(works * grain)) return std::nullopt;
  while (works > fails + 1) {
    const Bytes middle = fails + (works - fails) / 2;
    (runs(middle * grain) ? works : fails) = middle;
  }
  return works * grain;
}

}  // namespace thermocline
