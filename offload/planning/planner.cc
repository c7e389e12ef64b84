// SPDX-License-Identifier: Apache-2.0
// Choosing gaps is covering: at every place, the gaps chosen across it must hold what exceeds the limit. Sweeping over
// the places and taking, where it is needed, the gap that reaches farthest is Belady's rule on intervals; sweeping
// backward takes the one that began first. Which is faster depends on where the link is idle, so both are tried, with
// preferences for length and size, and timed. Of a gap only as many parts are taken as are needed.
//
// Coming back: each buffer as late as the link allows if it is to be there in time, and no earlier than the memory that
// is free by then allows; earlier starts are tried as well, and timed.
#include "offload/planning/planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>
#include <set>

#include "offload/planning/plan_timing.h"
#include "offload/planning/room.h"

namespace thermocline {
namespace {

// A gap that could be used, in places: the buffer may be away strictly between leave and arrive. arrive > leave always;
// it is beyond the end of the iteration when the buffer comes back in the next one.
struct Gap {
  std::uint32_t buffer;
  std::uint32_t leave, arrive;
  double idle_ns;
};

// Part of a gap in the coordinates of a sweep; covers the steps strictly between.
struct Interval {
  std::int64_t begin, end;
  double key;
  std::uint32_t gap;
};

// kHidden: what slow operators produce or consume goes first, for its transfer hides behind them, and of that what is
// away longest. Which operators are slow has been measured, or is guessed from their class (learned.cc).
// kEven: what is away leaves and returns all over the iteration, and of many buffers a part each: where memory is full
// all the time, as in a loop over equal layers, copies must not come all at once.
enum class Preference { kHidden, kReach, kSparse, kIdleTime, kSize, kEven };

// In a sweep: the one with the highest key is taken first.
struct Candidate {
  double key;
  std::uint32_t gap, interval;
  bool operator<(const Candidate& other) const { return key != other.key ? key < other.key : gap > other.gap; }
};
// More than keys of evenness differ.
constexpr double kNextRound = 2;

// How gaps are chosen. `reserve`: bytes that are left free, so that one buffer may arrive while another one leaves.
struct Choice {
  Preference preference;
  bool backward = false;
  double reserve = 0;
};

// Of 0, 1, 2, ... in [0, 1): those above any threshold are spread evenly among all (Weyl; the golden ratio, for it is
// the least well approximated by fractions).
double scattered(std::size_t n) {
  constexpr double kGolden = 0.61803398874989484820;
  const double value = static_cast<double>(n) * kGolden;
  return value - std::floor(value);
}

class Planner {
 public:
  Planner(const Profile& profile, Bytes limit, const Link& link)
      : profile_(profile),
        limit_bytes_(limit),
        limit_(static_cast<double>(limit)),
        link_(link),
        places_(static_cast<std::uint32_t>(profile.places())) {
    clock_.assign(places_ + 1, 0);
    for (std::uint32_t q = 0; q < places_; ++q) clock_[q + 1] = clock_[q] + static_cast<double>(profile.nanoseconds[q]);
    find_gaps();
    sum_live();
    find_slowness();
    find_evenness();
    best_.predicted_ns = kNever;
    lowest_ = static_cast<std::uint32_t>(std::min_element(live_.begin(), live_.end()) - live_.begin());
  }

  // Of the choice that is best most of the time.
  Plan first() {
    quick_ = true;
    attempt({Preference::kReach});
    best_.index(places_);
    return std::move(best_);
  }

  Plan best() {
    for (const bool backward : {false, true}) {
      for (const Preference preference :
           {Preference::kHidden, Preference::kReach, Preference::kSparse, Preference::kIdleTime, Preference::kSize}) {
        attempt({preference, backward});
      }
    }
    const Choice choice = best_choice_;
    if (std::all_of(live_.begin(), live_.end(), [this](double live) { return live > limit_; })) {
      try_reserves({Preference::kEven}, attempt({Preference::kEven}));
    }
    try_reserves(choice, best_.predicted_ns);
    reduce_reserve();
    best_.index(places_);
    return std::move(best_);
  }

