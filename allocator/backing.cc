// SPDX-License-Identifier: Apache-2.0
#include "allocator/backing.h"

#include <algorithm>
#include <utility>

#include "driver/check.h"
#include "driver/locks.h"

namespace thermocline {
namespace {

// Guards may keep one page in this many created pages. Without this allowance, a page that moves from guard to guard as
// a program's phases alternate would cost driver calls in every step.
constexpr std::uint64_t kCreatedPerGuard = 256;

// Addresses still mapped are unmapped when they are more than half of all created pages. By then adjacent ones can be
// unmapped with fewer calls.
constexpr std::uint64_t kCreatedPerStillMapped = 2;

// Number of attempts for a call whose failure would leave pages unusable.
constexpr int kAttempts = 4;

bool borrows(Wait wait) { return wait == Wait::kBehind || wait == Wait::kBehindNewest; }

}  // namespace

Backing::~Backing() {
  waiting_calls_ = WaitingCalls::kNone;  // there is nobody to try again
  mapping_may_be_called();
  // Adjacent chunks are unmapped together: fewer calls.
  for_each_mapped_range(
      [this](std::uint64_t first, std::uint64_t count) { static_cast<void>(unmap_pages(first, count)); });
  while (Chunk* chunk = space_->largest_stale([](const Chunk&) { return true; })) {
    if (!sweep(chunk).ok()) break;
  }
  while (const StaleRange* stale = deferred_unmaps_.stale_in(0, space_->pages())) {
    if (!unmap_stale(stale->first, stale->count).ok()) break;
  }
  static_cast<void>(hide(0, space_->pages()));
  while (deferred_unmaps_.pages() > 0) {
    const auto& [time, entry] = *deferred_unmaps_.entries().begin();
    deferred_unmaps_.take(time, entry.pages.size(), [this](PageHandle page) { pool_->give(page); });
  }
}

template <class Visit>
void Backing::for_each_mapped_range(Visit visit) const {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  space_->space().for_each([&](const Chunk& chunk) {
    if (chunk.is_free() && !chunk.tag.mapped) return;
    for (std::uint64_t page = chunk.offset(); page < chunk.end(); ++page) {
      if (space_->handles()[page] == PageHandle{}) continue;
      if (page != end) {
        if (end > first) visit(first, end - first);
        first = page;
      }
      end = page + 1;
    }
  });
  if (end > first) visit(first, end - first);
}

Status Backing::open_to(int device) {
  if (std::find(devices_.begin(), devices_.end(), device) != devices_.end()) return {};
  if (!may_map()) return Status::not_ready();
  Status status;
  const auto open = [&](std::uint64_t first, std::uint64_t count) {
    const DeviceAddress at = space_->address_of(first);
    if (status.ok()) status = driver_->set_access(at, count * space_->page_bytes(), device);
  };
  for_each_mapped_range(open);
  deferred_unmaps_.for_each_stale([&](const StaleRange& stale) { open(stale.first, stale.count); });
  shown_.for_each([&](const ShownRange& shown) { open(shown.first, shown.count); });
  // On failure, ranges that were already opened to the device stay open; nobody relies on it.
  if (status.ok()) devices_.push_back(device);
  return status;
}

// Pages that were freed at the same time form one run: their pending uses complete together.
void Backing::collect_runs(bool newest) {
  runs_.clear();
  space_->for_each_free_mapped([this](Chunk& chunk) {
    for (std::uint64_t page = chunk.offset(); page < chunk.end();) {
      const FreeTime time = space_->freed_at(page);
      std::uint64_t end = page + 1;
      while (end < chunk.end() && space_->freed_at(end) == time) ++end;
      runs_.push_back({&chunk, page, end - page, time});
      page = end;
    }
  });
  for (const auto& [time, entry] : deferred_unmaps_.entries())
    runs_.push_back({nullptr, time, entry.pages.size(), time});
  std::sort(runs_.begin(), runs_.end(),
            [](const Run& a, const Run& b) { return a.time != b.time ? a.time < b.time : a.first < b.first; });
  if (newest) std::reverse(runs_.begin(), runs_.end());
}

// A guard was laid over space that had been freed earlier, and belongs to a block since then, so its uses are in its
// own tag.
const UseSet& Backing::pending_on(const Run& run) const {
  if (run.chunk == nullptr) return deferred_unmaps_.entry_of(run.time).pending;
  return run.chunk->tag.guard ? run.chunk->tag.pending : space_->pending_since(run.time);
}

template <class Wanted>
std::uint64_t Backing::choose_runs(std::uint64_t count, bool newest, Wanted wanted) {
  collect_runs(newest);
  std::uint64_t chosen = 0;
  auto kept = runs_.begin();
  for (auto run = runs_.begin(); run != runs_.end() && chosen < count; ++run) {
    if (!wanted(*run)) continue;
    Run part = *run;
    part.count = std::min(part.count, count - chosen);
    chosen += part.count;
    *kept++ = part;
  }
  runs_.erase(kept, runs_.end());
  // From right to left: taking a run out of a chunk leaves the rest on its left unchanged.
  std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.first > b.first; });
  return chosen;
}

