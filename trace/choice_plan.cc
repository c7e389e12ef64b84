// SPDX-License-Identifier: Apache-2.0
#include "trace/choice_plan.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "trace/choice_costs.h"

namespace thermocline {
namespace {

// The numbers of changes that are tried first, evenly spaced.
constexpr std::size_t kLengths = 8;
// The number of selections that are planned, if a step has at most this many operators; fewer if it has more.
constexpr std::size_t kMostPlanned = 64, kFewOperators = 500;
constexpr std::size_t kLeastPlanned = 14;

class Chooser {
 public:
  Chooser(const TraceFamily& family, const DeviceRates& rates, Bytes budget, std::optional<StepPlanKind> plans)
      : family_(family),
        rates_(rates),
        budget_(budget),
        plans_(plans),
        effort_(std::clamp(kMostPlanned * kFewOperators / std::max<std::size_t>(operators(), 1), kLeastPlanned,
                           kMostPlanned)),
        best_selection_(recorded()) {}

  ChoicePlan run() {
    attempt(recorded());
    const ChoiceCosts costs(family_, rates_);
    fastest_ = costs.fastest();
    switches_ = costs.switches(fastest_, budget_);
    sweep();
    change_single_ones();
    return confirmed();
  }

 private:
  ChoiceSelection recorded() const { return ChoiceSelection(family_.recorded().choices.size(), 0); }
  std::size_t operators() const { return last_step_operators(family_.recorded()); }

  ChoiceSelection with_first(std::size_t switches) const {
    ChoiceSelection selection = fastest_;
    for (std::size_t i = 0; i < switches; ++i) selection[switches_[i].choice] = switches_[i].alternative;
    return selection;
  }

  // True if it is the best so far.
  bool attempt(const ChoiceSelection& selection) {
    const auto [at, is_new] = known_.try_emplace(selection);
    if (!is_new) return false;
    at->second = plan_selection(family_, selection, rates_, budget_, plans_,
                                operators() <= kFewOperators ? PlanEffort::kFull : PlanEffort::kQuick);
    if (known_.size() > 1 && !at->second.is_better_than(best_)) return false;
    best_ = at->second;
    best_selection_ = selection;
    return true;
  }
  bool is_exhausted() const { return known_.size() >= effort_; }

  void sweep() {
    const std::size_t all = switches_.size();
    std::size_t best = 0;
    const auto try_length = [&](std::size_t length) {
      if (attempt(with_first(length))) best = length;
    };
    for (std::size_t i = 0; i <= kLengths; ++i) try_length(all * i / kLengths);
    for (std::size_t step = all / kLengths / 2 + 1; !is_exhausted(); step /= 2) {
      const std::size_t middle = best;
      if (middle >= step) try_length(middle - step);
      try_length(std::min(all, middle + step));
      if (step == 1) break;
    }
  }

  // Changes one choice at a time, then two, as long as that helps.
  void change_single_ones() {
    while (!is_exhausted() && (change_one(best_selection_, 0) || change_two())) {
    }
  }

  // Changes one of the choices from `first` on, starting from `selection`; true if something better was found.
  bool change_one(const ChoiceSelection& selection, std::uint32_t first) {
    bool improved = false;
    for (std::uint32_t c = first; c < selection.size(); ++c) {
      for (std::uint32_t a = 0; a < family_.recorded().choices[c].alternatives.size() && !is_exhausted(); ++a) {
        ChoiceSelection changed = selection;
        changed[c] = a;
        improved = attempt(changed) || improved;
      }
    }
    return improved;
  }

  bool change_two() {
    const ChoiceSelection from = best_selection_;
    for (std::uint32_t c = 0; c < from.size() && !is_exhausted(); ++c) {
      for (std::uint32_t a = 0; a < family_.recorded().choices[c].alternatives.size(); ++a) {
        ChoiceSelection changed = from;
        changed[c] = a;
        if (a != from[c] && change_one(changed, c + 1)) return true;
      }
    }
    return false;
  }

  // Compares the best selection with the recorded one again, with plans of full effort.
  ChoicePlan confirmed() {
    const auto fully = [this](const ChoiceSelection& selection) {
      return plan_selection(family_, selection, rates_, budget_, plans_, PlanEffort::kFull);
    };
    PlannedSelection best = fully(best_selection_);
    if (best_selection_ != recorded()) {
      const PlannedSelection as_recorded = fully(recorded());
      if (!best.is_better_than(as_recorded)) {
        best = as_recorded;
        best_selection_ = recorded();
      }
    }
    return {.selection = best_selection_, .fits = best.fits, .step_ms = best.step_ms, .planned = known_.size()};
  }

  const TraceFamily& family_;
  const DeviceRates& rates_;
  const Bytes budget_;
  const std::optional<StepPlanKind> plans_;
  const std::size_t effort_;
  ChoiceSelection fastest_;
  std::vector<ChoiceCosts::Switch> switches_;
  std::map<ChoiceSelection, PlannedSelection> known_;
  ChoiceSelection best_selection_;
  PlannedSelection best_;
};

}  // namespace

bool PlannedSelection::is_better_than(const PlannedSelection& other) const {
  constexpr double kFaster = 0.999;
  if (fits != other.fits) return fits;
  return fits ? step_ms < kFaster * other.step_ms : least_bytes < other.least_bytes;
}

PlannedSelection plan_selection(const TraceFamily& family, const ChoiceSelection& selection, const DeviceRates& rates,
                                Bytes budget, std::optional<StepPlanKind> plans, PlanEffort effort) {
  Trace trace;
  TraceError error;
  // A selection that no device could hold does not fit.
  if (!family.take(selection, &trace, &error)) return {.fits = false, .step_ms = 0, .least_bytes = ~Bytes{0}};
  const StepTerms terms = StepTerms::free_for(trace, last_step_operators(trace));
  const StepPlan plan = plans ? plan_step(trace, rates, budget, terms, *plans, effort)
                              : plan_step(trace, rates, ~Bytes{0}, terms, StepPlanKind::kOffload);
  const bool fits = plans ? plan.fits : plan.whole_peak_bytes <= budget;
  const Bytes least = plans ? least_memory(trace, terms).bytes : plan.whole_peak_bytes;
  return {.fits = fits, .step_ms = plan.step_ms, .least_bytes = least};
}

ChoicePlan choose_alternatives(const TraceFamily& family, const DeviceRates& rates, Bytes budget,
                               std::optional<StepPlanKind> plans) {
  return Chooser(family, rates, budget, plans).run();
}

}  // namespace thermocline
