// SPDX-License-Identifier: Apache-2.0
#include "allocator/backing.h"

#include <algorithm>
#include <utility>

#include "driver/check.h"

namespace thermocline {
namespace {

// Guards may keep one in so many created pages: below that, a page that goes from guard to guard as a program's phases
// alternate would cost driver calls in every step.
constexpr std::uint64_t kCreatedPerGuard = 256;

// Lent addresses are unmapped when there are as many as half of all pages: what lies side by side then goes together,
// and each call costs the same whatever its length.
constexpr std::uint64_t kCreatedPerLent = 2;

// How often a call is made whose failure would leave pages that nobody may have.
constexpr int kAttempts = 4;

bool borrows(Wait wait) { return wait == Wait::kBehind || wait == Wait::kBehindNewest; }

}  // namespace

Backing::~Backing() {
  // Neighbouring chunks go together: a call costs the same whatever its length.
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  space_->space().for_each([&](const Chunk& chunk) {
    if (chunk.is_free() && !chunk.tag.mapped) return;
    for (std::uint64_t page = chunk.offset(); page < chunk.end(); ++page) {
      if (space_->handles()[page] == PageHandle{}) continue;
      if (page != end) {
        if (end > first) static_cast<void>(unmap_pages(first, end - first));
        first = page;
      }
      end = page + 1;
    }
  });
  if (end > first) static_cast<void>(unmap_pages(first, end - first));
  while (Chunk* lent = space_->largest_lent([](const Chunk&) { return true; })) {
    if (!sweep(lent).ok()) break;
  }
  while (const StaleRange* stale = limbo_.stale_in(0, space_->pages())) {
    if (!unmap_stale(*stale).ok()) break;
  }
  static_cast<void>(hide(0, space_->pages()));
  for (Limbo::Entry& entry : limbo_.entries()) {
    limbo_.take(entry, entry.pages.size(), [this](PageHandle page) { pool_->give(page); });
  }
}

// Free mapped pages that were freed together lie together, and become free for others together.
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
  for (std::size_t i = 0; i < limbo_.entries().size(); ++i) {
    const Limbo::Entry& entry = limbo_.entries()[i];
    if (!entry.pages.empty()) runs_.push_back({nullptr, i, entry.pages.size(), entry.time});
  }
  std::sort(runs_.begin(), runs_.end(),
            [](const Run& a, const Run& b) { return a.time != b.time ? a.time < b.time : a.first < b.first; });
  if (newest) std::reverse(runs_.begin(), runs_.end());
}

// A guard was laid over space that had been freed, and belongs to a block since.
const UseSet& Backing::pending_on(const Run& run) const {
  if (run.chunk == nullptr) return limbo_.entries()[run.first].pending;
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
  // Taking a piece out of a chunk leaves its left rest what it was: so from the right.
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
  return pool_->free_pages() + pool_->creatable_pages() + space_->free_mapped_pages() + limbo_.pages();
}

Status Backing::gather(std::uint64_t count, Wait wait, UseSet* behind) {
  if (space_->lent_pages() * kCreatedPerLent > pool_->created_pages()) {
    if (const Status status = sweep_one(); !status.ok()) return status;
  }
  if (const Status status = fill_pool(count, wait); !status.ok()) return status;
  const std::uint64_t at_hand = std::min(count, pool_->free_pages());
  if (const Status status = pool_->take(at_hand, &taken_); !status.ok() || at_hand == count) return status;
  borrow(count - at_hand, wait == Wait::kBehindNewest, behind);
  return Status();
}

Status Backing::fill_pool(std::uint64_t count, Wait wait) {
  if (pool_->free_pages() >= count) return Status();
  const std::uint64_t missing = count - pool_->free_pages();
  const std::uint64_t creatable = pool_->creatable_pages();
  // Before anything is touched: is there enough?
  if (missing > creatable && available_pages(wait) < count) return Status::out_of_memory();
  // Nobody can be handed what stands behind a guard: it serves before more is created.
  if (space_->mapped_guards() * kCreatedPerGuard > pool_->created_pages()) {
    if (const Status status = harvest_guards(missing); !status.ok()) return status;
    if (pool_->free_pages() >= count) return Status();
  }
  // The device may hold less than the limit, because others use it too.
  const Status created = pool_->create(count - pool_->free_pages());
  if (!created.ok() && !created.is_out_of_memory()) return created;
  // What can be borrowed is not unmapped first.
  if (pool_->free_pages() < count && !borrows(wait)) {
    if (const Status status = harvest(count - pool_->free_pages(), wait); !status.ok()) return status;
  }
  if (pool_->free_pages() >= count) return Status();
  // Others on the device may have left less to create than the limit allows.
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

// A call costs the same whatever its length: neighbours go together.
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
  limbo_.tidy();
  return Status();
}

