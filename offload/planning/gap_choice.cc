// SPDX-License-Identifier: Apache-2.0
#include "offload/planning/gap_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>

#include "offload/planning/room.h"
#include "offload/residency/unit_size.h"

namespace thermocline {
namespace {

constexpr double kBeforeAll = std::numeric_limits<double>::max();

// More than the largest difference between two evenness keys.
constexpr double kNextRound = 2;

// In a sweep the candidate with the highest key is taken first.
struct Candidate {
  double key;
  std::uint32_t gap, interval;
  bool operator<(const Candidate& other) const { return key != other.key ? key < other.key : gap > other.gap; }
};

// Maps 0, 1, 2, ... to [0, 1) such that the numbers above any threshold are spread evenly (Weyl sequence of the golden
// ratio, which is the number least well approximated by fractions).
double scattered(std::size_t n) {
  constexpr double kGolden = 0.61803398874989484820;
  const double value = static_cast<double>(n) * kGolden;
  return value - std::floor(value);
}

}  // namespace

GapChooser::GapChooser(const Profile& profile, double limit)
    : profile_(profile), limit_(limit), places_(static_cast<std::uint32_t>(profile.places())) {
  clock_.assign(places_ + 1, 0);
  for (std::uint32_t q = 0; q < places_; ++q) clock_[q + 1] = clock_[q] + static_cast<double>(profile.nanoseconds[q]);
  find_gaps();
  sum_live();
  find_slowness();
  find_evenness();
  ranges_.assign(gaps_.size(), {});
  lowest_ = static_cast<std::uint32_t>(std::min_element(live_.begin(), live_.end()) - live_.begin());
}

std::uint32_t GapChooser::units_in(std::uint32_t gap) const {
  return static_cast<std::uint32_t>(units_of(profile_.buffers[gaps_[gap].buffer].bytes));
}

void GapChooser::find_gaps() {
  for (std::uint32_t i = 0; i < profile_.buffers.size(); ++i) {
    const ProfiledBuffer& buffer = profile_.buffers[i];
    if (buffer.uses.empty()) continue;
    const bool goes_round = !buffer.always && buffer.birth > buffer.death;
    std::vector<std::uint32_t> uses = buffer.uses;  // in order of its life, which may continue in the next iteration
    if (buffer.always) uses.push_back(uses.front() + places_);
    if (goes_round) {
      const auto first = std::lower_bound(uses.begin(), uses.end(), buffer.birth);
      std::for_each(uses.begin(), first, [this](std::uint32_t& use) { use += places_; });
      std::rotate(uses.begin(), first, uses.end());
    }
    for (std::size_t u = 0; u + 1 < uses.size(); ++u) add_gap(i, uses[u], uses[u + 1], true);
    if (!buffer.always) add_gap(i, uses.back(), buffer.death + (goes_round ? places_ : 0) + 1, false);
  }
}

void GapChooser::add_gap(std::uint32_t buffer, std::uint32_t last_use, std::uint32_t next_use, bool is_fetched) {
  last_use = std::max(last_use, profile_.buffers[buffer].held_until);
  if (next_use <= last_use || next_use - last_use == 1) return;
  const std::uint32_t before = last_use < places_ ? 0 : places_;
  const double idle_ns = time_at(next_use - before) - time_at(last_use - before + 1);
  gaps_.push_back({buffer, last_use - before, next_use - before, idle_ns, is_fetched});
}

void GapChooser::find_slowness() {
  slowness_.assign(places_, 0);
  std::vector<double> all;
  for (std::uint32_t q = 0; q < places_; ++q) {
    Bytes bytes = 0;
    for (const std::uint32_t name : profile_.operands(q)) bytes += name == kNoBuffer ? 0 : profile_.buffers[name].bytes;
    if (bytes == 0) continue;
    slowness_[q] = static_cast<double>(profile_.nanoseconds[q]) / static_cast<double>(bytes);
    all.push_back(slowness_[q]);
  }
  if (all.empty()) return;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  middling_slowness_ = *middle;
}

// An operator at one of its ends is slower than most.
bool GapChooser::is_hidden(const Gap& gap) const {
  return std::max(slowness_[gap.last_use], slowness_[gap.next_use % places_]) > middling_slowness_;
}

// Compute time from the beginning of this iteration to the beginning of a place, which may be in the next iteration.
double GapChooser::time_at(std::uint32_t place) const {
  return place <= places_ ? clock_[place] : clock_[places_] + clock_[place - places_];
}

void GapChooser::sum_live() {
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

double GapChooser::key_of(const Choice& choice, std::uint32_t gap, std::int64_t end) const {
  if (choice.unreturned_first && !gaps_[gap].is_fetched) return kBeforeAll;
  switch (choice.preference) {
    case Preference::kHidden:
      return static_cast<double>(end) + (is_hidden(gaps_[gap]) ? 2.0 * places_ : 0.0);
    case Preference::kReach:
      return static_cast<double>(end);
    case Preference::kSparse:
      return static_cast<double>(end) - choice.sparsity * places_ * profile_.buffers[gaps_[gap].buffer].density();
    case Preference::kIdleTime:
      return gaps_[gap].idle_ns;
    case Preference::kEven:
      return evenness_[gap];
    case Preference::kSize:
      break;
  }
  return bytes_of(gap);
}

// Long gaps first; among these an order in which any number of them is spread evenly over the iteration.
void GapChooser::find_evenness() {
  std::vector<std::uint32_t> order(gaps_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
    return gaps_[a].next_use % places_ < gaps_[b].next_use % places_;
  });
  evenness_.assign(gaps_.size(), 0);
  std::size_t n = 0;
  for (const std::uint32_t gap : order) {
    if (2 * gaps_[gap].idle_ns >= clock_[places_]) evenness_[gap] = 1 + scattered(n++);
  }
}

// The sweep begins where the least memory is live, so that no peak is split by its beginning.
std::vector<GapChooser::Interval> GapChooser::intervals(const Choice& choice) const {
  std::vector<Interval> result;
  const auto places = static_cast<std::int64_t>(places_);
  for (std::uint32_t g = 0; g < gaps_.size(); ++g) {
    const std::int64_t length = gaps_[g].next_use - gaps_[g].last_use;
    std::int64_t begin = (gaps_[g].last_use + places_ - lowest_) % places_;
    if (choice.backward) begin = places - 1 - (begin + length);
    for (std::int64_t shift = -places; shift <= places; shift += places) {
      const std::int64_t from = begin + shift, to = from + length;
      if (to <= 0 || from >= places - 1) continue;
      result.push_back({from, to, key_of(choice, g, to), g});
    }
  }
  std::sort(result.begin(), result.end(), [](const Interval& a, const Interval& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.gap < b.gap;
  });
  return result;
}

// The evicted buffers, while the places are visited one by one.
class GapChooser::Sweep {
 public:
  Sweep(const std::vector<Interval>& intervals, std::size_t gaps, std::uint32_t places)
      : intervals_(intervals), of_gap_(gaps), change_(places + std::size_t{1}, 0), places_(places) {
    for (std::uint32_t i = 0; i < intervals_.size(); ++i) of_gap_[intervals_[i].gap].push_back(i);
  }
  void enter(std::uint32_t step) {
    step_ = step;
    evicted_ += change_[step];
  }
  double evicted() const { return evicted_; }
  // Counts from the current step on; the steps before it keep their values.
  void take(std::uint32_t gap, double bytes) {
    for (const std::uint32_t i : of_gap_[gap]) {
      const Interval& interval = intervals_[i];
      const std::int64_t from = std::max<std::int64_t>(interval.begin + 1, step_ + 1);
      if (interval.begin < step_ && interval.end > step_)
        evicted_ += bytes;
      else if (from < interval.end && from < places_)
        change_[static_cast<std::size_t>(from)] += bytes;
      if (interval.end > step_ && interval.end <= places_ && from <= interval.end)
        change_[static_cast<std::size_t>(interval.end)] -= bytes;
    }
  }

