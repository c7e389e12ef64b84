// SPDX-License-Identifier: Apache-2.0
#include "simulator/check/shadow.h"

#include <algorithm>
#include <utility>

#include "simulator/core/check.h"

namespace simulator {
namespace {

template <typename Intervals>
auto first_at(Intervals& intervals, Bytes at) {
  return std::lower_bound(intervals.begin(), intervals.end(), at,
                          [](const auto& interval, Bytes b) { return interval.begin < b; });
}

}  // namespace

Shadow::Reference& Shadow::reference(Page page) {
  if (page >= pages_.size()) pages_.resize(std::max<std::size_t>(page + 1, pages_.size() * 2));
  return pages_[page];
}

Shadow::Reference Shadow::new_group(Cell cell) {
  Reference made = 0;
  if (free_groups_.empty()) {
    made = static_cast<Reference>(groups_.size());
    groups_.emplace_back();
  } else {
    made = free_groups_.back();
    free_groups_.pop_back();
  }
  groups_[made].cell = std::move(cell);
  return made;
}

void Shadow::leave(Reference reference) {
  if (reference == 0) return;
  if ((reference & kSplit) != 0) {
    splits_[reference & ~kSplit] = Split();
    free_splits_.push_back(reference);
    return;
  }
  if (--groups_[reference].pages > 0) return;
  groups_[reference].cell = Cell();
  free_groups_.push_back(reference);
}

void Shadow::assign(Page page, Reference to) {
  Reference& at = reference(page);
  if (at == to) return;
  leave(at);
  at = to;
  if (to != 0) ++groups_[to].pages;
}

// Lists each group among the pages once, with the number of its pages; and each split page.
void Shadow::find_distinct(std::span<const Page> pages) {
  distinct_.clear();
  reference(*std::max_element(pages.begin(), pages.end()));  // there is room for all of them
  for (std::size_t i = 0; i < pages.size();) {
    const Reference at = pages_[pages[i]];
    if ((at & kSplit) != 0) {
      distinct_.push_back(at);
      ++i;
      continue;
    }
    const std::size_t first = i;
    do {
      ++i;
    } while (i < pages.size() && pages_[pages[i]] == at);
    if (groups_[at].seen == 0) distinct_.push_back(at);
    groups_[at].seen += static_cast<std::uint32_t>(i - first);
  }
}

// Adjacent pages mostly belong to one group, so the group's count is changed once for all of them.
void Shadow::assign_all(std::span<const Page> pages, Reference to) {
  for (std::size_t i = 0; i < pages.size();) {
    const Reference from = pages_[pages[i]];
    if ((from & kSplit) != 0) {
      assign(pages[i++], to);
      continue;
    }
    const std::size_t first = i;
    do {
      pages_[pages[i++]] = to;
    } while (i < pages.size() && pages_[pages[i]] == from);
    const auto moved = static_cast<std::uint32_t>(i - first);
    groups_[to].pages += moved;
    if (from == 0) continue;
    groups_[from].pages -= moved - 1;
    leave(from);
  }
}

void Shadow::access(std::span<const Page> pages, const Mark& mark, const Clock& clock, Conflicts& out) {
  if (pages.empty()) return;
  find_distinct(pages);
  for (const Reference at : distinct_) {
    if ((at & kSplit) == 0) {
      groups_[at].cell.find_conflicts(mark, clock, out);
    } else {
      for (const Interval& interval : splits_[at & ~kSplit].intervals) interval.cell.find_conflicts(mark, clock, out);
    }
  }
  if (mark.accessed == Accessed::kWrite) {
    write_pages(pages, mark, clock);
  } else {
    mark_pages(pages, mark, clock);
  }
}

// From now on all pages have one history, except for unordered accesses to single pages, which stay in these pages' own
// cells.
void Shadow::write_pages(std::span<const Page> pages, const Mark& mark, const Clock& clock) {
  Cell merged;
  bool plain = true;  // no cell keeps anything but the write
  for (const Reference at : distinct_) {
    const auto keeps = [&](const Cell& cell) {
      cell.for_each([&](const Mark& m) { plain &= m.accessed == Accessed::kWrite || m.known_to(clock); });
    };
    if ((at & kSplit) == 0) {
      keeps(groups_[at].cell);
    } else {
      for (const Interval& interval : splits_[at & ~kSplit].intervals) keeps(interval.cell);
    }
  }
  if (!plain) {
    mark_pages(pages, mark, clock);
    return;
  }
  const Reference only = distinct_.size() == 1 ? distinct_[0] : 0;
  for (const Reference at : distinct_) {
    if ((at & kSplit) == 0) groups_[at].seen = 0;
  }
  merged.add(mark, clock);
  if (only != 0 && (only & kSplit) == 0 && groups_[only].pages == pages.size()) {
    groups_[only].cell = std::move(merged);
    return;
  }
  const Reference made = new_group(std::move(merged));
  assign_all(pages, made);
}

void Shadow::mark_pages(std::span<const Page> pages, const Mark& mark, const Clock& clock) {
  bool moves = false;
  for (const Reference at : distinct_) {
    if ((at & kSplit) != 0) {
      for (Interval& interval : splits_[at & ~kSplit].intervals) interval.cell.add(mark, clock);
      continue;
    }
    if (at != 0 && groups_[at].seen == groups_[at].pages) {
      groups_[at].cell.add(mark, clock);
      continue;
    }
    Cell cell = groups_[at].cell;
    cell.add(mark, clock);
    const Reference made = new_group(std::move(cell));
    groups_[at].replacement = made;
    moves = true;
  }
  for (const Page page : pages) {
    const Reference at = moves ? pages_[page] : 0;
    if (moves && (at & kSplit) == 0 && groups_[at].replacement != 0) assign(page, groups_[at].replacement);
  }
  for (const Reference at : distinct_) {
    if ((at & kSplit) == 0) groups_[at].seen = groups_[at].replacement = 0;
  }
}

Shadow::Split& Shadow::split(Page page) {
  Reference& at = reference(page);
  if ((at & kSplit) != 0) return splits_[at & ~kSplit];
  Cell cell = groups_[at].cell;
  leave(at);
  if (free_splits_.empty()) {
    at = static_cast<Reference>(splits_.size()) | kSplit;
    splits_.emplace_back();
  } else {
    at = free_splits_.back();
    free_splits_.pop_back();
  }
  Split& made = splits_[at & ~kSplit];
  made.intervals.push_back({0, std::move(cell)});
  return made;
}

void Shadow::unsplit(Page page) {
  Reference& at = pages_[page];
  Intervals& intervals = splits_[at & ~kSplit].intervals;
  if (intervals.size() != 1) return;
  Cell cell = std::move(intervals.front().cell);
  leave(at);
  at = 0;
  if (!cell.empty()) assign(page, new_group(std::move(cell)));
}

// Makes an interval begin at `at`, unless the page ends there.
void Shadow::cut(Intervals& intervals, Bytes at) {
  if (at == kPageBytes) return;
  const auto next = first_at(intervals, at);
  if (next != intervals.end() && next->begin == at) return;
  Cell cell = std::prev(next)->cell;
  intervals.insert(next, Interval{at, std::move(cell)});
}

void Shadow::merge(Intervals& intervals, std::size_t first, std::size_t last, const Clock* host) {
  std::size_t kept = first;
  for (std::size_t i = first; i < last; ++i) {
    if (host != nullptr) intervals[i].cell.forget_known(*host);
    if (i > first && intervals[kept].cell.same(intervals[i].cell)) continue;
    if (i > first) ++kept;
    if (kept != i) intervals[kept] = std::move(intervals[i]);
  }
  const auto begin = intervals.begin();
  intervals.erase(begin + static_cast<std::ptrdiff_t>(kept + 1), begin + static_cast<std::ptrdiff_t>(last));
}

// Does not check the whole page each time, which would make pages with many small buffers slow.
void Shadow::tidy(Split& split, std::size_t first, std::size_t last, const Clock* host) {
  Intervals& intervals = split.intervals;
  merge(intervals, first == 0 ? 0 : first - 1, std::min(last + 1, intervals.size()), host);
  if (intervals.size() < split.worth_tidying) return;
  merge(intervals, 0, intervals.size(), host);
  split.worth_tidying = std::max(kFew, 2 * intervals.size());
}

void Shadow::access(Page page, Bytes begin, Bytes end, const Mark& mark, const Clock& clock, const Clock& host,
                    Conflicts& out) {
  if (begin == 0 && end == kPageBytes) {
    access({&page, 1}, mark, clock, out);
    return;
  }
  Split& halves = split(page);
  Intervals& intervals = halves.intervals;
  cut(intervals, begin);
  cut(intervals, end);
  const auto first = static_cast<std::size_t>(first_at(intervals, begin) - intervals.begin());
  std::size_t last = first;
  for (; last < intervals.size() && intervals[last].begin < end; ++last) {
    intervals[last].cell.find_conflicts(mark, clock, out);
    intervals[last].cell.add(mark, clock);
  }
  tidy(halves, first, last, &host);
  unsplit(page);
}

void Shadow::forget(Page page, Bytes begin, Bytes end) {
  if (page >= pages_.size() || pages_[page] == 0) return;
  if (begin == 0 && end == kPageBytes) {
    assign(page, 0);
    return;
  }
  Split& halves = split(page);
  Intervals& intervals = halves.intervals;
  cut(intervals, begin);
  cut(intervals, end);
  const auto first = static_cast<std::size_t>(first_at(intervals, begin) - intervals.begin());
  std::size_t last = first;
  for (; last < intervals.size() && intervals[last].begin < end; ++last) intervals[last].cell = Cell();
  tidy(halves, first, last, nullptr);
  unsplit(page);
}

std::size_t Shadow::intervals() const {
  std::size_t count = 0;
  for (const Split& split : splits_) count += split.intervals.size();
  return count;
}

void Shadow::validate() const {
  std::vector<std::uint32_t> counts(groups_.size());
  for (const Reference at : pages_) {
    if ((at & kSplit) == 0) {
      ++counts[at];
      continue;
    }
    const Intervals& intervals = splits_[at & ~kSplit].intervals;
    SIMULATOR_CHECK(!intervals.empty() && intervals.front().begin == 0,
                    "intervals cover their page from its beginning");
    for (std::size_t i = 1; i < intervals.size(); ++i) {
      SIMULATOR_CHECK(intervals[i - 1].begin < intervals[i].begin && intervals[i].begin < kPageBytes,
                      "intervals rise within their page");
    }
  }
  for (std::size_t i = 1; i < groups_.size(); ++i) {
    SIMULATOR_CHECK(groups_[i].pages == counts[i], "a group counts the pages that refer to it");
    SIMULATOR_CHECK(groups_[i].seen == 0 && groups_[i].replacement == 0, "no access is in hand");
  }
}

}  // namespace simulator