Status Backing::harvest_guards(std::uint64_t count) {
  candidates_.clear();
  space_->for_each_mapped_guard([this](Chunk& guard) { candidates_.push_back(&guard); });
  for (Chunk* guard : candidates_) {
    if (count == 0) break;
    if (!clock_->passed(guard->tag.pending)) continue;
    if (const Status status = harvest_run({guard, guard->offset(), 1, 0}); !status.ok()) return status;
    --count;
  }
  return Status();
}

// Single pages from behind guards only where there is nothing else. What is in limbo waits for a copy out, and the
// newest of it longest: work that comes behind everything that was freed would have to wait for it.
void Backing::borrow(std::uint64_t count, bool newest, UseSet* behind) {
  enum class Kind { kFree, kLimbo, kGuard };
  const auto kind_of = [](const Run& run) {
    return run.chunk == nullptr ? Kind::kLimbo : run.chunk->tag.guard ? Kind::kGuard : Kind::kFree;
  };
  const auto take_of = [&](bool newest_first, Kind kind, Kind or_kind) {
    if (count == 0) return;
    count -= choose_runs(count, newest_first,
                         [&](const Run& run) { return kind_of(run) == kind || kind_of(run) == or_kind; });
    for (const Run& run : runs_) {
      behind->join(pending_on(run));
      lend_run(run);
    }
    limbo_.tidy();
  };
  if (newest) take_of(true, Kind::kFree, Kind::kFree);
  take_of(false, Kind::kFree, Kind::kLimbo);
  take_of(newest, Kind::kGuard, Kind::kGuard);
  THERMOCLINE_CHECK(count == 0, "What is borrowed was counted before.");
}

void Backing::lend_run(const Run& run) {
  if (run.chunk == nullptr) {
    limbo_.take(limbo_.entries()[run.first], run.count, [this](PageHandle page) { taken_.push_back(page); });
    return;
  }
  const UseSet pending = pending_on(run);
  Chunk* const taken = space_->space().take(run.chunk, run.first, run.count);
  for (std::uint64_t page = taken->offset(); page < taken->end(); ++page) {
    taken_.push_back(space_->handles()[page]);
    space_->handles()[page] = PageHandle{};
  }
  taken->tag.mapped = false;
  taken->tag.lent = true;
  taken->tag.pending = pending;
  mapped_pages_ -= run.count;
  lent_pages_ += run.count;
  space_->space().give(taken);
}

Status Backing::sweep_all(Wait wait) {
  while (Chunk* const chunk = space_->largest_lent(
             [&](const Chunk& lent) { return wait == Wait::kYes || clock_->passed(lent.tag.pending); })) {
    if (const Status status = clock_->synchronize(chunk->tag.pending); !status.ok()) return status;
    if (const Status status = sweep(chunk); !status.ok()) return status;
  }
  if (Status status = sweep_abandoned(wait); !status.ok()) return status;
  if (wait == Wait::kYes) return sweep_stale(0, space_->pages(), wait);
  sweep_passed_stale(limbo_.stale_ranges());
  return Status();
}

// Of blocks that somebody else has by now.
Status Backing::sweep_abandoned(Wait wait) {
  std::vector<std::uint64_t> firsts;
  shown_.for_each([&](const ShownRange& range) {
    const bool kept = space_->blocks()[range.first] != nullptr;
    if (kept && range.host != nullptr && (wait == Wait::kYes || clock_->passed(range.pending)))
      firsts.push_back(range.first);
  });
  for (const std::uint64_t first : firsts) {
    if (const Status status = settle_shown(first, first + 1, Wait::kYes); !status.ok()) return status;
    if (const Status status = hide(first, first + 1); !status.ok()) return status;
  }
  return Status();
}

// The largest first: a call costs the same whatever its length.
Status Backing::sweep_one() {
  Chunk* const chunk = space_->largest_lent([this](const Chunk& lent) { return clock_->passed(lent.tag.pending); });
  return chunk == nullptr ? Status() : sweep(chunk);
}