std::uint64_t Backing::passed_free_pages() {
  std::uint64_t pages = 0;
  collect_runs();
  for (const Run& run : runs_) pages += clock_->passed(pending_on(run)) ? run.count : 0;
  return pages;
}

std::uint64_t Backing::available_pages(Wait wait) {
  return wait == Wait::kNo ? pool_->free_pages() + pool_->creatable_pages() + passed_free_pages() : free_pages();
}

std::uint64_t Backing::free_pages() const {
  return pool_->free_pages() + pool_->creatable_pages() + space_->free_mapped_pages() + deferred_unmaps_.pages();
}

Status Backing::gather(std::uint64_t count, Wait wait, UseSet* behind) {
  if (space_->still_mapped_pages() * kCreatedPerStillMapped > pool_->created_pages() && may_unmap()) {
    if (const Status status = sweep_one(); !status.ok()) return status;
  }
  std::uint64_t spare = 0;
  if (const Status status = fill_pool(count, wait, &spare); !status.ok()) return status;
  const std::uint64_t at_hand = std::min(count, pool_->free_pages());
  if (const Status status = pool_->take(at_hand, &taken_); !status.ok() || at_hand == count) return status;
  count -= at_hand;
  if (spare != 0) {
    count -= choose_runs(count, wait == Wait::kBehindNewest, [this](const Run& run) { return is_spare(run); });
    take_pages_of_runs(behind);
  }
  borrow(count, wait == Wait::kBehindNewest, behind);
  return Status();
}

// While there is free memory, nobody has to wait for another stream, not even on the device: a kernel there may itself
// wait for a kernel of that other stream. Pages whose unmap is deferred (deferred_unmaps_) wait for a copy out, so they
// are not spare.
bool Backing::is_spare(const Run& run) {
  const UseSet& pending = pending_on(run);
  return run.chunk != nullptr && !clock_->is_blocked(pending) &&
         std::all_of(pending.begin(), pending.end(),
                     [this](Use use) { return use.stream == expected_user_ || clock_->passed(use); });
}

std::uint64_t Backing::spare_pages(std::uint64_t count, Wait wait) {
  if (!borrows(wait)) return 0;
  const std::uint64_t missing = count - pool_->free_pages();
  const std::uint64_t unasked = ample_pages_ - std::min(ample_pages_, pool_->created_pages());
  if (missing <= unasked) return 0;
  return choose_runs(missing - unasked, false, [this](const Run& run) { return is_spare(run); });
}

