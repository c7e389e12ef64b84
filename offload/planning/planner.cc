// SPDX-License-Identifier: Apache-2.0
// Which choice of gaps (gap_choice.h) is fastest depends on where the link is idle. So many choices are tried and
// timed: several preferences, forward and backward, trimmed or not. Then single gaps of the fastest one are changed as
// long as that helps.
//
// Fetches: each buffer is fetched as late as the link allows for it to be there in time, and not before there is free
// memory for it. Earlier starts are tried and timed as well.
#include "offload/planning/planner.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "offload/planning/gap_choice.h"
#include "offload/planning/plan_timing.h"
#include "offload/planning/room.h"

namespace thermocline {
namespace {

// For longer iterations not all choices are tried, because planning would take too long.
constexpr std::size_t kFewPlaces = 4000;

class Planner {
 public:
  Planner(const Profile& profile, Bytes limit, const Link& link, bool unreturned_first)
      : profile_(profile),
        limit_(static_cast<double>(limit)),
        link_(link),
        unreturned_first_(unreturned_first),
        places_(static_cast<std::uint32_t>(profile.places())),
        timer_(profile, limit, link),
        chooser_(profile, limit_),
        lowest_(chooser_.lowest()) {
    best_.predicted_ns = kNever;
  }

  // The plan from the choice that is usually the best.
  Plan first() {
    quick_ = true;
    attempt({Preference::kReach});
    best_.index(places_);
    return std::move(best_);
  }

  // The plan from the best choice, not improved.
  Plan of_preferences(double useful_ns) {
    try_preferences(useful_ns);
    if (is_always_crowded()) attempt({Preference::kEven});
    best_.index(places_);
    return std::move(best_);
  }

  Plan best(double useful_ns) {
    try_preferences();
    if (is_hopeless(useful_ns)) {
      best_.index(places_);
      return std::move(best_);
    }
    refines_ = true;
    const Choice choice = best_choice_;
    if (is_always_crowded()) {
      attempt({Preference::kEven});
      try_reserves({Preference::kEven});
    }
    try_reserves(choice);
    reduce_reserve();
    improve();
    best_.index(places_);
    return std::move(best_);
  }

 private:
  // A choice that has been tried, and its result.
  struct Tried {
    double ns;
    Choice choice;
    ChosenUnits chosen;
  };

  // Times all choices roughly, and the fastest ones again precisely. Backward choices only where forward ones come near
  // `useful_ns`.
  void try_preferences(double useful_ns = kNever) {
    quick_ = true;
    for (const bool trims : {false, true}) {
      for (const bool backward : {false, true}) {
        if (backward && best_.predicted_ns != kNever && is_hopeless(useful_ns)) continue;
        for (const Preference preference :
             {Preference::kHidden, Preference::kReach, Preference::kIdleTime, Preference::kSize}) {
          attempt({.preference = preference, .backward = backward, .trims = trims});
        }
        for (const double sparsity : kSparsities) {
          attempt({.preference = Preference::kSparse, .backward = backward, .sparsity = sparsity, .trims = trims});
        }
      }
    }
    quick_ = false;
    for (const Tried& tried : std::exchange(fastest_, {})) take_if_faster(tried.chosen, tried.choice, kFaster);
  }

  // The duration of an iteration with this choice; infinite if there is none, or if it was tried before. Replaces the
  // best plan if it takes less than `share` of its time.
  double attempt(Choice choice, double share = kFaster) {
    choice.unreturned_first = unreturned_first_;
    const std::optional<ChosenUnits> found = chooser_.choose(choice);
    // Different preferences often give the same choice.
    if (!found || !seen_.insert(*found).second) return kNever;
    const ChosenUnits& chosen = *found;
    const double predicted_ns = take_if_faster(chosen, choice, share);
    if (!quick_ || predicted_ns == kNever) return predicted_ns;
    const auto slower = std::find_if(fastest_.begin(), fastest_.end(),
                                     [predicted_ns](const Tried& tried) { return tried.ns > predicted_ns; });
    fastest_.insert(slower, {predicted_ns, choice, chosen});
    if (fastest_.size() > kTimedAgain) fastest_.pop_back();
    return predicted_ns;
  }
  double take_if_faster(const ChosenUnits& chosen, const Choice& choice, double share) {
    Plan plan;
    plan.predicted_ns = kNever;
    consider(make_plan(chosen), &plan);
    const double predicted_ns = plan.predicted_ns;
    if (is_better(plan, share)) {
      best_ = std::move(plan);
      best_choice_ = choice;
      best_chosen_ = chosen;
    }
    return predicted_ns;
  }