Status Backing::sweep(Chunk* chunk) {
  const Status status = driver_->unmap(space_->address_of(chunk->offset()), chunk->size() * space_->page_bytes());
  if (!status.ok()) return status;
  ++unmaps_;
  shown_.hidden(chunk->offset(), chunk->end());
  Chunk* const taken = space_->space().take(chunk, chunk->offset(), chunk->size());
  taken->tag.lent = false;
  taken->tag.pending.clear();
  space_->space().give(taken);
  return Status();
}

Status Backing::sweep_stale(std::uint64_t begin, std::uint64_t end, Wait wait) {
  while (const StaleRange* const stale = limbo_.stale_in(begin, end)) {
    if (wait == Wait::kNo && !clock_->passed(stale->pending)) return Status::out_of_memory();
    if (const Status status = clock_->synchronize(stale->pending); !status.ok()) return status;
    if (const Status status = unmap_stale(*stale); !status.ok()) return status;
  }
  return Status();
}

Status Backing::unmap_stale(const StaleRange& range) {
  const Status status = driver_->unmap(space_->address_of(range.first), range.count * space_->page_bytes());
  if (!status.ok()) return status;
  ++unmaps_;
  limbo_.forget_stale(range.first);
  return status;
}

void Backing::sweep_passed_stale(std::size_t most) {
  std::vector<std::uint64_t> firsts;
  limbo_.for_each_stale([&](const StaleRange& stale) {
    if (firsts.size() < most && clock_->passed(stale.pending)) firsts.push_back(stale.first);
  });
  for (const std::uint64_t first : firsts) {
    if (!sweep_stale(first, first + 1, Wait::kNo).ok()) return;
  }
}

void Backing::give_up(Block& block, PageRange range, const UseSet& pending) {
  PageHandle* const handles = block.handles_ + range.first;
  THERMOCLINE_CHECK(std::find(handles, handles + range.count, PageHandle{}) == handles + range.count,
                    "What is given up has pages.");
  limbo_.add(space_->page_of(block.begin()) + range.first, {handles, range.count}, pending, space_->log(pending));
  std::fill_n(handles, range.count, PageHandle{});
  block.mapped_pages_ -= range.count;
  mapped_pages_ -= range.count;
}