Status Backing::fill_pool(std::uint64_t count, Wait wait, std::uint64_t* spare) {
  if (pool_->free_pages() >= count) return Status();
  // A page at a guard can not be handed out with its addresses, so it is used before more pages are created.
  if (space_->mapped_guards() * kCreatedPerGuard > pool_->created_pages() && may_unmap()) {
    if (const Status status = harvest_guards(count - pool_->free_pages()); !status.ok()) return status;
    if (pool_->free_pages() >= count) return Status();
  }
  *spare = spare_pages(count, wait);
  if (pool_->free_pages() + *spare >= count) return Status();
  // May create fewer than the limit allows: other processes use the device too.
  const Status created = pool_->create(count - *spare - pool_->free_pages(),
                                       wait == Wait::kYes ? PagePool::Ask::kInsist : PagePool::Ask::kUnlessKnown);
  if (!created.ok() && !created.is_out_of_memory()) return created;
  // Pages that can be reused in stream order are not unmapped first.
  if (pool_->free_pages() < count && !borrows(wait)) {
    if (const Status status = harvest(count - pool_->free_pages(), wait); !status.ok()) return status;
  }
  if (pool_->free_pages() + *spare >= count) return Status();
  // Because of other users of the device, fewer pages may have been created than the limit allows.
  return borrows(wait) && available_pages(wait) - pool_->creatable_pages() >= count ? Status()
                                                                                    : Status::out_of_memory();
}

Status Backing::harvest(std::uint64_t count, Wait wait) {
  count -= choose_runs(count, false, [this](const Run& run) { return clock_->passed(pending_on(run)); });
  if (const Status status = harvest_runs(); !status.ok() || wait != Wait::kYes) return status;
  while (count > 0) {
    bool first = true;
    const std::uint64_t pages = choose_runs(count, false, [&first](const Run&) { return std::exchange(first, false); });
    if (pages == 0) return Status();
    if (const Status status = clock_->synchronize(pending_on(runs_.front())); !status.ok()) return status;
    if (const Status status = harvest_runs(); !status.ok()) return status;
    count -= pages;
  }
  return Status();
}

// Adjacent runs are unmapped together: fewer calls.
Status Backing::harvest_runs() {
  for (auto run = runs_.begin(); run != runs_.end();) {
    Run whole = *run;
    for (++run; whole.chunk != nullptr && run != runs_.end() && run->chunk == whole.chunk &&
                run->first + run->count == whole.first;
         ++run) {
      whole.first = run->first;
      whole.count += run->count;
    }
    if (const Status status = harvest_run(whole); !status.ok()) return status;
  }
  return Status();
}

Status Backing::harvest_guards(std::uint64_t count) {
  candidates_.clear();
  space_->for_each_mapped_guard([this](Chunk& guard) { candidates_.push_back(&guard); });
  std::ranges::sort(candidates_, {}, [](const Chunk* guard) { return guard->offset(); });
  for (Chunk* guard : candidates_) {
    if (count == 0) break;
    if (!clock_->passed(guard->tag.pending)) continue;
    if (const Status status = harvest_run({guard, guard->offset(), 1, 0}); !status.ok()) return status;
    --count;
  }
  return Status();
}

// Single pages of guards are taken last. Pages whose unmap is deferred wait for a copy out, the newest of them longest,
// and a newest-first choice would make the new work wait for those copies: so free mapped space comes before them.
void Backing::borrow(std::uint64_t count, bool newest, UseSet* behind) {
  enum class Kind { kFree, kDeferredUnmap, kGuard };
  const auto kind_of = [](const Run& run) {
    return run.chunk == nullptr ? Kind::kDeferredUnmap : run.chunk->tag.guard ? Kind::kGuard : Kind::kFree;
  };
  const auto take_of = [&](bool newest_first, Kind kind, Kind or_kind) {
    if (count == 0) return;
    count -= choose_runs(count, newest_first,
                         [&](const Run& run) { return kind_of(run) == kind || kind_of(run) == or_kind; });
    take_pages_of_runs(behind);
  };
  if (newest) take_of(true, Kind::kFree, Kind::kFree);
  if (!assigned_pages_.empty()) {
    take_of(false, Kind::kFree, Kind::kFree);
    count -= borrow_unmissed(count, behind);
  }
  take_of(false, Kind::kFree, Kind::kDeferredUnmap);
  take_of(newest, Kind::kGuard, Kind::kGuard);
  THERMOCLINE_CHECK(count == 0, "What is borrowed was counted before.");
}

