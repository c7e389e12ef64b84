// SPDX-License-Identifier: Apache-2.0
#include "offload/page_assignment/page_assignment.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>

namespace thermocline {
namespace {

// Host time of the driver calls that a page takes which changes: it is unmapped, mapped, and access is set.
constexpr double kNsPerChange = 62e3;
constexpr std::size_t kMostTries = 64, kEffort = 10'000'000;  // of assign_stays()

struct TimedStay {
  PageOwner::Stay when;
  StayTimes times;
  std::uint32_t unit;
};
using Stays = std::vector<TimedStay>;  // in order, not overlapping

// Pages with the same live ranges.
struct Group {
  Stays stays;
  std::vector<PageNumber> pages;
};

// Live ranges of one page owner that share a page: all of them if possible.
struct Unit {
  std::uint32_t page_owner = 0;
  std::uint32_t first_page = 0, first_stay = 0;
  Stays stays;
  // Half of a live range that goes on into the next iteration: elsewhere than the other half it would need a copy.
  bool may_move = true;
  std::vector<PageNumber> pages{};
};

Stays::const_iterator behind(const Stays& stays, std::uint32_t from) {
  return std::upper_bound(stays.begin(), stays.end(), from,
                          [](std::uint32_t time, const TimedStay& stay) { return time < stay.when.from; });
}

bool overlap(const TimedStay& a, const TimedStay& b) { return a.when.from < b.when.to && b.when.from < a.when.to; }

bool fits(const Group& group, const Stays& stays) {
  return std::all_of(stays.begin(), stays.end(), [&](const TimedStay& stay) {
    const auto next = behind(group.stays, stay.when.from);
    return (next == group.stays.end() || !overlap(*next, stay)) &&
           (next == group.stays.begin() || !overlap(*std::prev(next), stay));
  });
}

void add_stays(Group& group, const Stays& stays) {
  for (const TimedStay& stay : stays) group.stays.insert(behind(group.stays, stay.when.from), stay);
}

// Units of the group whose live ranges conflict with these.
std::vector<std::uint32_t> in_the_way(const Group& group, const Stays& stays) {
  std::vector<std::uint32_t> units;
  for (const TimedStay& one : group.stays) {
    const auto hits = [&one](const TimedStay& stay) { return overlap(one, stay); };
    if (!std::any_of(stays.begin(), stays.end(), hits)) continue;
    if (std::find(units.begin(), units.end(), one.unit) == units.end()) units.push_back(one.unit);
  }
  return units;
}

class Assignment {
 public:
  Assignment(const LiveRangeHistory& history, const LiveRangeTimes& times, std::uint32_t seed = 1)
      : history_(history), times_(times), random_(seed) {}

  void add_loose(std::uint32_t count) {
    if (count > 0) groups_.push_back({{}, new_pages(count)});
  }

  // A page owner that is resident at the beginning of the iteration gets pages that nobody else has then.
  void begin_with(std::uint32_t page_owner) {
    const PageOwner& all = history_.page_owners[page_owner];
    Unit& unit = units_[make_unit(page_owner, 0, 0, count_of(all.stays))];
    unit.pages = new_pages(static_cast<std::uint32_t>(all.range.count));
    groups_.push_back({unit.stays, unit.pages});
  }
  // As begin_with(), for place_stay(): its first live range and, if it `goes_on` into the next iteration, its last one.
  void begin_with_first_stay(std::uint32_t page_owner, bool goes_on) {
    const PageOwner& all = history_.page_owners[page_owner];
    const std::uint32_t first = make_unit(page_owner, 0, 0, 1);
    units_[first].pages = new_pages(static_cast<std::uint32_t>(all.range.count));
    groups_.push_back({units_[first].stays, units_[first].pages});
    note_placed(first, page_owner, 0);
    if (!goes_on) return;
    const std::uint32_t last = make_unit(page_owner, 0, count_of(all.stays) - 1, count_of(all.stays));
    assign(groups_.size() - 1, last);
    units_[first].may_move = units_[last].may_move = false;
  }