  // Takes less than `share` of the best plan's time so far; or it copies less and takes no longer. A reserve, or
  // another choice for single gaps, that copies more has to save a tenth as much time, in parts of the whole.
  bool is_better(const Plan& plan, double share) const {
    if (plan.predicted_ns == kNever || best_.predicted_ns == kNever) return plan.predicted_ns < best_.predicted_ns;
    const double now = copied_bytes(plan), best = copied_bytes(best_);
    if (now < kLess * best && plan.predicted_ns <= best_.predicted_ns) return true;
    const double more = refines_ && best > 0 ? now / best - 1 : 0;
    return plan.predicted_ns < std::min(share, 1 - more / kCopiesForTime) * best_.predicted_ns;
  }
  double copied_bytes(const Plan& plan) const {
    double bytes = 0;
    for (const PlannedGap& gap : plan.gaps) {
      const double all = nonresident_bytes(gap, profile_) * profile_.buffers[gap.buffer].density();
      bytes += (gap.is_fetched ? all : 0) + all * (gap.units - gap.clean_units) / gap.units;
    }
    return bytes;
  }

  // A reserve that does not help says nothing about larger ones: in a loop over equal layers, one smaller than a layer
  // does not help, and one that has room for the next layer while this one is used hides all copies. For long
  // iterations, which have many small layers, the search ends there all the same.
  void try_reserves(Choice choice) {
    const double unit = largest_unit(best_);
    for (double units = 1; units <= kMostReserve && !is_fast(best_); units *= 2) {
      const double before_ns = best_.predicted_ns;
      choice.reserve = units * unit;
      const double now_ns = attempt(choice);
      if (places_ > kFewPlaces && now_ns != kNever && best_.predicted_ns == before_ns) return;
    }
  }
  // The smallest reserve with which an iteration takes hardly longer: every byte of reserve causes copies in both
  // directions.
  void reduce_reserve() {
    const double unit = largest_unit(best_);
    Choice choice = best_choice_;
    if (choice.reserve == 0) return;
    double enough = choice.reserve, too_little = choice.reserve / 2;
    while (enough - too_little >= 2 * unit) {
      choice.reserve = (enough + too_little) / 2;
      attempt(choice, 1 / kFaster);
      (best_choice_.reserve == choice.reserve ? enough : too_little) = choice.reserve;
    }
  }

  // Changes the number of units of one gap after the other, the largest and longest first, and chooses all others anew,
  // as long as that helps and the effort allows. With few large buffers, preferences alone are too coarse.
  void improve() {
    if (best_chosen_.empty()) return;
    quick_ = true;
    std::vector<std::uint32_t> order(chooser_.gaps().size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
      return chooser_.bytes_of(a) * chooser_.gaps()[a].idle_ns > chooser_.bytes_of(b) * chooser_.gaps()[b].idle_ns;
    });
    std::size_t effort = kImprovingPlaces / (places_ + order.size());
    for (bool improved = true; improved;) {
      improved = false;
      for (const std::uint32_t gap : order) improved |= improve(gap, &effort);
    }
    quick_ = false;
    take_if_faster(ChosenUnits(best_chosen_), best_choice_, kFaster);
  }
  bool improve(std::uint32_t gap, std::size_t* effort) {
    const std::uint32_t all = chooser_.units_in(gap), now = best_chosen_[gap];
    using Range = GapChooser::Range;
    for (const Range range : {Range{0, 0}, Range{all, all}, Range{0, now / 2}, Range{(now + all + 1) / 2, all}}) {
      if ((now >= range.least && now <= range.most) || *effort == 0 || is_fast(best_)) continue;
      --*effort;
      const Range before = chooser_.range_of(gap);
      chooser_.set_range(gap, range);
      const double before_ns = best_.predicted_ns;
      attempt(best_choice_);
      // A plan that copies less and is as fast is kept, but the search does not continue from it.
      if (best_.predicted_ns < before_ns) return true;
      chooser_.set_range(gap, before);
    }
    return false;
  }

  // Something has to be evicted at every place.
  bool is_always_crowded() const {
    return std::ranges::all_of(chooser_.live(), [this](double bytes) { return bytes > limit_; });
  }
  bool is_hopeless(double useful_ns) const { return best_.predicted_ns > kHopeless * useful_ns; }
  // No plan can be much faster: nobody waits for a copy.
  bool is_fast(const Plan& plan) const { return plan.predicted_ns * kFaster <= chooser_.compute_ns(); }

  double largest_unit(const Plan& plan) const {
    double largest = 0;
    for (const PlannedGap& gap : plan.gaps) largest = std::max(largest, nonresident_bytes(gap, profile_) / gap.units);
    return largest;
  }

