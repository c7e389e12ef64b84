// SPDX-License-Identifier: Apache-2.0
// The physical pages of an address space: mapping, unmapping, and where pages come from. Access is set once for a whole
// block, and a run of pages is unmapped with one call. That saves little on an H200: there each page in a call costs as
// much as a call for one page (30 us for SetAccess, 20 us for Unmap; bench/results/gpu-nvidia-h200.json), whatever its
// size. So pages are as large as the budget allows (offload/page_bytes.h).
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "allocator/address_space.h"
#include "allocator/assigned_pages.h"
#include "allocator/deferred_unmaps.h"
#include "allocator/page_pool.h"
#include "allocator/shown.h"
#include "allocator/stream_clock.h"
#include "driver/driver.h"
#include "driver/locks.h"
#include "driver/probes.h"
#include "driver/status.h"

namespace thermocline {

// How to treat pages that submitted work may still use.
//   - kNo: leave them.
//   - kBehind: take them, those freed first before the others, for a user whose work is ordered after that work on the
//     device. The host does not wait.
//   - kBehindNewest: the same, but those freed last are taken first. For work that is ordered after all of these uses
//     anyway; it leaves the others to users that can start earlier.
//   - kYes: block the host until the work has completed.
enum class Wait { kNo, kBehind, kBehindNewest, kYes };

// Pages of a block, counted from the beginning of the block.
struct PageRange {
  std::uint64_t first = 0, count = 0;
};

// Invariant: mapped pages + pages whose unmap is deferred + pages in the pool == created pages.
//
// Static page assignment (assigned_pages.h): an address with an assigned physical page gets that page if it is
// free. If the driver still maps the address to that page from before, no driver call is needed. So two addresses that
// are never in use at the same time can share a page permanently.
class Backing {
 public:
  // Without `may_alias` no page is mapped at two addresses: a new owner at other addresses waits for the page's users.
  Backing(const Driver& driver, StreamClock& clock, int device, AddressSpace& space, PagePool& pool,
          bool may_alias = true)
      : driver_(&driver), clock_(&clock), devices_{device}, space_(&space), pool_(&pool), may_alias_(may_alias) {}
  // Unmaps everything; the pages return to the pool.
  ~Backing();
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  // See Heap.
  Status map(Block& block, PageRange range, Wait wait, UseSet* behind, bool* untouched = nullptr);
  Status unmap(Block& block, PageRange range);
  // See Heap.
  void give_up(Block& block, PageRange range, const UseSet& pending);
  Status show(Block& block, PageRange range, const std::vector<PageHandle>& pages);
  bool abandon_shown(const Block& block, PageRange range, void* host, const UseSet& pending);
  std::vector<void*> take_released() { return shown_.take_released(); }
  bool has_stale() const { return deferred_unmaps_.has_stale(); }
  // Unmaps up to `most` stale ranges whose uses have completed. `assigned`: also those that still map to their assigned
  // pages.
  void sweep_passed_stale(std::size_t most, bool assigned);
  void forget_assigned_pages(const Block& block) {
    if (assigned_pages_.has_any()) [[unlikely]]
      forget_those_of(block);
  }
  void defer_unmaps_of_free_space();
  AssignedPages& assigned_pages() { return assigned_pages_; }
  const DeferredUnmaps& deferred_unmaps() const { return deferred_unmaps_; }
  // See Heap.
  void mapping_waits(WaitingCalls calls) { waiting_calls_ = calls; }
  Status open_to(int device);
  bool homes_at_hand(const Block& block, PageRange range, bool early) const;
  bool can_map_without_waiting(const Block& block, PageRange range);
  // To be called when the block is about to be freed: returns its ranges that the driver still maps to pages of others,
  // in order of address. From now on they belong to the address space.
  std::vector<StaleRange> take_stale(const Block& block);
  // False: no block has such ranges.
  bool may_have_stale() const { return deferred_unmaps_.has_stale() || !shown_.empty(); }

