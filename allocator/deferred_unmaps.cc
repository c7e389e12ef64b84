// SPDX-License-Identifier: Apache-2.0
#include "allocator/deferred_unmaps.h"

#include <algorithm>

#include "driver/check.h"

namespace thermocline {

void DeferredUnmaps::add(std::uint64_t first, std::span<const PageHandle> pages, const UseSet& pending, FreeTime time) {
  std::vector<PageHandle> all(pages.begin(), pages.end());
  for (const PageHandle page : all) where_[page] = time;
  add_stale({first, pages.size(), pending, time, all});
  entries_[time] = {std::move(all), pending};
  pages_ += pages.size();
}

void DeferredUnmaps::take_page(PageHandle page) {
  const auto where = where_.find(page);
  THERMOCLINE_CHECK(where != where_.end(), "What is taken from deferred_unmaps is in it.");
  const auto entry = entries_.find(where->second);
  std::erase(entry->second.pages, page);
  if (entry->second.pages.empty()) entries_.erase(entry);
  where_.erase(where);
  --pages_;
}

void DeferredUnmaps::put_back(PageHandle page, FreeTime time, const UseSet& pending) {
  Entry& entry = entries_[time];
  entry.pages.push_back(page);
  entry.pending.join(pending);
  where_[page] = time;
  ++pages_;
}

const StaleRange* DeferredUnmaps::stale_at(std::uint64_t page) const {
  auto found = stale_.upper_bound(page);
  if (found == stale_.begin()) return nullptr;
  --found;
  return page < found->second.end() ? &found->second : nullptr;
}

void DeferredUnmaps::forget_stale(std::uint64_t first, std::uint64_t count) {
  const StaleRange* const known = stale_at(first);
  THERMOCLINE_CHECK(known != nullptr && first + count <= known->end(), "What is forgotten is stale.");
  const StaleRange whole = *known;
  stale_.erase(whole.first);
  const auto part = [&whole](std::uint64_t begin, std::uint64_t end) {
    const auto at = whole.leads_to.begin();
    return StaleRange{
        begin,
        end - begin,
        whole.pending,
        whole.time,
        {at + static_cast<std::ptrdiff_t>(begin - whole.first), at + static_cast<std::ptrdiff_t>(end - whole.first)}};
  };
  if (first > whole.first) add_stale(part(whole.first, first));
  if (first + count < whole.end()) add_stale(part(first + count, whole.end()));
}

void DeferredUnmaps::validate() const {
  std::uint64_t pages = 0;
  for (const auto& [time, entry] : entries_) {
    THERMOCLINE_CHECK(!entry.pages.empty(), "An entry holds pages.");
    for (const PageHandle page : entry.pages) {
      THERMOCLINE_CHECK(time_of(page) == time, "A page waiting to be unmapped is found by its handle.");
    }
    pages += entry.pages.size();
  }
  THERMOCLINE_CHECK(pages == pages_ && pages == where_.size(), "Pages waiting to be unmapped are counted, each once.");
  std::uint64_t end = 0;
  for (const auto& [first, range] : stale_) {
    THERMOCLINE_CHECK(first == range.first && first >= end && range.leads_to.size() == range.count,
                      "Stale ranges lie apart, and say where they lead.");
    end = range.end();
  }
}

}  // namespace thermocline