Status Backing::show(Block& block, PageRange range, const std::vector<PageHandle>& pages) {
  THERMOCLINE_CHECK(pages.size() == range.count, "What is shown has a page for each address.");
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
  if (status.ok()) status = driver_->set_access(begin, range.count * page_bytes, device_);
  if (mapped > 0) shown_.add(first, mapped);
  if (status.ok()) {
    ++set_accesses_;
    return status;
  }
  // Where that fails, they lead there without access until they are mapped again.
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

Status Backing::settle_shown(std::uint64_t begin, std::uint64_t end, Wait wait) {
  while (const ShownRange* const shown = shown_.in(begin, end)) {
    if (wait == Wait::kNo && !clock_->passed(shown->pending)) return Status::out_of_memory();
    if (const Status status = clock_->synchronize(shown->pending); !status.ok()) return status;
    begin = shown->end();
  }
  return Status();
}

Status Backing::hide(std::uint64_t begin, std::uint64_t end) {
  while (const ShownRange* const shown = shown_.in(begin, end)) {
    const Status status = driver_->unmap(space_->address_of(shown->first), shown->count * space_->page_bytes());
    if (!status.ok()) return status;
    ++unmaps_;
    shown_.hidden(shown->first, shown->end());
  }
  return Status();
}

bool Backing::can_map_without_waiting(const Block& block, PageRange range) {
  std::uint64_t begin = space_->page_of(block.begin()) + range.first;
  const std::uint64_t end = begin + range.count;
  while (const StaleRange* const stale = limbo_.stale_in(begin, end)) {
    if (!clock_->passed(stale->pending)) return false;
    begin = stale->end();
  }
  begin = space_->page_of(block.begin()) + range.first;
  while (const ShownRange* const shown = shown_.in(begin, end)) {
    if (!clock_->passed(shown->pending)) return false;
    begin = shown->end();
  }
  return true;
}

std::vector<StaleRange> Backing::take_stale(const Block& block) {
  std::vector<StaleRange> all;
  const std::uint64_t begin = space_->page_of(block.begin());
  while (const StaleRange* const stale = limbo_.stale_in(begin, begin + block.pages())) {
    all.push_back(*stale);
    limbo_.forget_stale(stale->first);
  }
  const std::size_t stale = all.size();
  for (std::uint64_t page = begin; const ShownRange* const shown = shown_.in(page, begin + block.pages());) {
    THERMOCLINE_CHECK(shown->host != nullptr, "What a block leads to has been abandoned before it goes.");
    all.push_back({shown->first, shown->count, shown->pending});
    page = shown->end();
  }
  std::inplace_merge(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(stale), all.end(),
                     [](const StaleRange& a, const StaleRange& b) { return a.first < b.first; });
  return all;
}

Status Backing::harvest_run(const Run& run) {
  if (run.chunk == nullptr) {
    limbo_.take(limbo_.entries()[run.first], run.count, [this](PageHandle page) { pool_->give(page); });
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

Status Backing::map(Block& block, PageRange range, Wait wait, UseSet* behind) {
  const PageHandle* const handles = block.handles_ + range.first;
  const auto missing = static_cast<std::uint64_t>(std::count(handles, handles + range.count, PageHandle{}));
  if (missing == 0) return Status();
  const std::uint64_t first = space_->page_of(block.begin()) + range.first;
  const std::uint64_t end = first + range.count;
  if (const Status swept = sweep_stale(first, end, wait); !swept.ok()) return swept;
  if (const Status settled = settle_shown(first, end, wait); !settled.ok()) return settled;
  taken_.clear();
  Status status = gather(missing, wait, behind);
  // As late as possible: what has no pages in the end still leads to the host.
  if (status.ok()) status = hide(first, end);
  if (status.ok()) status = map_missing(block, range, taken_);
  if (!status.ok()) {
    // What was borrowed serves its new owner only behind its old users: the pool's pages are free of such.
    bool passed = taken_.empty() || behind->empty();
    for (int attempt = 0; attempt < kAttempts && !passed; ++attempt) passed = clock_->synchronize(*behind).ok();
    THERMOCLINE_CHECK(passed, "What was submitted can be waited for.");
    for (const PageHandle page : taken_) pool_->give(page);
    return status;
  }
  block.mapped_pages_ += missing;
  mapped_pages_ += missing;
  peak_mapped_pages_ = std::max(peak_mapped_pages_, mapped_pages_);
  return Status();
}

Status Backing::map_missing(Block& block, PageRange range, std::vector<PageHandle>& pages) {
  const Bytes page_bytes = space_->page_bytes();
  std::vector<std::uint64_t> done;
  done.reserve(pages.size());
  Status status;
  for (std::uint64_t page = range.first; page < range.first + range.count && status.ok(); ++page) {
    if (block.handles_[page] != PageHandle{}) continue;
    status = driver_->map(block.begin() + page * page_bytes, page_bytes, pages[done.size()]);
    if (!status.ok()) break;
    ++maps_;
    block.handles_[page] = pages[done.size()];
    done.push_back(page);
  }
  THERMOCLINE_CHECK(!status.ok() || done.size() == pages.size(), "As many pages are mapped as were missing.");
  if (status.ok()) {
    // Pages between the first and the last new one are mapped too, so one call does.
    const std::uint64_t first = done.front();
    const std::uint64_t count = done.back() - first + 1;
    status = driver_->set_access(block.begin() + first * page_bytes, count * page_bytes, device_);
    if (status.ok()) {
      ++set_accesses_;
      return status;
    }
  }
  for (const std::uint64_t page : done) {
    if (!take_back(block, page)) std::erase(pages, block.handles_[page]);
  }
  return status;
}

// Undoes the mapping of a page. Where the driver does not, the page stays, and then it has to be accessible, for
// whoever finds a page behind an address takes it to be.
bool Backing::take_back(Block& block, std::uint64_t page) {
  const Bytes page_bytes = space_->page_bytes();
  const DeviceAddress at = block.begin() + page * page_bytes;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (driver_->unmap(at, page_bytes).ok()) {
      ++unmaps_;
      block.handles_[page] = PageHandle{};
      return true;
    }
    if (!driver_->set_access(at, page_bytes, device_).ok()) continue;
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
  THERMOCLINE_CHECK(mapped + limbo_.pages() + pool_->free_pages() == pool_->created_pages(),
                    "Every page is mapped, in limbo or in the pool.");
  limbo_.for_each_stale([this](const StaleRange& stale) {
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