 private:
  // How long an iteration takes with what is chosen so; infinite where that is none, or one that was tried before.
  // Replaces the best where it takes less than `share` of its time.
  double attempt(const Choice& choice, double share = kFaster) {
    const std::vector<std::uint32_t> chosen = choose(choice);
    // Preferences often agree.
    if (chosen.empty() || !seen_.insert(chosen).second) return kNever;
    Plan plan;
    plan.predicted_ns = kNever;
    consider(make_plan(chosen), &plan);
    const double predicted_ns = plan.predicted_ns;
    if (predicted_ns < share * best_.predicted_ns) {
      best_ = std::move(plan);
      best_choice_ = choice;
    }
    return predicted_ns;
  }

  // More and more room, while that helps. `before_ns`: without.
  void try_reserves(const Choice& choice, double before_ns) {
    const double part = largest_part(best_);
    for (double parts = 1; parts <= kMostReserve && !is_fast(best_); parts *= 2) {
      const double now_ns = attempt({choice.preference, choice.backward, parts * part});
      if (now_ns >= kFaster * before_ns) return;
      before_ns = now_ns;
    }
  }
  // The least room with which an iteration takes hardly longer: every part of it crosses the link both ways.
  void reduce_reserve() {
    const double part = largest_part(best_);
    const Choice choice = best_choice_;
    if (choice.reserve == 0) return;
    double enough = choice.reserve, too_little = choice.reserve / 2;
    while (enough - too_little >= 2 * part) {
      const double middle = (enough + too_little) / 2;
      attempt({choice.preference, choice.backward, middle}, 1 / kFaster);
      (best_choice_.reserve == middle ? enough : too_little) = middle;
    }
  }
  // No plan can be much faster: nobody waits for a copy.
  bool is_fast(const Plan& plan) const { return plan.predicted_ns * kFaster <= clock_[places_]; }

  double largest_part(const Plan& plan) const {
    double largest = 0;
    for (const PlannedGap& gap : plan.gaps) largest = std::max(largest, nonresident_bytes(gap, profile_) / gap.parts);
    return largest;
  }

  void find_gaps() {
    for (std::uint32_t i = 0; i < profile_.buffers.size(); ++i) {
      const ProfiledBuffer& buffer = profile_.buffers[i];
      const bool goes_round = buffer.always || buffer.birth > buffer.death;
      for (std::size_t u = 0; u + 1 < buffer.uses.size(); ++u) {
        // A buffer that goes round is dead between its death and its birth.
        const bool dead =
            goes_round && !buffer.always && buffer.uses[u] <= buffer.death && buffer.uses[u + 1] >= buffer.birth;
        if (!dead) add_gap(i, buffer.uses[u], buffer.uses[u + 1]);
      }
      if (goes_round && !buffer.uses.empty()) add_gap(i, buffer.uses.back(), buffer.uses.front() + places_);
    }
  }
  void add_gap(std::uint32_t buffer, std::uint32_t leave, std::uint32_t arrive) {
    if (arrive > leave + 1) gaps_.push_back({buffer, leave, arrive, time_at(arrive) - time_at(leave + 1)});
  }
  void find_slowness() {
    slowness_.assign(places_, 0);
    std::vector<double> all;
    for (std::uint32_t q = 0; q < places_; ++q) {
      Bytes bytes = 0;
      for (const std::uint32_t name : profile_.operands(q))
        bytes += name == kNoBuffer ? 0 : profile_.buffers[name].bytes;
      if (bytes == 0) continue;
      slowness_[q] = static_cast<double>(profile_.nanoseconds[q]) / static_cast<double>(bytes);
      all.push_back(slowness_[q]);
    }
    if (all.empty()) return;
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    middling_slowness_ = *middle;
  }
  // A slower operator than most is at one of its ends.
  bool is_hidden(const Gap& gap) const {
    return std::max(slowness_[gap.leave], slowness_[gap.arrive % places_]) > middling_slowness_;
  }
  // Compute time from the begin of this iteration to the begin of a place, which may be in the next one.
  double time_at(std::uint32_t place) const {
    return place <= places_ ? clock_[place] : clock_[places_] + clock_[place - places_];
  }
  double bytes_of(std::uint32_t gap) const { return static_cast<double>(profile_.buffers[gaps_[gap].buffer].bytes); }