void Backing::take_pages_of_runs(UseSet* behind) {
  for (const Run& run : runs_) {
    behind->join(pending_on(run));
    take_pages_of(run);
  }
}

void Backing::take_pages_of(const Run& run) {
  if (run.chunk == nullptr) {
    deferred_unmaps_.take(run.time, run.count, [this](PageHandle page) { taken_.push_back(page); });
    return;
  }
  const UseSet pending = pending_on(run);
  Chunk* const taken = space_->space().take(run.chunk, run.first, run.count);
  for (std::uint64_t page = taken->offset(); page < taken->end(); ++page) {
    taken_.push_back(space_->handles()[page]);
    space_->handles()[page] = PageHandle{};
  }
  taken->tag.mapped = false;
  taken->tag.still_mapped = true;
  taken->tag.pending = pending;
  mapped_pages_ -= run.count;
  space_->space().give(taken);
}

void Backing::defer_unmaps_of_free_space() {
  choose_runs(space_->free_mapped_pages(), false, [](const Run& run) { return run.chunk != nullptr; });
  for (const Run& run : runs_) {
    const UseSet pending = pending_on(run);
    // A guard has no free time of its own.
    const FreeTime time = run.chunk->tag.guard ? space_->log(pending) : run.time;
    taken_.clear();
    take_pages_of(run);
    deferred_unmaps_.add(taken_, pending, time);
  }
  taken_.clear();
}

Status Backing::sweep_all(Wait wait) {
  while (Chunk* const chunk = space_->largest_stale(
             [&](const Chunk& one) { return wait == Wait::kYes || clock_->passed(one.tag.pending); })) {
    if (const Status status = clock_->synchronize(chunk->tag.pending); !status.ok()) return status;
    if (const Status status = sweep(chunk); !status.ok()) return status;
  }
  if (Status status = sweep_abandoned(wait); !status.ok()) return status;
  if (wait == Wait::kYes) return sweep_stale(0, space_->pages(), wait);
  sweep_passed_stale(deferred_unmaps_.stale_ranges(), true);
  return Status();
}

// Unmaps the largest chunk first: most pages for one call.
Status Backing::sweep_one() {
  Chunk* const chunk = space_->largest_stale([this](const Chunk& one) { return clock_->passed(one.tag.pending); });
  return chunk == nullptr ? Status() : sweep(chunk);
}

Status Backing::sweep(Chunk* chunk) {
  if (!may_unmap()) return Status::not_ready();
  const Status status = driver_->unmap(space_->address_of(chunk->offset()), chunk->size() * space_->page_bytes());
  if (!status.ok()) return status;
  ++unmaps_;
  shown_.hidden(chunk->offset(), chunk->end());
  Chunk* const taken = space_->space().take(chunk, chunk->offset(), chunk->size());
  taken->tag.still_mapped = false;
  taken->tag.pending.clear();
  space_->space().give(taken);
  return Status();
}

Status Backing::harvest_run(const Run& run) {
  if (run.chunk == nullptr) {
    deferred_unmaps_.take(run.time, run.count, [this](PageHandle page) { pool_->give(page); });
    return Status();
  }
  AddressSpace::Space& space = space_->space();
  Chunk* const taken = space.take(run.chunk, run.first, run.count);
  const Status status = unmap_pages(taken->offset(), run.count);
  if (status.ok()) {
    taken->tag.mapped = false;
    taken->tag.pending.clear();
    harvested_pages_ += run.count;
  }
  space.give(taken);
  return status;
}