  // Returns how many of its pages have no assigned page in some of their live ranges.
  std::uint64_t place(std::uint32_t page_owner) {
    const PageOwner& all = history_.page_owners[page_owner];
    const auto count = static_cast<std::uint32_t>(all.range.count);
    const std::uint32_t placed = place_unit(make_unit(page_owner, 0, 0, count_of(all.stays)), count);
    if (placed == count) return 0;
    if (all.stays.size() == 1) return count - placed;
    // A different page for each live range: this costs driver calls, but takes no page from another owner.
    std::uint32_t least = count - placed;
    for (std::uint32_t i = 0; i < all.stays.size(); ++i) {
      least = std::min(least, place_unit(make_unit(page_owner, placed, i, i + 1), count - placed));
    }
    return count - placed - least;
  }

  // Each of its live ranges gets pages for itself, those of the range before where these are free. Among live ranges in
  // order of time this leaves out none for which there is memory; where a page changes, driver calls are made.
  std::uint64_t place_stay(std::uint32_t page_owner, std::uint32_t stay) {
    const PageOwner& all = history_.page_owners[page_owner];
    const auto count = static_cast<std::uint32_t>(all.range.count);
    const std::uint32_t unit = make_unit(page_owner, 0, stay, stay + 1);
    const auto before = last_unit_.find(page_owner);
    const std::vector<PageNumber> own =
        before == last_unit_.end() ? std::vector<PageNumber>() : units_[before->second].pages;
    const std::uint32_t until = all.stays[stay].to;
    wanted_from_.resize(next_page_, kNotWanted);
    std::uint32_t placed =
        take(unit, count, [&](PageNumber page) { return std::ranges::find(own, page) != own.end(); });
    placed += take(unit, count - placed, [&](PageNumber page) { return wanted_from_[page] >= until; });
    placed += take(unit, count - placed, [](PageNumber) { return true; });
    placed += place_unit(unit, count - placed);
    arrange(units_[unit].pages, own);
    note_placed(unit, page_owner, stay);
    return count - placed;
  }

  std::vector<AssignedPage> assigned() const {
    std::vector<AssignedPage> all;
    for (const Unit& unit : units_) {
      for (std::uint32_t i = 0; i < unit.pages.size(); ++i) {
        for (std::uint32_t stay = 0; stay < unit.stays.size(); ++stay) {
          all.push_back({unit.page_owner, unit.first_page + i, unit.first_stay + stay, unit.pages[i]});
        }
      }
    }
    return all;
  }
  std::uint32_t pages() const { return next_page_; }

 private:
  template <class List>
  static std::uint32_t count_of(const List& list) {
    return static_cast<std::uint32_t>(list.size());
  }

  std::vector<PageNumber> new_pages(std::uint32_t count) {
    std::vector<PageNumber> pages(count);
    for (PageNumber& page : pages) page = next_page_++;
    return pages;
  }

  std::uint32_t make_unit(std::uint32_t page_owner, std::uint32_t first_page, std::uint32_t first, std::uint32_t end) {
    const std::uint32_t name = count_of(units_);
    Stays stays;
    for (std::uint32_t i = first; i < end; ++i) {
      stays.push_back({history_.page_owners[page_owner].stays[i], times_.stays[page_owner][i], name});
    }
    units_.push_back({page_owner, first_page, first, std::move(stays), true});
    return name;
  }

  // Returns how many pages it gets.
  std::uint32_t place_unit(std::uint32_t unit, std::uint32_t count) {
    std::uint32_t placed = 0;
    while (placed < count) {
      std::uint32_t found = find(unit, count - placed);
      if (found == 0) found = find_by_moving(unit, count - placed);
      if (found == 0) break;
      placed += found;
    }
    return placed;
  }

  // Gives the unit free pages of which this holds. Returns how many.
  template <class Predicate>
  std::uint32_t take(std::uint32_t unit, std::uint32_t most, Predicate holds) {
    std::uint32_t taken = 0;
    const std::size_t all = groups_.size(), first = all > 0 ? random_() % all : 0;
    for (std::size_t n = 0; n < all && taken < most; ++n) {
      const std::size_t i = (first + n) % all;
      std::vector<PageNumber>& pages = groups_[i].pages;
      if (std::ranges::none_of(pages, holds) || !fits(groups_[i], units_[unit].stays)) continue;
      const auto good = std::ranges::stable_partition(pages, [&](PageNumber page) { return !holds(page); });
      const std::uint32_t count = std::min(count_of(good), most - taken);
      assign(split(i, count), unit);
      taken += count;
    }
    return taken;
  }

