// SPDX-License-Identifier: Apache-2.0
// Deferred unmaps: memory that a live block has given up before all work that uses it has completed. That is its
// physical pages, which others may take if their work is ordered after those uses, and its addresses, which the driver
// still maps to the same pages until they are unmapped.
//
// Terms: the unmap of a page is deferred from the time it is given up until somebody takes the page. Addresses are
// stale until they are unmapped, which may be long after the pages have gone to another block. An address that gets
// back the very page it still maps to needs no driver call. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/pending_log.h"
#include "allocator/use_set.h"
#include "driver/driver.h"

namespace thermocline {

// Addresses, in pages of the reservation, that the driver still maps to pages that were given up.
struct StaleRange {
  std::uint64_t first = 0, count = 0;
  UseSet pending;                    // work that may still use those pages through these addresses
  FreeTime time = 0;                 // when they were given up
  std::vector<PageHandle> leads_to;  // by page of addresses: the physical page that it still maps to
  std::uint64_t end() const { return first + count; }
  PageHandle page_at(std::uint64_t page) const { return leads_to[page - first]; }
};

// Invariants: pages_ and where_ agree with entries_; no entry is empty; stale ranges do not overlap.
class DeferredUnmaps {
 public:
  struct Entry {
    std::vector<PageHandle> pages;
    UseSet pending;
  };

  // Adds the addresses from page `first` on, and the physical pages mapped there. `time` must be later than any before.
  void add(std::uint64_t first, std::span<const PageHandle> pages, const UseSet& pending, FreeTime time);

  // Adds pages that no address of a block maps to.
  void add(std::span<const PageHandle> pages, const UseSet& pending, FreeTime time) {
    for (const PageHandle page : pages) put_back(page, time, pending);
  }

  // By the time of giving up: oldest first.
  const std::map<FreeTime, Entry>& entries() const { return entries_; }
  const Entry& entry_of(FreeTime time) const { return entries_.at(time); }
  std::uint64_t pages() const { return pages_; }
  template <class Take>
  void take(FreeTime time, std::uint64_t count, Take take_one) {
    const auto entry = entries_.find(time);
    for (std::vector<PageHandle>& pages = entry->second.pages; count > 0; --count, --pages_) {
      where_.erase(pages.back());
      take_one(pages.back());
      pages.pop_back();
    }
    if (entry->second.pages.empty()) entries_.erase(entry);
  }

  // When the page was given up, if its unmap is deferred now; else 0.
  FreeTime time_of(PageHandle page) const {
    const auto found = where_.find(page);
    return found == where_.end() ? 0 : found->second;
  }
  void take_page(PageHandle page);
  // Returns a page that was taken and is not needed after all.
  void put_back(PageHandle page, FreeTime time, const UseSet& pending);

  bool has_stale() const { return !stale_.empty(); }
  std::size_t stale_ranges() const { return stale_.size(); }
  // The first stale range that begins within [begin, end); null when there is none. No range extends over the end of a
  // block.
  const StaleRange* stale_in(std::uint64_t begin, std::uint64_t end) const {
    const auto found = stale_.lower_bound(begin);
    return found != stale_.end() && found->first < end ? &found->second : nullptr;
  }
  // The stale range that contains this page of addresses; null when it is not stale.
  const StaleRange* stale_at(std::uint64_t page) const;
  void forget_stale(std::uint64_t first) { stale_.erase(first); }
  // Removes this part of one stale range; the parts on both sides stay stale.
  void forget_stale(std::uint64_t first, std::uint64_t count);
  template <class Visit>
  void for_each_stale(Visit visit) const {
    for (const auto& [first, range] : stale_) visit(range);
  }

  void validate() const;

 private:
  void add_stale(StaleRange range) { stale_[range.first] = std::move(range); }

  std::map<FreeTime, Entry> entries_;
  std::unordered_map<PageHandle, FreeTime> where_;  // of every page in entries_
  std::map<std::uint64_t, StaleRange> stale_;       // by first page
  std::uint64_t pages_ = 0;
};

}  // namespace thermocline
