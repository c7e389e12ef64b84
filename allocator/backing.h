// SPDX-License-Identifier: Apache-2.0
// The physical pages behind an address space: mapping, unmapping, and where pages come from. Each driver call costs
// tens of microseconds whatever its length (36 for SetAccess, 26 for Unmap; 1.5 for each page that is mapped), so
// access is set once for a whole block, and a run of pages is unmapped by one call.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "allocator/address_space.h"
#include "allocator/deferred_unmaps.h"
#include "allocator/page_pool.h"
#include "allocator/shown.h"
#include "allocator/stream_clock.h"
#include "allocator/timetable.h"
#include "driver/driver.h"
#include "driver/status.h"

namespace thermocline {

// What to do about pages that submitted work may still use. kNo: leave them. kBehind: take them, what was freed first
// first, for a user whose work is ordered behind that work on the device; nobody waits. kBehindNewest: the same, what
// was freed last first: for work that runs behind all that anyway, and leaves the others to those who can begin
// earlier. kYes: block the host until it has passed.
enum class Wait { kNo, kBehind, kBehindNewest, kYes };

// Pages of a block, counted from its begin.
struct PageRange {
  std::uint64_t first = 0, count = 0;
};

// Invariant: mapped pages + pages waiting to be unmapped + pages in the pool == created pages.
//
// Homes are advice: an address that has one gets that page where nobody has it. Where it leads there still, since it
// had it before, no call of the driver is needed: so two that are never mapped at the same time can share a page for
// good.
class Backing {
 public:
  // Without `may_alias` no page stands behind two addresses: whoever would take it behind others waits for them.
  Backing(const Driver& driver, StreamClock& clock, int device, AddressSpace& space, PagePool& pool,
          bool may_alias = true)
      : driver_(&driver), clock_(&clock), devices_{device}, space_(&space), pool_(&pool), may_alias_(may_alias) {}
  // Unmaps everything; the pages go to the pool.
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
  // `homes`: those that lead home, too.
  void sweep_passed_stale(std::size_t most, bool homes);
  void forget_homes(const Block& block);
  void loosen();
  Timetable& timetable() { return timetable_; }
  const DeferredUnmaps& deferred_unmaps() const { return deferred_unmaps_; }
  // See Heap.
  Status open_to(int device);
  bool homes_at_hand(const Block& block, PageRange range, bool early) const;
  bool can_map_without_waiting(const Block& block, PageRange range);
  // The block is about to be freed: its addresses that are mapped all the same, in order, which are the address space's
  // from now on.
  std::vector<StaleRange> take_stale(const Block& block);

  // Unmaps all lent addresses whose last users have passed (kYes: waits for them). A page is given back to the driver
  // only when no address leads to it any more.
  Status sweep_all(Wait wait);
  bool has_lent() const { return space_->lent_pages() != 0 || deferred_unmaps_.has_stale(); }

  bool passed(const UseSet& uses) { return clock_->passed(uses); }

  // From `pages` created pages on, what is free and mapped serves before more are created, where the host need not wait
  // for that (Wait::kBehind, kBehindNewest); first what makes nobody wait on the device either.
  void set_ample(std::uint64_t pages) { ample_pages_ = pages; }
  // Who gets pages next will use them on this stream: it need not wait for what that does already.
  void expect_user(StreamIndex stream) { expected_user_ = stream; }

  // Pages that map could find.
  std::uint64_t available_pages(Wait wait);
  // Takes up to `count` pages from free mapped space into the pool: what was freed first goes first; all that has
  // passed before anything is waited for. Fails only when the driver does.
  Status harvest(std::uint64_t count, Wait wait);

  std::uint64_t mapped_pages() const { return mapped_pages_; }
  std::uint64_t peak_mapped_pages() const { return peak_mapped_pages_; }
  // In the pool, under the limit, and behind free addresses.
  std::uint64_t free_pages() const;
  void reset_peak() { peak_mapped_pages_ = mapped_pages_; }
  std::uint64_t maps() const { return maps_; }
  std::uint64_t set_accesses() const { return set_accesses_; }
  std::uint64_t unmaps() const { return unmaps_; }
  std::uint64_t harvested_pages() const { return harvested_pages_; }

  void validate() const;