  void note_placed(std::uint32_t unit, std::uint32_t page_owner, std::uint32_t stay) {
    const std::vector<PageOwner::Stay>& stays = history_.page_owners[page_owner].stays;
    last_unit_[page_owner] = unit;
    wanted_from_.resize(next_page_, kNotWanted);
    for (const PageNumber page : units_[unit].pages)
      wanted_from_[page] = stay + 1 < stays.size() ? stays[stay + 1].from : kNotWanted;
  }

  // Puts those of the pages that were there before where they were.
  static void arrange(std::vector<PageNumber>& pages, const std::vector<PageNumber>& before) {
    for (std::size_t i = 0; i < std::min(pages.size(), before.size()); ++i) {
      const auto same = std::ranges::find(pages, before[i]);
      if (same != pages.end()) std::iter_swap(pages.begin() + static_cast<std::ptrdiff_t>(i), same);
    }
  }

  std::uint32_t find(std::uint32_t unit, std::uint32_t count) {
    const std::size_t best = choose(units_[unit].stays);
    if (best == groups_.size()) return 0;
    const std::size_t part = split(best, count);
    assign(part, unit);
    return count_of(groups_[part].pages);
  }

  // Places it by moving another unit to a group into which it also fits.
  std::uint32_t find_by_moving(std::uint32_t unit, std::uint32_t count) {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const std::vector<std::uint32_t> others = in_the_way(groups_[i], units_[unit].stays);
      if (others.size() != 1 || !units_[others.front()].may_move) continue;
      const std::size_t to = choose(units_[others.front()].stays, i);
      if (to == groups_.size()) continue;
      count = std::min({count, count_of(groups_[i].pages), count_of(groups_[to].pages)});
      const std::size_t from_part = split(i, count), to_part = split(to, count);
      move(others.front(), from_part, to_part);
      assign(from_part, unit);
      return count;
    }
    return 0;
  }

  // Splits off a group of `count` pages from this one, or returns all of it; the rest keeps its contents.
  std::size_t split(std::size_t which, std::uint32_t count) {
    std::vector<PageNumber>& pages = groups_[which].pages;
    if (count >= pages.size()) return which;
    const auto cut = pages.end() - static_cast<std::ptrdiff_t>(count);
    Group part{groups_[which].stays, {cut, pages.end()}};
    pages.erase(cut, pages.end());
    groups_.push_back(std::move(part));
    return groups_.size() - 1;
  }

  void assign(std::size_t which, std::uint32_t unit) {
    Group& group = groups_[which];
    add_stays(group, units_[unit].stays);
    units_[unit].pages.insert(units_[unit].pages.end(), group.pages.begin(), group.pages.end());
  }

  void move(std::uint32_t unit, std::size_t from, std::size_t to) {
    std::erase_if(groups_[from].stays, [unit](const TimedStay& stay) { return stay.unit == unit; });
    add_stays(groups_[to], units_[unit].stays);
    std::vector<PageNumber>& pages = units_[unit].pages;
    for (std::size_t i = 0; i < groups_[from].pages.size(); ++i) {
      std::replace(pages.begin(), pages.end(), groups_[from].pages[i], groups_[to].pages[i]);
    }
  }

  // The shortest time between the end of one live range and the beginning of the next; negative if one has to wait.
  double slack(const Group& group, const Stays& stays) const {
    double shortest = std::numeric_limits<double>::max();
    if (group.stays.empty()) return shortest;
    for (const TimedStay& stay : stays) {
      const auto next = behind(group.stays, stay.when.from);
      const bool first = next == group.stays.begin(), last = next == group.stays.end();
      const StayTimes& before = (first ? group.stays.back() : *std::prev(next)).times;
      const StayTimes& after = (last ? group.stays.front() : *next).times;
      shortest = std::min(shortest, stay.times.wanted - before.free + (first ? times_.iteration_ns : 0));
      shortest = std::min(shortest, after.wanted - stay.times.free + (last ? times_.iteration_ns : 0));
    }
    return shortest;
  }

