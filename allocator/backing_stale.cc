// SPDX-License-Identifier: Apache-2.0
// Addresses whose driver mapping is not their own memory: stale ones still map to pages that were given up and may
// belong to another block by now; others map to host memory (ShownRange). Also: how an address gets back the very page
// that it still maps to.
#include <algorithm>

#include "allocator/backing.h"
#include "driver/check.h"

namespace thermocline {

PageHandle Backing::known_page(std::uint64_t page) const {
  if (const PageHandle physical = assigned_pages_.physical_of(page); physical != PageHandle{}) return physical;
  const StaleRange* const stale = deferred_unmaps_.stale_at(page);
  if (stale == nullptr) return PageHandle{};
  const PageHandle reachable = stale->page_at(page);
  return deferred_unmaps_.time_of(reachable) == stale->time ? reachable : PageHandle{};
}

bool Backing::is_at_hand(PageHandle page, Wait wait) const {
  if (page == PageHandle{}) return false;
  if (const FreeTime time = deferred_unmaps_.time_of(page); time != 0) {
    return wait != Wait::kNo || clock_->passed(deferred_unmaps_.entry_of(time).pending);
  }
  return pool_->holds(page);
}

bool Backing::choose_known(const Block& block, PageRange range, Wait wait) {
  const std::uint64_t begin = space_->page_of(block.begin());
  known_.clear();
  claimed_.clear();
  bool as_left = true;
  for (std::uint64_t page = range.first; page < range.first + range.count; ++page) {
    if (block.handles_[page] != PageHandle{}) {
      as_left = false;
      continue;
    }
    PageHandle known = known_page(begin + page);
    if (!is_at_hand(known, wait) || !claimed_.insert(known).second) known = PageHandle{};
    const StaleRange* const stale = deferred_unmaps_.stale_at(begin + page);
    as_left &=
        stale != nullptr && known == stale->page_at(begin + page) && deferred_unmaps_.time_of(known) == stale->time;
    known_.push_back(known);
  }
  return as_left;
}

bool Backing::may_map_range(const Block& block, PageRange range, Wait wait) {
  if (may_unmap()) return true;
  // Addresses that still lead to their own pages need no call.
  if (choose_known(block, range, wait)) return true;
  const std::uint64_t begin = space_->page_of(block.begin()) + range.first;
  return may_map() && deferred_unmaps_.stale_in(begin, begin + range.count) == nullptr &&
         shown_.in(begin, begin + range.count) == nullptr;
}

Status Backing::sweep_strays(const Block& block, PageRange range, Wait wait) {
  const std::uint64_t begin = space_->page_of(block.begin());
  std::size_t next = 0;
  const StaleRange* stray = nullptr;  // the stale range that contains pages [first, end)
  std::uint64_t first = 0, end = 0;
  const auto sweep = [&] {
    if (stray == nullptr) return Status();
    if (wait == Wait::kNo && !clock_->passed(stray->pending)) return Status::out_of_memory();
    if (const Status status = clock_->synchronize(stray->pending); !status.ok()) return status;
    stray = nullptr;
    return unmap_stale(first, end - first);
  };
  for (std::uint64_t page = range.first; page < range.first + range.count; ++page) {
    if (block.handles_[page] != PageHandle{}) continue;
    const StaleRange* const stale = deferred_unmaps_.stale_at(begin + page);
    const bool stays = stale == nullptr || stale->page_at(begin + page) == known_[next];
    ++next;
    if (stray != nullptr && (stays || stale != stray || end != begin + page)) {
      if (const Status status = sweep(); !status.ok()) return status;
    }
    if (stays) continue;
    if (stray == nullptr) {
      // Look it up again: unmapping may have cut the range that contained this page.
      stray = deferred_unmaps_.stale_at(begin + page);
      first = begin + page;
    }
    end = begin + page + 1;
  }
  return sweep();
}

void Backing::take_known(UseSet* behind) {
  took_.clear();
  for (const PageHandle page : known_) {
    if (page == PageHandle{}) continue;
    const FreeTime time = deferred_unmaps_.time_of(page);
    if (time != 0) {
      behind->join(deferred_unmaps_.entry_of(time).pending);
      deferred_unmaps_.take_page(page);
    } else {
      pool_->take(page);
    }
    took_.push_back({page, time});
  }
}

void Backing::put_back_known() {
  for (const Taken& taken : took_) {
    if (taken.time != 0) {
      deferred_unmaps_.put_back(taken.page, taken.time, space_->pending_since(taken.time));
    } else {
      pool_->give(taken.page);
    }
  }
}

std::uint64_t Backing::borrow_unmissed(std::uint64_t count, UseSet* behind) {
  std::vector<std::pair<std::uint64_t, PageHandle>> idle;
  idle.reserve(deferred_unmaps_.pages());
  for (const auto& [time, entry] : deferred_unmaps_.entries()) {
    for (const PageHandle page : entry.pages) idle.push_back({assigned_pages_.idle_for(page), page});
  }
  count = std::min<std::uint64_t>(count, idle.size());
  const auto end = idle.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(idle.begin(), end, idle.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  for (auto one = idle.begin(); one != end; ++one) {
    behind->join(deferred_unmaps_.entry_of(deferred_unmaps_.time_of(one->second)).pending);
    deferred_unmaps_.take_page(one->second);
    taken_.push_back(one->second);
  }
  return count;
}

void Backing::forget_those_of(const Block& block) {
  const std::uint64_t begin = space_->page_of(block.begin());
  for (std::uint64_t page = begin; page < begin + block.pages(); ++page) assigned_pages_.forget(page);
}

// Sweeps the mappings of blocks whose addresses have been freed.
Status Backing::sweep_abandoned(Wait wait) {
  std::vector<std::uint64_t> firsts;
  shown_.for_each([&](const ShownRange& range) {
    const bool kept = space_->blocks()[range.first] != nullptr;
    if (kept && range.host != nullptr && (wait == Wait::kYes || clock_->passed(range.pending)))
      firsts.push_back(range.first);
  });
  for (const std::uint64_t first : firsts) {
    if (const Status status = wait_for_shown(first, first + 1, Wait::kYes); !status.ok()) return status;
    if (const Status status = hide(first, first + 1); !status.ok()) return status;
  }
  return Status();
}

Status Backing::sweep_stale(std::uint64_t begin, std::uint64_t end, Wait wait) {
  while (const StaleRange* const stale = deferred_unmaps_.stale_in(begin, end)) {
    if (wait == Wait::kNo && !clock_->passed(stale->pending)) return Status::out_of_memory();
    if (const Status status = clock_->synchronize(stale->pending); !status.ok()) return status;
    if (const Status status = unmap_stale(stale->first, stale->count); !status.ok()) return status;
  }
  return Status();
}

Status Backing::unmap_stale(std::uint64_t first, std::uint64_t count) {
  if (!may_unmap()) return Status::not_ready();
  const Status status = driver_->unmap(space_->address_of(first), count * space_->page_bytes());
  if (!status.ok()) return status;
  ++unmaps_;
  deferred_unmaps_.forget_stale(first, count);
  return status;
}

void Backing::sweep_passed_stale(std::size_t most, bool assigned) {
  std::vector<std::uint64_t> firsts;
  deferred_unmaps_.for_each_stale([&](const StaleRange& stale) {
    if (firsts.size() >= most || (!assigned && assigned_pages_.physical_of(stale.first) == stale.leads_to.front()))
      return;
    if (clock_->passed(stale.pending)) firsts.push_back(stale.first);
  });
  for (const std::uint64_t first : firsts) {
    if (!sweep_stale(first, first + 1, Wait::kNo).ok()) return;
  }
}

void Backing::give_up(Block& block, PageRange range, const UseSet& pending) {
  PageHandle* const handles = block.handles_ + range.first;
  THERMOCLINE_CHECK(std::find(handles, handles + range.count, PageHandle{}) == handles + range.count,
                    "What is given up has pages.");
  deferred_unmaps_.add(space_->page_of(block.begin()) + range.first, {handles, range.count}, pending,
                       space_->log(pending));
  std::fill_n(handles, range.count, PageHandle{});
  block.mapped_pages_ -= range.count;
  mapped_pages_ -= range.count;
}

Status Backing::show(Block& block, PageRange range, const std::vector<PageHandle>& pages) {
  THERMOCLINE_CHECK(pages.size() == range.count, "What is shown has a page for each address.");
  if (!may_map()) return Status::not_ready();
  const Bytes page_bytes = space_->page_bytes();
  const DeviceAddress begin = block.begin() + range.first * page_bytes;
  const std::uint64_t first = space_->page_of(begin);
  std::uint64_t mapped = 0;
  Status status;
  for (; mapped < range.count; ++mapped) {
    THERMOCLINE_CHECK(block.handles_[range.first + mapped] == PageHandle{}, "What is shown has no pages of its own.");
    status = driver_->map(begin + mapped * page_bytes, page_bytes, pages[mapped]);
    if (!status.ok()) break;
    ++maps_;
  }
  if (status.ok()) status = driver_->set_access(begin, range.count * page_bytes, devices_);
  if (mapped > 0) shown_.add(first, mapped);
  if (status.ok()) {
    ++set_accesses_;
    return status;
  }
  // If that fails, the addresses stay mapped, without access, until they are mapped again.
  static_cast<void>(hide(first, first + range.count));
  return status;
}

bool Backing::abandon_shown(const Block& block, PageRange range, void* host, const UseSet& pending) {
  ShownRange* const shown = shown_.at(space_->page_of(block.begin()) + range.first);
  if (shown == nullptr) return false;
  THERMOCLINE_CHECK(shown->host == nullptr && shown->count <= range.count, "Shown addresses are abandoned once.");
  shown->host = host;
  shown->pending = pending;
  return true;
}

Status Backing::wait_for_shown(std::uint64_t begin, std::uint64_t end, Wait wait) {
  while (const ShownRange* const shown = shown_.in(begin, end)) {
    if (wait == Wait::kNo && !clock_->passed(shown->pending)) return Status::out_of_memory();
    if (const Status status = clock_->synchronize(shown->pending); !status.ok()) return status;
    begin = shown->end();
  }
  return Status();
}

Status Backing::hide(std::uint64_t begin, std::uint64_t end) {
  while (const ShownRange* const shown = shown_.in(begin, end)) {
    if (!may_unmap()) return Status::not_ready();
    const Status status = driver_->unmap(space_->address_of(shown->first), shown->count * space_->page_bytes());
    if (!status.ok()) return status;
    ++unmaps_;
    shown_.hidden(shown->first, shown->end());
  }
  return Status();
}

// A page that is assigned to another address would do, but that address would then take a third one's page in turn.
bool Backing::homes_at_hand(const Block& block, PageRange range, bool early) const {
  if (assigned_pages_.empty()) return true;
  const std::uint64_t begin = space_->page_of(block.begin()) + range.first;
  for (std::uint64_t page = begin; page < begin + range.count; ++page) {
    if (space_->handles()[page] != PageHandle{}) continue;
    const PageHandle physical = assigned_pages_.physical_of(page);
    if (physical != PageHandle{} && !is_at_hand(physical, Wait::kBehind)) return false;
    if (early && !assigned_pages_.is_next(page)) return false;
  }
  return true;
}

bool Backing::can_map_without_waiting(const Block& block, PageRange range) {
  std::uint64_t begin = space_->page_of(block.begin()) + range.first;
  const std::uint64_t end = begin + range.count;
  for (std::uint64_t page = begin; page < end; ++page) {
    if (space_->handles()[page] != PageHandle{}) continue;
    const PageHandle known = known_page(page);
    const bool at_hand = is_at_hand(known, Wait::kBehind);
    const StaleRange* const stale = deferred_unmaps_.stale_at(page);
    if (stale == nullptr || (at_hand && known == stale->page_at(page)) || clock_->passed(stale->pending)) continue;
    return false;
  }
  while (const ShownRange* const shown = shown_.in(begin, end)) {
    if (!clock_->passed(shown->pending)) return false;
    begin = shown->end();
  }
  return true;
}

std::vector<StaleRange> Backing::take_stale(const Block& block) {
  std::vector<StaleRange> all;
  const std::uint64_t begin = space_->page_of(block.begin());
  while (const StaleRange* const stale = deferred_unmaps_.stale_in(begin, begin + block.pages())) {
    all.push_back(*stale);
    deferred_unmaps_.forget_stale(stale->first);
  }
  const std::size_t stale = all.size();
  for (std::uint64_t page = begin; const ShownRange* const shown = shown_.in(page, begin + block.pages());) {
    THERMOCLINE_CHECK(shown->host != nullptr, "What a block leads to has been abandoned before it goes.");
    all.push_back({shown->first, shown->count, shown->pending, 0, {}});
    page = shown->end();
  }
  std::inplace_merge(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(stale), all.end(),
                     [](const StaleRange& a, const StaleRange& b) { return a.first < b.first; });
  return all;
}

}  // namespace thermocline