  void sum_live() {
    live_.assign(places_ + 1, 0);
    const auto add = [this](std::uint32_t from, std::uint32_t to, double bytes) {
      live_[from] += bytes;
      live_[to + 1] -= bytes;
    };
    for (const ProfiledBuffer& buffer : profile_.buffers) {
      const auto bytes = static_cast<double>(buffer.bytes);
      if (buffer.always) {
        add(0, places_ - 1, bytes);
      } else if (buffer.birth <= buffer.death) {
        add(buffer.birth, buffer.death, bytes);
      } else {
        add(0, buffer.death, bytes);
        add(buffer.birth, places_ - 1, bytes);
      }
    }
    for (std::uint32_t q = 1; q < places_; ++q) live_[q] += live_[q - 1];
    live_.resize(places_);
    for (std::uint32_t q = 0; q < places_; ++q) live_[q] += static_cast<double>(profile_.unplanned_bytes[q]);
  }

  double key_of(Preference preference, std::uint32_t gap, std::int64_t end) const {
    switch (preference) {
      case Preference::kHidden:
        return static_cast<double>(end) + (is_hidden(gaps_[gap]) ? 2.0 * places_ : 0.0);
      case Preference::kReach:
        return static_cast<double>(end);
      case Preference::kSparse:
        return static_cast<double>(end) - 4.0 * places_ * profile_.buffers[gaps_[gap].buffer].density();
      case Preference::kIdleTime:
        return gaps_[gap].idle_ns;
      case Preference::kEven:
        return evenness_[gap];
      case Preference::kSize:
        break;
    }
    return bytes_of(gap);
  }

  // Long gaps first, and of these in an order that is even over the iteration however many are taken.
  void find_evenness() {
    std::vector<std::uint32_t> order(gaps_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
      return gaps_[a].arrive % places_ < gaps_[b].arrive % places_;
    });
    evenness_.assign(gaps_.size(), 0);
    std::size_t n = 0;
    for (const std::uint32_t gap : order) {
      if (2 * gaps_[gap].idle_ns >= clock_[places_]) evenness_[gap] = 1 + scattered(n++);
    }
  }

  // The sweep begins where memory is lowest, so that what is chosen for one peak does not begin in the middle of it.
  std::vector<Interval> intervals(Preference preference, bool backward) const {
    std::vector<Interval> result;
    const auto places = static_cast<std::int64_t>(places_);
    for (std::uint32_t g = 0; g < gaps_.size(); ++g) {
      const std::int64_t length = gaps_[g].arrive - gaps_[g].leave;
      std::int64_t begin = (gaps_[g].leave + places_ - lowest_) % places_;
      if (backward) begin = places - 1 - (begin + length);
      for (std::int64_t shift = -places; shift <= places; shift += places) {
        const std::int64_t from = begin + shift, to = from + length;
        if (to <= 0 || from >= places - 1) continue;
        result.push_back({from, to, key_of(preference, g, to), g});
      }
    }
    std::sort(result.begin(), result.end(), [](const Interval& a, const Interval& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.gap < b.gap;
    });
    return result;
  }