  // The group for these live ranges. Nobody should have to wait; and among such groups, those with much slack are left
  // for later units.
  std::size_t choose(const Stays& stays, std::size_t but = std::numeric_limits<std::size_t>::max()) const {
    std::size_t best = groups_.size();
    double best_score = 0;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (i == but || !fits(groups_[i], stays)) continue;
      const double spare = slack(groups_[i], stays);
      const double score = spare < 0 ? spare : std::numeric_limits<double>::max() - spare;
      if (best != groups_.size() && score <= best_score) continue;
      best = i;
      best_score = score;
    }
    return best;
  }

  const LiveRangeHistory& history_;
  const LiveRangeTimes& times_;
  std::vector<Unit> units_;
  std::vector<Group> groups_;
  // For place_stay(): by page owner, its unit placed last; by page, from when on its last owner wants it back.
  std::unordered_map<std::uint32_t, std::uint32_t> last_unit_;
  std::vector<std::uint32_t> wanted_from_;
  static constexpr std::uint32_t kNotWanted = std::numeric_limits<std::uint32_t>::max();
  std::mt19937 random_;
  PageNumber next_page_ = 0;
};

bool always(const LiveRangeHistory& history, const PageOwner& page_owner) {
  return page_owner.stays.size() == 1 && page_owner.stays.front().from == 0 &&
         page_owner.stays.front().to == history.end();
}

StayPages pages_by_stay(const LiveRangeHistory& history, const std::vector<AssignedPage>& assigned) {
  StayPages pages;
  for (const PageOwner& page_owner : history.page_owners) pages.emplace_back(page_owner.stays.size());
  for (const AssignedPage& one : assigned) pages[one.page_owner][one.stay].push_back(one.physical);
  return pages;
}

// Which page owners are placed first. No order is best for all programs.
enum class Order { kLongestFirst, kFirstFirst, kSeveralStaysFirst };

bool goes_before(Order order, const PageOwner& a, const PageOwner& b) {
  const std::uint32_t from_a = a.stays.front().from, from_b = b.stays.front().from;
  switch (order) {
    case Order::kLongestFirst:
      return a.stays.back().to - from_a > b.stays.back().to - from_b;
    case Order::kFirstFirst:
      return from_a < from_b;
    case Order::kSeveralStaysFirst:
      break;
  }
  const bool several_a = a.stays.size() > 1, several_b = b.stays.size() > 1;
  return several_a != several_b ? several_a : from_a < from_b;
}

// How often a page of addresses has another physical page than in its live range before.
std::uint64_t changes_of(const StayPages& all) {
  std::uint64_t changes = 0;
  for (const std::vector<std::vector<PageNumber>>& stays : all) {
    for (std::size_t s = 0; s < stays.size(); ++s) {
      const std::vector<PageNumber>& now = stays[s];
      const std::vector<PageNumber>& next = stays[(s + 1) % stays.size()];
      for (std::size_t i = 0; i < std::min(now.size(), next.size()); ++i) changes += now[i] != next[i] ? 1 : 0;
    }
  }
  return changes;
}

// Page owners that come and go, by index.
std::vector<std::uint32_t> coming_and_going(const LiveRangeHistory& history, PageAssignment* result) {
  std::vector<std::uint32_t> owners;
  for (std::uint32_t i = 0; i < history.page_owners.size(); ++i) {
    const PageOwner& page_owner = history.page_owners[i];
    if (page_owner.stays.empty() || always(history, page_owner)) continue;
    result->owned_pages += page_owner.range.count;
    owners.push_back(i);
  }
  return owners;
}

void take_times(const Assignment& assignment, const LiveRangeHistory& history, const LiveRangeTimes& times,
                PageCosts costs, PageAssignment* result) {
  result->assigned = assignment.assigned();
  result->pages = assignment.pages();
  result->anywhere_ns = times.iteration_ns;
  result->assigned_ns = time_with_pages(history, pages_by_stay(history, result->assigned), costs);
}