  // Unmaps all addresses still mapped whose uses have completed (kYes: waits for them). A page is released to the
  // driver only when no address maps to it any more.
  Status sweep_all(Wait wait);
  bool has_stale_mappings() const { return space_->still_mapped_pages() != 0 || deferred_unmaps_.has_stale(); }

  bool passed(const UseSet& uses) { return clock_->passed(uses); }

  // Once `pages` pages have been created, free mapped pages are reused before more are created, if the host need not
  // wait (Wait::kBehind, kBehindNewest); first those for which no wait on the device is needed either.
  void set_ample(std::uint64_t pages) { ample_pages_ = pages; }
  // The next pages will be used on this stream, so uses pending on the same stream need no wait.
  void expect_user(StreamIndex stream) { expected_user_ = stream; }

  // The number of pages that map could find.
  std::uint64_t available_pages(Wait wait);
  // Takes up to `count` pages from free mapped space into the pool, those freed first before the others. Takes all
  // whose uses have completed before it waits for any. Fails only when the driver does.
  Status harvest(std::uint64_t count, Wait wait);

  std::uint64_t mapped_pages() const { return mapped_pages_; }
  std::uint64_t peak_mapped_pages() const { return peak_mapped_pages_; }
  // Pages in the pool, pages that may be created under the limit, free mapped pages, and pages whose unmap is deferred.
  std::uint64_t free_pages() const;
  void reset_peak() { peak_mapped_pages_ = mapped_pages_; }
  std::uint64_t maps() const { return maps_; }
  std::uint64_t set_accesses() const { return set_accesses_; }
  std::uint64_t unmaps() const { return unmaps_; }
  std::uint64_t harvested_pages() const { return harvested_pages_; }

  void validate() const;

 private:
  using Chunk = AddressSpace::Chunk;
  // Adjacent free mapped pages that were freed at one time. If `chunk` is null: pages whose unmap is deferred, and
  // `first` is the time.
  struct Run {
    Chunk* chunk;
    std::uint64_t first, count;
    FreeTime time;
  };

