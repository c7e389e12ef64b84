// SPDX-License-Identifier: Apache-2.0
// The access history of every byte of a memory of 2 MiB pages, across free and reuse. Pages with the same history share
// one cell, however many they are, so an operator on hundreds of megabytes costs one look-up per page. Pages that are
// used in parts have a sorted list of intervals.
//
// Invariants (validate()): a group counts the pages that refer to it; the intervals of a split page begin at 0 and
// ascend; adjacent intervals differ.
#pragma once

#include <span>
#include <vector>

#include "simulator/check/cell.h"

namespace simulator {

class Shadow {
 public:
  using Page = std::uint32_t;
  using Conflicts = Cell::Conflicts;

  // Records one access, to whole pages, each named once, or to a part of one page. Appends the accesses that it
  // conflicts with. `host`: what the host knows to be complete; that can not conflict any more and is removed on the
  // way.
  void access(std::span<const Page> pages, const Mark& mark, const Clock& clock, Conflicts& out);
  void access(Page page, Bytes begin, Bytes end, const Mark& mark, const Clock& clock, const Clock& host,
              Conflicts& out);
  // Resets the range to "never accessed".
  void forget(Page page, Bytes begin, Bytes end);

  template <typename Visit>
  void for_each(Page page, Bytes begin, Bytes end, Visit visit) const;

  std::size_t groups() const { return groups_.size() - 1 - free_groups_.size(); }
  std::size_t intervals() const;
  void validate() const;

 private:
  // 0: never accessed. Otherwise a group or, with kSplit, a list of intervals.
  using Reference = std::uint32_t;
  static constexpr Reference kSplit = Reference{1} << 31;
  static constexpr std::size_t kFew = 16;

  struct Group {
    Cell cell;
    std::uint32_t pages = 0;
    std::uint32_t seen = 0;     // how many of its pages the current access includes
    Reference replacement = 0;  // in the current access
  };
  struct Interval {
    Bytes begin = 0;
    Cell cell;
  };
  using Intervals = std::vector<Interval>;
  struct Split {
    Intervals intervals;
    std::size_t worth_tidying = kFew;  // at this number of intervals, all are checked for what the host knows
  };

  Reference& reference(Page page);
  Reference new_group(Cell cell);
  void leave(Reference reference);
  void assign(Page page, Reference to);
  void assign_all(std::span<const Page> pages, Reference to);
  Split& split(Page page);
  void unsplit(Page page);
  static void cut(Intervals& intervals, Bytes at);
  // For the intervals with these indices: removes what the host knows, and merges adjacent ones with the same history.
  static void merge(Intervals& intervals, std::size_t first, std::size_t last, const Clock* host);
  static void tidy(Split& split, std::size_t first, std::size_t last, const Clock* host);
  void find_distinct(std::span<const Page> pages);
  void write_pages(std::span<const Page> pages, const Mark& mark, const Clock& clock);
  void mark_pages(std::span<const Page> pages, const Mark& mark, const Clock& clock);

  std::vector<Reference> pages_;
  std::vector<Group> groups_{Group{}};  // [0]: never accessed
  std::vector<Reference> free_groups_;
  std::vector<Split> splits_;
  std::vector<Reference> free_splits_;
  std::vector<Reference> distinct_;  // references in the current access, each group once
};

template <typename Visit>
void Shadow::for_each(Page page, Bytes begin, Bytes end, Visit visit) const {
  if (page >= pages_.size() || begin >= end) return;
  const Reference reference = pages_[page];
  if ((reference & kSplit) == 0) {
    groups_[reference].cell.for_each(visit);
    return;
  }
  const Intervals& intervals = splits_[reference & ~kSplit].intervals;
  for (std::size_t i = 0; i < intervals.size() && intervals[i].begin < end; ++i) {
    if (i + 1 == intervals.size() || intervals[i + 1].begin > begin) intervals[i].cell.for_each(visit);
  }
}

}  // namespace simulator