PageAssignment assign_in(Order by, const LiveRangeHistory& history, const LiveRangeTimes& times, std::uint32_t loose,
                         PageCosts costs) {
  PageAssignment result;
  Assignment assignment(history, times);
  std::vector<std::uint32_t> order = coming_and_going(history, &result);
  const auto begins = [&history](std::uint32_t i) { return history.page_owners[i].stays.front().from == 0; };
  for (const std::uint32_t i : order) {
    if (begins(i)) assignment.begin_with(i);
  }
  std::erase_if(order, begins);
  assignment.add_loose(loose);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return goes_before(by, history.page_owners[a], history.page_owners[b]);
  });
  for (const std::uint32_t i : order) result.unassigned += assignment.place(i);
  take_times(assignment, history, times, costs, &result);
  return result;
}

// Live ranges that assign_each_stay() places, in order of time.
struct OwnersStay {
  std::uint32_t from, page_owner, stay;
};

// Places not owners but their live ranges one by one. The driver calls where pages change are counted.
PageAssignment assign_each_stay(const LiveRangeHistory& history, const LiveRangeTimes& times, std::uint32_t loose,
                                PageCosts costs, std::uint32_t seed) {
  PageAssignment result;
  Assignment assignment(history, times, seed);
  std::vector<OwnersStay> order;
  for (const std::uint32_t i : coming_and_going(history, &result)) {
    const std::vector<PageOwner::Stay>& stays = history.page_owners[i].stays;
    const bool begins = stays.front().from == 0,
               goes_on = begins && stays.size() > 1 && stays.back().to == history.end();
    if (begins) assignment.begin_with_first_stay(i, goes_on);
    const auto end = static_cast<std::uint32_t>(stays.size()) - (goes_on ? 1 : 0);
    for (std::uint32_t stay = begins ? 1 : 0; stay < end; ++stay) order.push_back({stays[stay].from, i, stay});
  }
  assignment.add_loose(loose);
  std::ranges::stable_sort(order, {}, &OwnersStay::from);
  for (const OwnersStay& one : order) result.unassigned += assignment.place_stay(one.page_owner, one.stay);
  take_times(assignment, history, times, costs, &result);
  result.changing = changes_of(pages_by_stay(history, result.assigned));
  result.assigned_ns += static_cast<double>(result.changing) * kNsPerChange;
  return result;
}

// The best of several tries, of which each prefers other pages where none is better: as many as the effort allows.
PageAssignment assign_stays(const LiveRangeHistory& history, const LiveRangeTimes& times, std::uint32_t loose,
                            PageCosts costs) {
  PageAssignment best = assign_each_stay(history, times, loose, costs, 1);
  const std::size_t stays = std::max<std::size_t>(best.assigned.size(), 1), pages = std::max(best.pages, 1u);
  for (std::uint32_t seed = 2; seed <= std::min(kMostTries, kEffort / stays / pages); ++seed) {
    PageAssignment one = assign_each_stay(history, times, loose, costs, seed);
    const bool is_better =
        one.unassigned != best.unassigned ? one.unassigned < best.unassigned : one.assigned_ns < best.assigned_ns;
    if (is_better) best = std::move(one);
  }
  return best;
}

bool is_better(const PageAssignment& one, const PageAssignment& other) {
  if (one.is_nearly_complete() != other.is_nearly_complete()) return one.is_nearly_complete();
  return one.assigned_ns < other.assigned_ns;
}

}  // namespace

PageAssignment assign_pages(const LiveRangeHistory& history, std::uint32_t loose, PageCosts costs) {
  const LiveRangeTimes times = time_live_ranges(history, loose, costs);
  std::optional<PageAssignment> best;
  for (const Order order : {Order::kLongestFirst, Order::kSeveralStaysFirst, Order::kFirstFirst}) {
    PageAssignment one = assign_in(order, history, times, loose, costs);
    if (one.is_worth_it()) return one;
    if (!best || is_better(one, *best)) best = std::move(one);
  }
  if (best->is_nearly_complete()) return *std::move(best);
  PageAssignment one = assign_stays(history, times, loose, costs);
  return one.is_nearly_complete() ? std::move(one) : *std::move(best);
}

}  // namespace thermocline