  // How many parts, by gap; empty when some place can not be made to fit.
  std::vector<std::uint32_t> choose(const Choice& choice) const {
    const double limit = limit_ - choice.reserve;
    const bool in_turn = choice.preference == Preference::kEven;
    const std::vector<Interval> parts = intervals(choice.preference, choice.backward);
    std::vector<std::vector<std::uint32_t>> intervals_of(gaps_.size());
    for (std::uint32_t i = 0; i < parts.size(); ++i) intervals_of[parts[i].gap].push_back(i);
    std::priority_queue<Candidate> open;
    std::vector<std::uint32_t> chosen(gaps_.size(), 0);
    std::vector<double> change(places_ + 1, 0);
    double away = 0;
    std::size_t next = 0;
    for (std::uint32_t step = 0; step < places_; ++step) {
      away += change[step];
      const std::uint32_t place = (lowest_ + (choice.backward ? places_ - 1 - step : step)) % places_;
      for (; next < parts.size() && parts[next].begin < step; ++next) {
        open.push({parts[next].key, parts[next].gap, static_cast<std::uint32_t>(next)});
      }
      while (live_[place] - away > limit) {
        if (open.empty()) return {};
        const Candidate candidate = open.top();
        const Interval part = parts[candidate.interval];
        const Bytes bytes = profile_.buffers[gaps_[part.gap].buffer].bytes;
        const auto all = static_cast<std::uint32_t>(parts_of(bytes));
        if (part.end <= step || chosen[part.gap] == all) {
          open.pop();
          continue;
        }
        const double one = static_cast<double>(bytes) / all;
        const double needed = in_turn ? 1 : std::ceil((live_[place] - away - limit) / one);
        const auto more = std::min<std::uint32_t>(all - chosen[part.gap], static_cast<std::uint32_t>(needed));
        chosen[part.gap] += more;
        if (in_turn) {
          open.pop();
          open.push({candidate.key - kNextRound, part.gap, candidate.interval});
        }
        const double leaving = more * one;
        for (const std::uint32_t i : intervals_of[part.gap]) {
          // The steps behind this one that the part covers; those before are swept already.
          const std::int64_t from = std::max<std::int64_t>(parts[i].begin + 1, step + 1);
          if (parts[i].begin < step && parts[i].end > step)
            away += leaving;
          else if (from < parts[i].end && from < places_)
            change[static_cast<std::size_t>(from)] += leaving;
          if (parts[i].end > step && parts[i].end <= places_ && from <= parts[i].end)
            change[static_cast<std::size_t>(parts[i].end)] -= leaving;
        }
      }
    }
    return chosen;
  }

  Plan make_plan(const std::vector<std::uint32_t>& chosen) const {
    Plan plan;
    plan.fits = true;
    for (std::uint32_t g = 0; g < gaps_.size(); ++g) {
      if (chosen[g] == 0) continue;
      const std::uint32_t before = (gaps_[g].arrive + places_ - 1) % places_;
      plan.gaps.push_back({gaps_[g].buffer, chosen[g], gaps_[g].leave, gaps_[g].arrive % places_, before});
    }
    return plan;
  }

  // Of plans that are expected to take equally long the first that was tried is kept.
  void keep_if_faster(const Plan& plan, const PlanTiming& timing, Plan* best) const {
    if (!timing.runs || timing.iteration_ns >= kFaster * best->predicted_ns) return;
    *best = plan;
    best->predicted_ns = timing.iteration_ns;
  }

  // Times the plan with every buffer back in the last moment, then with earlier and earlier returns, the operations'
  // start times taken from the last timing. Late returns leave memory to others, and the last moment leaves no time for
  // anything that takes longer than expected: so first come returns that are a little earlier than need be.
  void consider(Plan plan, Plan* best) const {
    plan.index(places_);
    const Plan in_the_last_moment = plan;
    const PlanTiming last_moment = time_plan(profile_, plan, limit_bytes_, link_);
    if (!last_moment.runs) return;
    PlanTiming timing = last_moment;
    for (const double lead : {1.2, 2.0, 4.0, 1e9}) {
      if (quick_ && lead != 2.0) continue;
      schedule_returns(timing, lead, &plan);
      plan.index(places_);
      const PlanTiming next = time_plan(profile_, plan, limit_bytes_, link_);
      keep_if_faster(plan, next, best);
      if (next.runs && next.iteration_ns <= timing.iteration_ns) timing = next;
    }
    keep_if_faster(in_the_last_moment, last_moment, best);
  }

  // Memory that the plan leaves free at every place while nothing has come back early.
  std::vector<double> slack_of(const Plan& plan) const {
    std::vector<double> away(places_ + 1, 0);
    for (const PlannedGap& gap : plan.gaps) {
      const double bytes = nonresident_bytes(gap, profile_);
      const std::uint32_t from = (gap.leave + 1) % places_;
      away[from] += bytes;
      away[gap.arrive] -= bytes;
      if (gap.arrive < from) away[0] += bytes;
    }
    std::vector<double> slack(places_, 0);
    double sum = 0;
    for (std::uint32_t q = 0; q < places_; ++q) {
      sum += away[q];
      slack[q] = limit_ - (live_[q] - sum);
    }
    return slack;
  }