  // Whether the driver's functions may be called without waiting for a blocked stream. False: requests that need the
  // call return not_ready, and change nothing. The engine blocks streams under its lock, so neither result becomes
  // false within one call of the engine.
  bool may_map() { return may_call(waiting_calls_ != WaitingCalls::kAll); }
  bool may_unmap() { return may_call(waiting_calls_ == WaitingCalls::kNone); }
  bool may_call(bool never_waits) {
    if (!never_waits && clock_->any_blocked()) return false;
    mapping_may_be_called();
    return true;
  }
  // Whether all calls that mapping the range needs may be made.
  bool may_map_range(const Block& block, PageRange range, Wait wait);
  // Appends `count` pages to taken_ and adds their pending uses to `behind`, or returns out_of_memory.
  Status gather(std::uint64_t count, Wait wait, UseSet* behind);
  // How many of `count` pages should be reused in stream order although new ones could be created.
  std::uint64_t spare_pages(std::uint64_t count, Wait wait);
  // Whether the expected user can take the run without waiting for another stream.
  bool is_spare(const Run& run);
  // Brings up to `count` pages into the pool, not counting pages to be reused in stream order. `spare`: how many of the
  // `count` should be reused that way.
  Status fill_pool(std::uint64_t count, Wait wait, std::uint64_t* spare);
  // The physical page that the address should get: its assigned page, or the page that the driver still maps there.
  // None: any page will do.
  PageHandle known_page(std::uint64_t page) const;
  // Whether the page is free: in the pool, or its unmap is deferred and `wait` allows its pending uses.
  bool is_at_hand(PageHandle page, Wait wait) const;
  // Fills known_: for each missing page of the range its known page if that is free, else none. True if the whole range
  // is missing and none of its pages has been used by anybody since it was given up.
  bool choose_known(const Block& block, PageRange range, Wait wait);
  // Unmaps those stale addresses of the range that do not map to the page in known_. kNo, and a use through them has
  // not completed: out_of_memory.
  Status sweep_strays(const Block& block, PageRange range, Wait wait);
  void take_known(UseSet* behind);
  void put_back_known();
  // Maps `pages` at the addresses of the range that have none, in order; stale addresses already map to theirs. All or
  // none, except for pages that the driver refuses to unmap again: these stay, are accessible, and are removed from
  // `pages`.
  Status map_missing(Block& block, PageRange range, std::vector<PageHandle>& pages);
  bool take_back(Block& block, std::uint64_t page);
  // Takes `count` pages from free mapped space that may still be in use, those freed first before the others.
  void borrow(std::uint64_t count, bool newest, UseSet* behind);
  // Takes up to `count` pages from deferred unmaps, those that their assigned addresses will need last. Returns how
  // many pages.
  std::uint64_t borrow_unmissed(std::uint64_t count, UseSet* behind);
  // Takes the pages of all runs in runs_, which must be in descending order of address.
  void take_pages_of_runs(UseSet* behind);
  void take_pages_of(const Run& run);
  void forget_those_of(const Block& block);
  // Unmaps the largest chunk that is still mapped and whose uses have completed, if there is one.
  Status sweep_one();
  Status sweep(Chunk* chunk);
  // Unmaps the stale addresses in this range of pages. kNo, and a use through them has not completed: out_of_memory.
  Status sweep_stale(std::uint64_t begin, std::uint64_t end, Wait wait);
  Status unmap_stale(std::uint64_t first, std::uint64_t count);
  // Makes sure that no pending use goes through host mappings in this range. kNo, and one has not completed:
  // out_of_memory.
  Status wait_for_shown(std::uint64_t begin, std::uint64_t end, Wait wait);
  Status sweep_abandoned(Wait wait);
  // Unmaps the host mappings in this range.
  Status hide(std::uint64_t begin, std::uint64_t end);
  Status unmap_pages(std::uint64_t first, std::uint64_t count);
  Status harvest_run(const Run& run);
  Status harvest_runs();
  // Calls visit(first, count) for all pages of addresses that the driver maps and that may be used again without a
  // driver call; adjacent ones together.
  template <class Visit>
  void for_each_mapped_range(Visit visit) const;
  // Collects all runs into runs_, those freed first before the others, or (`newest`) after them.
  void collect_runs(bool newest = false);
  const UseSet& pending_on(const Run& run) const;
  // Leaves in runs_ the first runs for which `wanted` is true, up to `count` pages, in descending order of address;
  // returns the number of pages.
  template <class Wanted>
  std::uint64_t choose_runs(std::uint64_t count, bool newest, Wanted wanted);
  // Takes up to `count` pages of guards into the pool, without waiting.
  Status harvest_guards(std::uint64_t count);
  std::uint64_t passed_free_pages();

  const Driver* driver_;
  StreamClock* clock_;
  std::vector<int> devices_;  // devices with access to mapped pages; the first one has the memory
  AddressSpace* space_;
  PagePool* pool_;
  bool may_alias_;
  WaitingCalls waiting_calls_ = WaitingCalls::kNone;
  DeferredUnmaps deferred_unmaps_;
  Shown shown_;
  AssignedPages assigned_pages_;
  struct Taken {
    PageHandle page;
    FreeTime time;  // when its unmap was deferred; 0: it was in the pool
  };
  std::vector<PageHandle> known_;           // scratch
  std::vector<Taken> took_;                 // scratch: the pages of known_ that have been taken
  std::unordered_set<PageHandle> claimed_;  // scratch
  std::vector<PageHandle> taken_;           // scratch
  std::vector<Chunk*> candidates_;          // scratch
  std::vector<Run> runs_;                   // scratch
  std::uint64_t ample_pages_ = ~std::uint64_t{0};
  StreamIndex expected_user_{};
  std::uint64_t mapped_pages_ = 0;
  std::uint64_t peak_mapped_pages_ = 0;
  std::uint64_t maps_ = 0;
  std::uint64_t set_accesses_ = 0;
  std::uint64_t unmaps_ = 0;
  std::uint64_t harvested_pages_ = 0;
};

}  // namespace thermocline