Status Backing::unmap_pages(std::uint64_t first, std::uint64_t count) {
  if (!may_unmap()) return Status::not_ready();
  const Status status = driver_->unmap(space_->address_of(first), count * space_->page_bytes());
  if (!status.ok()) return status;
  ++unmaps_;
  mapped_pages_ -= count;
  for (std::uint64_t page = first; page < first + count; ++page) {
    pool_->give(space_->handles()[page]);
    space_->handles()[page] = PageHandle{};
  }
  return Status();
}

Status Backing::map(Block& block, PageRange range, Wait wait, UseSet* behind, bool* untouched) {
  if (borrows(wait) && !may_alias_) wait = Wait::kYes;
  const PageHandle* const handles = block.handles_ + range.first;
  const auto missing = static_cast<std::uint64_t>(std::count(handles, handles + range.count, PageHandle{}));
  if (untouched != nullptr) *untouched = false;
  if (missing == 0) return Status();
  if (!may_map_range(block, range, wait)) return Status::not_ready();
  const std::uint64_t first = space_->page_of(block.begin()) + range.first;
  const std::uint64_t end = first + range.count;
  // Check before any change whether there is enough memory.
  if (missing > pool_->free_pages() + pool_->creatable_pages() && available_pages(wait) < missing) {
    return Status::out_of_memory();
  }
  const bool as_left = choose_known(block, range, wait);
  if (const Status swept = sweep_strays(block, range, wait); !swept.ok()) return swept;
  if (const Status waited = wait_for_shown(first, end, wait); !waited.ok()) return waited;
  take_known(behind);
  taken_.clear();
  Status status = gather(missing - took_.size(), wait, behind);
  if (!status.ok()) {
    put_back_known();
    return status;
  }
  auto next = taken_.begin();
  for (PageHandle& page : known_) page = page != PageHandle{} ? page : *next++;
  // As late as possible: if mapping fails before this, the addresses still map to the host.
  status = hide(first, end);
  if (status.ok()) status = map_missing(block, range, known_);
  if (!status.ok()) {
    // Borrowed pages may be used only after their former users' work, but pages in the pool must have no pending uses:
    // so wait here before they go there. In a lost context nothing uses them any more.
    const WaitsInPlace no_other_way;
    const StreamClock::Deferring none(*clock_, false);
    bool passed = known_.empty() || behind->empty();
    for (int attempt = 0; attempt < kAttempts && !passed; ++attempt) {
      const Status waited = clock_->synchronize(*behind);
      passed = waited.ok() || waited.loses_the_context();
    }
    THERMOCLINE_CHECK(passed, "What was submitted can be waited for.");
    for (const PageHandle page : known_) pool_->give(page);
    return status;
  }
  if (untouched != nullptr) *untouched = as_left;
  block.mapped_pages_ += missing;
  mapped_pages_ += missing;
  peak_mapped_pages_ = std::max(peak_mapped_pages_, mapped_pages_);
  return Status();
}

Status Backing::map_missing(Block& block, PageRange range, std::vector<PageHandle>& pages) {
  const Bytes page_bytes = space_->page_bytes();
  const std::uint64_t begin = space_->page_of(block.begin());
  std::vector<std::uint64_t> done, kept;
  done.reserve(pages.size());
  Status status;
  std::size_t next = 0;
  for (std::uint64_t page = range.first; page < range.first + range.count && status.ok(); ++page) {
    if (block.handles_[page] != PageHandle{}) continue;
    const PageHandle physical = pages[next++];
    if (deferred_unmaps_.stale_at(begin + page) != nullptr) {
      kept.push_back(page);
      continue;
    }
    status = driver_->map(block.begin() + page * page_bytes, page_bytes, physical);
    if (!status.ok()) break;
    ++maps_;
    block.handles_[page] = physical;
    done.push_back(page);
  }
  THERMOCLINE_CHECK(!status.ok() || done.size() + kept.size() == pages.size(), "As many pages as were missing.");
  if (status.ok() && !done.empty()) {
    // Pages between the first and the last new one are mapped too, so one call covers all.
    const std::uint64_t first = done.front();
    const std::uint64_t count = done.back() - first + 1;
    status = driver_->set_access(block.begin() + first * page_bytes, count * page_bytes, devices_);
    set_accesses_ += status.ok() ? 1 : 0;
  }
  if (status.ok()) {
    for (const std::uint64_t page : kept) {
      block.handles_[page] = deferred_unmaps_.stale_at(begin + page)->page_at(begin + page);
      deferred_unmaps_.forget_stale(begin + page, 1);
    }
    return status;
  }
  for (const std::uint64_t page : done) {
    if (!take_back(block, page)) std::erase(pages, block.handles_[page]);
  }
  return status;
}