  Plan make_plan(const ChosenUnits& chosen) const {
    Plan plan;
    plan.fits = true;
    for (std::uint32_t g = 0; g < chosen.size(); ++g) {
      if (chosen[g] == 0) continue;
      const Gap& gap = chooser_.gaps()[g];
      const std::uint32_t before = (gap.next_use + places_ - 1) % places_;
      plan.gaps.push_back({.buffer = gap.buffer,
                           .units = chosen[g],
                           .last_use = gap.last_use,
                           .next_use = gap.next_use % places_,
                           .fetch_after = before,
                           .is_fetched = gap.is_fetched});
    }
    find_clean_units(&plan);
    return plan;
  }

  // A buffer that has returned is clean until something may write to it. The gaps of one buffer are in order of time.
  void find_clean_units(Plan* plan) const {
    for (std::size_t first = 0, end; first < plan->gaps.size(); first = end) {
      const std::uint32_t name = plan->gaps[first].buffer;
      for (end = first; end < plan->gaps.size() && plan->gaps[end].buffer == name;) ++end;
      // A buffer that only lives across the end of the iteration is another buffer in the next one.
      const bool always = profile_.buffers[name].always;
      if (!always && profile_.buffers[name].birth > profile_.buffers[name].death) continue;
      for (std::size_t i = always ? first : first + 1; i < end; ++i) {
        const PlannedGap& before = plan->gaps[i == first ? end - 1 : i - 1];
        PlannedGap& gap = plan->gaps[i];
        if (!may_write_between(profile_.buffers[name], before.next_use, gap.last_use))
          gap.clean_units = std::min(before.units, gap.units);
      }
    }
  }
  // From one place to another, which may be in the next iteration.
  static bool may_write_between(const ProfiledBuffer& buffer, std::uint32_t from, std::uint32_t to) {
    return std::ranges::any_of(buffer.uses, [&](std::uint32_t place) {
      const bool between = from <= to ? from <= place && place <= to : from <= place || place <= to;
      return between && buffer.may_write_at(place);
    });
  }

  // Among plans with equal expected durations the first one tried is kept.
  void keep_if_faster(const Plan& plan, const PlanTiming& timing, Plan* best) const {
    if (!timing.runs || timing.iteration_ns >= kFaster * best->predicted_ns) return;
    *best = plan;
    best->predicted_ns = timing.iteration_ns;
  }

  // Times the plan with every fetch as late as possible, then with earlier and earlier fetches, using the operations'
  // start times from the last timing. Late fetches leave memory to others, but leave no margin for operations that take
  // longer than expected. So fetches that are slightly early are tried first.
  void consider(Plan plan, Plan* best) {
    plan.index(places_);
    const Plan in_the_last_moment = plan;
    const PlanTiming last_moment = timer_.time(plan);
    if (!last_moment.runs) return;
    PlanTiming timing = last_moment;
    for (const double lead : {1.2, 2.0, 4.0, 1e9}) {
      if (quick_ && lead != 2.0) continue;
      schedule_returns(timing, lead, &plan);
      plan.index(places_);
      const PlanTiming next = timer_.time(plan);
      keep_if_faster(plan, next, best);
      if (next.runs && next.iteration_ns <= timing.iteration_ns) timing = next;
    }
    keep_if_faster(in_the_last_moment, last_moment, best);
  }

  // Memory that the plan leaves free at every place while nothing is fetched early.
  std::vector<double> slack_of(const Plan& plan) const {
    std::vector<double> evicted(places_ + 1, 0);
    for (const PlannedGap& gap : plan.gaps) {
      const double bytes = nonresident_bytes(gap, profile_);
      const std::uint32_t from = (gap.last_use + 1) % places_;
      evicted[from] += bytes;
      evicted[gap.next_use] -= bytes;
      if (gap.next_use < from) evicted[0] += bytes;
    }
    std::vector<double> slack(places_, 0);
    double sum = 0;
    for (std::uint32_t q = 0; q < places_; ++q) {
      sum += evicted[q];
      slack[q] = limit_ - (chooser_.live()[q] - sum);
    }
    return slack;
  }