 private:
  using Chunk = AddressSpace::Chunk;
  // Free mapped pages side by side that were freed at one time; or (no chunk) pages waiting to be unmapped, `first` the
  // time.
  struct Run {
    Chunk* chunk;
    std::uint64_t first, count;
    FreeTime time;
  };

  // Appends `count` pages to taken_ and what they may still be used by to `behind`, or answers out_of_memory.
  Status gather(std::uint64_t count, Wait wait, UseSet* behind);
  // How many of `count` pages should be borrowed though they could be created.
  std::uint64_t spare_pages(std::uint64_t count, Wait wait);
  // Whoever is expected to have it next waits for nobody.
  bool is_spare(const Run& run);
  // Brings `count` pages into the pool, or as many as there are without those to be borrowed; `spare` of these should
  // be.
  Status fill_pool(std::uint64_t count, Wait wait, std::uint64_t* spare);
  // A page that is to stand behind these addresses, or leads there still; none: any will do.
  PageHandle known_page(std::uint64_t page) const;
  // Nobody has it.
  bool is_at_hand(PageHandle page, Wait wait) const;
  // By missing page of the range, into known_: its known page where that is at hand, else none. True if what is missing
  // is all of the range, and nobody has had any of it since it was given up.
  bool choose_known(const Block& block, PageRange range, Wait wait);
  // Unmaps those stale addresses of the range that do not lead to what is in known_. kNo, and not all has passed that
  // may use them: out_of_memory.
  Status sweep_strays(const Block& block, PageRange range, Wait wait);
  void take_known(UseSet* behind);
  void put_back_known();
  // Puts `pages` behind those of the range that have none, in order; stale addresses lead there already. All or none,
  // but for those that the driver does not take away again: these stay, are accessible, and are in `pages` no more.
  Status map_missing(Block& block, PageRange range, std::vector<PageHandle>& pages);
  bool take_back(Block& block, std::uint64_t page);
  // Takes `count` pages from free mapped space that is still in use, what was freed first first.
  void borrow(std::uint64_t count, bool newest, UseSet* behind);
  // The same, from deferred unmaps: what its owners will miss latest. How many there were.
  std::uint64_t borrow_unmissed(std::uint64_t count, UseSet* behind);
  // All of runs_, in descending order of address.
  void lend_runs(UseSet* behind);
  void lend_run(const Run& run);
  // Unmaps lent addresses whose last users have passed.
  Status sweep_one();
  Status sweep(Chunk* lent);
  // Unmaps the stale addresses among these. kNo, and not all has passed that may use them: out_of_memory.
  Status sweep_stale(std::uint64_t begin, std::uint64_t end, Wait wait);
  Status unmap_stale(std::uint64_t first, std::uint64_t count);
  // What may go through shown addresses among these has passed. kNo, and it has not: out_of_memory.
  Status settle_shown(std::uint64_t begin, std::uint64_t end, Wait wait);
  Status sweep_abandoned(Wait wait);
  // Unmaps the shown addresses among these.
  Status hide(std::uint64_t begin, std::uint64_t end);
  Status unmap_pages(std::uint64_t first, std::uint64_t count);
  Status harvest_run(const Run& run);
  Status harvest_runs();
  // Calls visit(first, count) for all addresses, by page, that the driver leads anywhere and that may be used again
  // without a call to it, side by side where they are.
  template <class Visit>
  void for_each_mapped_range(Visit visit) const;
  // All runs into runs_, what was freed first first, or last.
  void collect_runs(bool newest = false);
  const UseSet& pending_on(const Run& run) const;
  // Leaves in runs_ the first that are wanted, `count` pages at most, in descending order of address; how many.
  template <class Wanted>
  std::uint64_t choose_runs(std::uint64_t count, bool newest, Wanted wanted);
  // Up to `count` pages from behind guards, without waiting.
  Status harvest_guards(std::uint64_t count);
  std::uint64_t passed_free_pages();

  const Driver* driver_;
  StreamClock* clock_;
  std::vector<int> devices_;  // that may use what is mapped; the first is the one that it is on
  AddressSpace* space_;
  PagePool* pool_;
  bool may_alias_;
  DeferredUnmaps deferred_unmaps_;
  Shown shown_;
  Timetable timetable_;
  struct Taken {
    PageHandle page;
    FreeTime time;  // when it went to deferred unmaps; 0: it was in the pool
  };
  std::vector<PageHandle> known_;           // scratch
  std::vector<Taken> took_;                 // scratch: of these, what has been taken
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
