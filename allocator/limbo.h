// SPDX-License-Identifier: Apache-2.0
// What a live block has given up before everything that uses it has passed: its pages, which others may have if their
// work is ordered behind that, and its addresses, which the driver still leads to those pages until somebody unmaps
// them.
//
// A page is in limbo from the time it is given up until somebody takes it; addresses are stale until they are unmapped,
// which may be long after the pages have gone elsewhere. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "allocator/pending_log.h"
#include "allocator/use_set.h"
#include "driver/driver.h"

namespace thermocline {

// Addresses, in pages of the reservation, that the driver still leads to pages of others.
struct StaleRange {
  std::uint64_t first = 0, count = 0;
  UseSet pending;  // what may still use those pages through these addresses
  std::uint64_t end() const { return first + count; }
};

class Limbo {
 public:
  struct Entry {
    std::vector<PageHandle> pages;
    UseSet pending;
    FreeTime time = 0;
  };

  // Addresses from page `first` on, and what stands behind them.
  void add(std::uint64_t first, std::span<const PageHandle> pages, const UseSet& pending, FreeTime time) {
    entries_.push_back({{pages.begin(), pages.end()}, pending, time});
    stale_[first] = {first, pages.size(), pending};
    pages_ += pages.size();
  }

  // Pages in limbo, oldest first. Entries that have been emptied go with tidy().
  std::vector<Entry>& entries() { return entries_; }
  const std::vector<Entry>& entries() const { return entries_; }
  std::uint64_t pages() const { return pages_; }
  template <class Take>
  void take(Entry& entry, std::uint64_t count, Take take_one) {
    for (; count > 0; --count, --pages_) {
      take_one(entry.pages.back());
      entry.pages.pop_back();
    }
  }
  void tidy() {
    std::erase_if(entries_, [](const Entry& entry) { return entry.pages.empty(); });
  }

  bool has_stale() const { return !stale_.empty(); }
  std::size_t stale_ranges() const { return stale_.size(); }
  // The first stale range that has pages within [begin, end); null when there is none. Ranges never reach over the end
  // of a block.
  const StaleRange* stale_in(std::uint64_t begin, std::uint64_t end) const {
    const auto found = stale_.lower_bound(begin);
    return found != stale_.end() && found->first < end ? &found->second : nullptr;
  }
  void forget_stale(std::uint64_t first) { stale_.erase(first); }
  template <class Visit>
  void for_each_stale(Visit visit) const {
    for (const auto& [first, range] : stale_) visit(range);
  }

 private:
  std::vector<Entry> entries_;
  std::map<std::uint64_t, StaleRange> stale_;  // by first page
  std::uint64_t pages_ = 0;
};

}  // namespace thermocline