  // Sets fetch_after of every gap. `lead` scales the time that is allowed for a copy.
  void schedule_returns(const PlanTiming& timing, double lead, Plan* plan) const {
    // Positions count from lowest_; a gap that ends there ends at the end of the iteration that begins there.
    const auto place_at = [this](std::uint32_t position) { return (lowest_ + position) % places_; };
    const auto position_of = [this](std::uint32_t next_use) {
      return (next_use + 2 * places_ - lowest_ - 1) % places_ + 1;
    };
    const auto start = [&](std::uint32_t position) {
      return timing.starts[place_at(position)] + (lowest_ + position >= places_ ? timing.iteration_ns : 0.0);
    };
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < plan->gaps.size(); ++i) {
      if (plan->gaps[i].is_fetched) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      const std::uint32_t pa = position_of(plan->gaps[a].next_use), pb = position_of(plan->gaps[b].next_use);
      return pa != pb ? pa < pb : a < b;
    });
    std::vector<double> latest(order.size());
    double next = std::numeric_limits<double>::infinity();
    for (std::size_t i = order.size(); i-- > 0;) {
      const PlannedGap& gap = plan->gaps[order[i]];
      const double copy =
          nonresident_bytes(gap, profile_) * profile_.buffers[gap.buffer].density() / link_.in_bytes_per_ns;
      const double arrival = start(position_of(gap.next_use));
      next = std::min(arrival, next) - copy;
      latest[i] = arrival - (arrival - next) * lead;
    }
    std::vector<double> starts(places_);  // by position
    std::vector<double> slack = slack_of(*plan);
    std::rotate(slack.begin(), slack.begin() + lowest_, slack.end());
    for (std::uint32_t position = 0; position < places_; ++position) starts[position] = start(position);
    Room room(slack);
    for (std::size_t i = 0; i < order.size(); ++i) {
      PlannedGap& gap = plan->gaps[order[i]];
      const double bytes = nonresident_bytes(gap, profile_);
      const std::uint32_t next_use = position_of(gap.next_use);
      // number of places at which it is evicted
      const std::uint32_t span = (gap.next_use + places_ - gap.last_use - 1) % places_;
      // The buffer is on the device from `at` on.
      const auto in_time = std::lower_bound(starts.begin(), starts.begin() + next_use, latest[i] - kHostLeadNs);
      const std::size_t at =
          std::max({next_use > span ? std::size_t{next_use - span} : std::size_t{0},
                    static_cast<std::size_t>(in_time - starts.begin()), room.first_with(bytes, next_use)});
      room.take(at, next_use, bytes);
      gap.fetch_after = place_at(static_cast<std::uint32_t>(at) + places_ - 1);
    }
  }

  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr double kMostReserve = 32;  // eviction units
  static constexpr double kFaster = 0.999;
  static constexpr double kLess = 0.99, kCopiesForTime = 10;
  // Reserves, changes of single gaps and other choices gain less than this factor on what the best preference gives.
  static constexpr double kHopeless = 1.15;
  // Time for the host to map pages before the copy can begin.
  static constexpr double kHostLeadNs = 200e3;

  // Values tried for kSparse. The choice matters if buffers fill their pages badly: then more has to be evicted than
  // the budget lacks.
  static constexpr std::array kSparsities{0.5, 1.0, 1.5, 2.0, 4.0};
  static constexpr std::size_t kTimedAgain = 3;
  // Effort for improving a plan, as places to simulate and gaps to choose from: about a tenth of a second.
  static constexpr std::size_t kImprovingPlaces = 150'000;

  const Profile& profile_;
  const double limit_;
  const Link& link_;
  const bool unreturned_first_;  // of every choice
  const std::uint32_t places_;
  PlanTimer timer_;
  GapChooser chooser_;
  const std::uint32_t lowest_;  // the place with the fewest live bytes
  std::set<ChosenUnits> seen_;  // choices that have been tried
  std::vector<Tried> fastest_;  // of the roughly timed choices, fastest first
  bool quick_ = false;
  bool refines_ = false;  // the preferences have been tried
  Choice best_choice_{Preference::kHidden};
  ChosenUnits best_chosen_;
  Plan best_;
};

}  // namespace

void Plan::index(std::size_t places) {
  evictions.assign(places, gaps.size(), [this](std::uint32_t i) { return gaps[i].last_use; });
  fetches.assign(places, gaps.size(),
                 [this](std::uint32_t i) { return gaps[i].is_fetched ? gaps[i].fetch_after : ByPlace::kNone; });
  // In the order in which they are needed.
  for (std::size_t q = 0; q < places; ++q) {
    const std::span<std::uint32_t> here = fetches[q];
    if (here.size() < 2) continue;
    std::sort(here.begin(), here.end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto distance = [&](std::uint32_t i) { return (gaps[i].next_use + places - q) % places; };
      return distance(a) != distance(b) ? distance(a) < distance(b) : a < b;
    });
  }
}

Plan plan_iteration(const Profile& profile, Bytes limit, const Link& link, PlanEffort effort, double useful_ns) {
  if (effort == PlanEffort::kQuick) return Planner(profile, limit, link, false).first();
  if (effort == PlanEffort::kMedium) {
    Plan plan = Planner(profile, limit, link, false).of_preferences(useful_ns);
    return plan.fits ? std::move(plan) : Planner(profile, limit, link, true).of_preferences(useful_ns);
  }
  Plan plan = Planner(profile, limit, link, false).best(useful_ns);
  if (profile.places() > kFewPlaces) return plan;
  Plan other = Planner(profile, limit, link, true).best(useful_ns);
  return other.predicted_ns < plan.predicted_ns ? std::move(other) : std::move(plan);
}

}  // namespace thermocline