 private:
  const std::vector<Interval>& intervals_;
  std::vector<std::vector<std::uint32_t>> of_gap_;
  std::vector<double> change_;
  const std::int64_t places_;
  std::int64_t step_ = -1;
  double evicted_ = 0;
};

std::optional<ChosenUnits> GapChooser::choose(const Choice& choice) const {
  const double limit = limit_ - choice.reserve;
  const bool in_turn = choice.preference == Preference::kEven;
  const std::vector<Interval> all = intervals(choice);
  Sweep sweep(all, gaps_.size(), places_);
  ChosenUnits chosen(gaps_.size(), 0);
  for (std::uint32_t g = 0; g < gaps_.size(); ++g) {
    chosen[g] = std::min(ranges_[g].least, units_in(g));
    if (chosen[g] > 0) sweep.take(g, chosen[g] * unit_bytes_of(g));
  }
  std::priority_queue<Candidate> open;
  std::size_t next = 0;
  for (std::uint32_t step = 0; step < places_; ++step) {
    sweep.enter(step);
    const std::uint32_t place = (lowest_ + (choice.backward ? places_ - 1 - step : step)) % places_;
    for (; next < all.size() && all[next].begin < step; ++next) {
      open.push({all[next].key, all[next].gap, static_cast<std::uint32_t>(next)});
    }
    while (live_[place] - sweep.evicted() > limit) {
      if (open.empty()) return std::nullopt;
      const Candidate candidate = open.top();
      const Interval interval = all[candidate.interval];
      const std::uint32_t most = std::min(units_in(interval.gap), ranges_[interval.gap].most);
      if (interval.end <= step || chosen[interval.gap] >= most) {
        open.pop();
        continue;
      }
      const double one = unit_bytes_of(interval.gap);
      const double needed = in_turn ? 1 : std::ceil((live_[place] - sweep.evicted() - limit) / one);
      const auto more = std::min<std::uint32_t>(most - chosen[interval.gap], static_cast<std::uint32_t>(needed));
      chosen[interval.gap] += more;
      if (in_turn) {
        open.pop();
        open.push({candidate.key - kNextRound, interval.gap, candidate.interval});
      }
      sweep.take(interval.gap, more * one);
    }
  }
  if (choice.trims) release_redundant(limit, &chosen);
  return chosen;
}

// Free memory at every place while the chosen units are evicted.
std::vector<double> GapChooser::slack_of(const ChosenUnits& chosen, double limit) const {
  std::vector<double> evicted(places_ + std::size_t{1}, 0);
  for (std::uint32_t g = 0; g < gaps_.size(); ++g) {
    if (chosen[g] == 0) continue;
    const double bytes = chosen[g] * unit_bytes_of(g);
    const std::uint32_t from = (gaps_[g].last_use + 1) % places_, to = gaps_[g].next_use % places_;
    evicted[from] += bytes;
    evicted[to] -= bytes;
    if (to < from) evicted[0] += bytes;
  }
  std::vector<double> slack(places_);
  double sum = 0;
  for (std::uint32_t q = 0; q < places_; ++q) {
    sum += evicted[q];
    slack[q] = limit - (live_[q] - sum);
  }
  return slack;
}

// Keeps first what moves the most bytes for the memory that it frees, and among equals what would be evicted only
// briefly.
void GapChooser::release_redundant(double limit, ChosenUnits* chosen) const {
  Room room(slack_of(*chosen, limit));
  std::vector<std::uint32_t> order;
  for (std::uint32_t g = 0; g < gaps_.size(); ++g) {
    if ((*chosen)[g] > ranges_[g].least) order.push_back(g);
  }
  std::stable_sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
    const double of_a = profile_.buffers[gaps_[a].buffer].density(), of_b = profile_.buffers[gaps_[b].buffer].density();
    return of_a != of_b ? of_a > of_b : gaps_[a].idle_ns < gaps_[b].idle_ns;
  });
  for (const std::uint32_t g : order) {
    const double one = unit_bytes_of(g);
    const std::uint32_t from = (gaps_[g].last_use + 1) % places_, to = gaps_[g].next_use % places_;
    const bool goes_round = to < from;
    const std::uint32_t end = goes_round ? places_ : to;
    while ((*chosen)[g] > ranges_[g].least && room.first_with(one, end) <= from &&
           (!goes_round || room.first_with(one, to) == 0)) {
      room.take(from, end, one);
      if (goes_round) room.take(0, to, one);
      --(*chosen)[g];
    }
  }
}

}  // namespace thermocline