// Undoes the mapping of a page. If the driver refuses to unmap it, the page stays in the block and is made accessible,
// because every page recorded in a block is taken to be accessible. In a lost context nothing accesses it.
bool Backing::take_back(Block& block, std::uint64_t page) {
  const Bytes page_bytes = space_->page_bytes();
  const DeviceAddress at = block.begin() + page * page_bytes;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (may_unmap() && driver_->unmap(at, page_bytes).ok()) {
      ++unmaps_;
      block.handles_[page] = PageHandle{};
      return true;
    }
    const Status accessible = driver_->set_access(at, page_bytes, devices_);
    if (!accessible.ok() && !accessible.loses_the_context()) continue;
    ++set_accesses_;
    ++block.mapped_pages_;
    peak_mapped_pages_ = std::max(peak_mapped_pages_, ++mapped_pages_);
    return false;
  }
  THERMOCLINE_CHECK(false, "What was just mapped can be unmapped, or used.");
  return false;
}

Status Backing::unmap(Block& block, PageRange range) {
  std::uint64_t page = range.first;
  const std::uint64_t last = range.first + range.count;
  while (page < last) {
    std::uint64_t end = page;
    while (end < last && block.handles_[end] != PageHandle{}) ++end;
    if (end > page) {
      const std::uint64_t first = space_->page_of(block.begin()) + page;
      if (const Status status = unmap_pages(first, end - page); !status.ok()) return status;
      block.mapped_pages_ -= end - page;
    }
    page = end + 1;
  }
  return Status();
}

void Backing::validate() const {
  std::uint64_t mapped = 0;
  space_->space().for_each([&](const Chunk& chunk) {
    if (chunk.is_free()) {
      mapped += chunk.tag.mapped ? chunk.size() : 0;
      return;
    }
    for (std::uint64_t page = chunk.offset(); page < chunk.end(); ++page) {
      mapped += space_->handles()[page] != PageHandle{} ? 1 : 0;
    }
  });
  THERMOCLINE_CHECK(mapped == mapped_pages_, "Mapped pages are counted.");
  THERMOCLINE_CHECK(mapped + deferred_unmaps_.pages() + pool_->free_pages() == pool_->created_pages(),
                    "Every page is mapped, waiting to be unmapped or in the pool.");
  deferred_unmaps_.validate();
  deferred_unmaps_.for_each_stale([this](const StaleRange& stale) {
    const Block* const block = space_->blocks()[stale.first];
    THERMOCLINE_CHECK(block != nullptr && space_->address_of(stale.end() - 1) < block->end(),
                      "Stale addresses belong to one live block.");
    for (std::uint64_t page = stale.first; page < stale.end(); ++page) {
      THERMOCLINE_CHECK(space_->handles()[page] == PageHandle{}, "Stale addresses have no pages of their own.");
    }
  });
  shown_.for_each([this](const ShownRange& range) {
    const bool lives = space_->blocks()[range.first] != nullptr;
    THERMOCLINE_CHECK(lives || range.host != nullptr, "Shown addresses are a live block's, or abandoned.");
    for (std::uint64_t page = range.first; page < range.end(); ++page) {
      THERMOCLINE_CHECK(space_->handles()[page] == PageHandle{}, "Shown addresses have no pages of their own.");
    }
  });
  THERMOCLINE_CHECK(pool_->created_bytes() <= pool_->limit(), "Pages are created under the limit.");
}

}  // namespace thermocline
