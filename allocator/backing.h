// SPDX-License-Identifier: Apache-2.0
// The physical pages behind an address space: mapping, unmapping, and where pages come from. Each driver call costs
// tens of microseconds whatever its length (36 for SetAccess, 26 for Unmap; 1.5 for each page that is mapped), so
// access is set once for a whole block, and a run of pages is unmapped by one call.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/address_space.h"
#include "allocator/limbo.h"
#include "allocator/page_pool.h"
#include "allocator/shown.h"
#include "allocator/stream_clock.h"
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

// Invariant: mapped pages + pages in limbo + pages in the pool == created pages.
class Backing {
 public:
  Backing(const Driver& driver, StreamClock& clock, int device, AddressSpace& space, PagePool& pool)
      : driver_(&driver), clock_(&clock), device_(device), space_(&space), pool_(&pool) {}
  // Unmaps everything; the pages go to the pool.
  ~Backing();
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  // See Heap.
  Status map(Block& block, PageRange range, Wait wait, UseSet* behind);
  Status unmap(Block& block, PageRange range);
  // See Heap.
  void give_up(Block& block, PageRange range, const UseSet& pending);
  Status show(Block& block, PageRange range, const std::vector<PageHandle>& pages);
  bool abandon_shown(const Block& block, PageRange range, void* host, const UseSet& pending);
  std::vector<void*> take_released() { return shown_.take_released(); }
  bool has_stale() const { return limbo_.has_stale(); }
  void sweep_passed_stale(std::size_t most);
  bool can_map_without_waiting(const Block& block, PageRange range);
  // The block is about to be freed: its addresses that are mapped all the same, in order, which are the address space's
  // from now on.
  std::vector<StaleRange> take_stale(const Block& block);

  // Unmaps all lent addresses whose last users have passed (kYes: waits for them). A page is given back to the driver
  // only when no address leads to it any more.
  Status sweep_all(Wait wait);
  bool has_lent() const { return space_->lent_pages() != 0 || limbo_.has_stale(); }

  bool passed(const UseSet& uses) { return clock_->passed(uses); }

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
  std::uint64_t lent_pages() const { return lent_pages_; }

  void validate() const;

 private:
  using Chunk = AddressSpace::Chunk;
  // Free mapped pages side by side that were freed at one time; or (no chunk) pages in limbo, `first` an index.
  struct Run {
    Chunk* chunk;
    std::uint64_t first, count;
    FreeTime time;
  };

  // Appends `count` pages to taken_ and what they may still be used by to `behind`, or answers out_of_memory.
  Status gather(std::uint64_t count, Wait wait, UseSet* behind);
  // Brings `count` pages into the pool, or as many as there are without those to be borrowed.
  Status fill_pool(std::uint64_t count, Wait wait);
  // Puts `pages` behind those of the range that have none, in order; all or none, but for those that the driver does
  // not take away again: these stay, are accessible, and are in `pages` no more.
  Status map_missing(Block& block, PageRange range, std::vector<PageHandle>& pages);
  bool take_back(Block& block, std::uint64_t page);
  // Takes `count` pages from free mapped space that is still in use, what was freed first first.
  void borrow(std::uint64_t count, bool newest, UseSet* behind);
  void lend_run(const Run& run);
  // Unmaps lent addresses whose last users have passed.
  Status sweep_one();
  Status sweep(Chunk* lent);
  // Unmaps the stale addresses among these. kNo, and not all has passed that may use them: out_of_memory.
  Status sweep_stale(std::uint64_t begin, std::uint64_t end, Wait wait);
  Status unmap_stale(const StaleRange& range);
  // What may go through shown addresses among these has passed. kNo, and it has not: out_of_memory.
  Status settle_shown(std::uint64_t begin, std::uint64_t end, Wait wait);
  Status sweep_abandoned(Wait wait);
  // Unmaps the shown addresses among these.
  Status hide(std::uint64_t begin, std::uint64_t end);
  Status unmap_pages(std::uint64_t first, std::uint64_t count);
  Status harvest_run(const Run& run);
  Status harvest_runs();
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
  int device_;
  AddressSpace* space_;
  PagePool* pool_;
  Limbo limbo_;
  Shown shown_;
  std::vector<PageHandle> taken_;   // scratch
  std::vector<Chunk*> candidates_;  // scratch
  std::vector<Run> runs_;           // scratch
  std::uint64_t mapped_pages_ = 0;
  std::uint64_t peak_mapped_pages_ = 0;
  std::uint64_t maps_ = 0;
  std::uint64_t set_accesses_ = 0;
  std::uint64_t unmaps_ = 0;
  std::uint64_t harvested_pages_ = 0;
  std::uint64_t lent_pages_ = 0;
};

}  // namespace thermocline