  // Sets return_at of every gap. `lead` stretches the time that a copy is given.
  void schedule_returns(const PlanTiming& timing, double lead, Plan* plan) const {
    // Positions count from lowest_; what arrives there arrives at the end of the iteration that begins there.
    const auto place_at = [this](std::uint32_t position) { return (lowest_ + position) % places_; };
    const auto position_of = [this](std::uint32_t arrive) {
      return (arrive + 2 * places_ - lowest_ - 1) % places_ + 1;
    };
    const auto start = [&](std::uint32_t position) {
      return timing.starts[place_at(position)] + (lowest_ + position >= places_ ? timing.iteration_ns : 0.0);
    };
    std::vector<std::uint32_t> order(plan->gaps.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      const std::uint32_t pa = position_of(plan->gaps[a].arrive), pb = position_of(plan->gaps[b].arrive);
      return pa != pb ? pa < pb : a < b;
    });
    std::vector<double> latest(order.size());
    double next = std::numeric_limits<double>::infinity();
    for (std::size_t i = order.size(); i-- > 0;) {
      const PlannedGap& gap = plan->gaps[order[i]];
      const double copy =
          nonresident_bytes(gap, profile_) * profile_.buffers[gap.buffer].density() / link_.in_bytes_per_ns;
      const double arrival = start(position_of(gap.arrive));
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
      const std::uint32_t arrive = position_of(gap.arrive);
      const std::uint32_t away = (gap.arrive + places_ - gap.leave - 1) % places_;  // places at which it is away
      // It is back from `at` on.
      const auto in_time = std::lower_bound(starts.begin(), starts.begin() + arrive, latest[i] - kHostLeadNs);
      const std::size_t at =
          std::max({arrive > away ? std::size_t{arrive - away} : std::size_t{0},
                    static_cast<std::size_t>(in_time - starts.begin()), room.first_with(bytes, arrive)});
      room.take(at, arrive, bytes);
      gap.return_at = place_at(static_cast<std::uint32_t>(at) + places_ - 1);
    }
  }

  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr double kMostReserve = 8;  // parts
  static constexpr double kFaster = 0.999;
  // The host has to map pages before the copy can begin.
  static constexpr double kHostLeadNs = 200e3;

  const Profile& profile_;
  const Bytes limit_bytes_;
  const double limit_;
  const Link& link_;
  const std::uint32_t places_;
  std::uint32_t lowest_ = 0;      // the place where the least is live
  std::vector<double> clock_;     // compute time before each place
  std::vector<double> live_;      // bytes by place, everything on the device
  std::vector<double> slowness_;  // nanoseconds a byte of operands, by place
  double middling_slowness_ = 0;  // half of the operators are slower
  std::vector<Gap> gaps_;
  std::vector<double> evenness_;               // by gap
  std::set<std::vector<std::uint32_t>> seen_;  // choices that have been tried
  bool quick_ = false;
  Choice best_choice_{Preference::kHidden};
  Plan best_;
};

}  // namespace

void Plan::index(std::size_t places) {
  leaves.assign(places, {});
  returns.assign(places, {});
  for (std::uint32_t i = 0; i < gaps.size(); ++i) {
    leaves[gaps[i].leave].push_back(i);
    returns[gaps[i].return_at].push_back(i);
  }
  // What is needed first comes first.
  for (std::size_t q = 0; q < places; ++q) {
    std::sort(returns[q].begin(), returns[q].end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto distance = [&](std::uint32_t i) { return (gaps[i].arrive + places - q) % places; };
      return distance(a) != distance(b) ? distance(a) < distance(b) : a < b;
    });
  }
}

Plan plan_iteration(const Profile& profile, Bytes limit, const Link& link, PlanEffort effort) {
  Planner planner(profile, limit, link);
  return effort == PlanEffort::kFull ? planner.best() : planner.first();
}

}  // namespace thermocline
