// SPDX-License-Identifier: Apache-2.0
// Level 1 of the allocator: the reservation, in units of pages. Chunks in use are blocks. A free chunk either has a
// physical page at each of its addresses (mapped) or at none. The page table stores, for every page of addresses, the
// block that it belongs to, the physical page that is mapped there, and when it was last freed: 24 bytes for 2 MiB, and
// memory is used only for addresses that have been handed out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "allocator/bfc.h"
#include "allocator/block.h"
#include "allocator/deferred_unmaps.h"
#include "allocator/pending_log.h"
#include "allocator/use_set.h"
#include "driver/driver.h"
#include "driver/owned.h"
#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

// Slabs have a separate address zone. Their lifetimes differ from those of large blocks; mixed with these they would
// leave holes that fit neither (on a recorded LSTM training step: 6.8 % of live bytes, 2.9 % with separate zones).
enum class Zone : std::uint8_t { kBlocks, kSlabs };

struct SpaceTag {
  static constexpr unsigned kOrdered = 5, kShelves = 7;
  Zone zone = Zone::kBlocks;
  bool mapped = false;  // of a chunk in use: all its pages had memory when it was taken; unknown if false
  bool guard = false;   // nobody uses it, and it is not to be handed out
  // Free; its pages already serve another block, but the driver still maps these addresses to them.
  bool still_mapped = false;
  UseSet pending;         // submitted work that may still access the pages; empty when unmapped
  FreeTime freed_at = 0;  // of a merged chunk: that of the part freed last

  unsigned shelf() const {
    return still_mapped ? kStillMappedShelf : guard ? guard_shelf_of(mapped) : shelf_of(zone, mapped);
  }
  static constexpr unsigned kStillMappedShelf = 4;
  // Free guards are many and of one size, and no block is placed there: they are in no order.
  static constexpr unsigned guard_shelf_of(bool mapped) { return mapped ? 5u : 6u; }
  static constexpr unsigned shelf_of(Zone zone, bool mapped) {
    return (zone == Zone::kSlabs ? 2u : 0u) + (mapped ? 0u : 1u);
  }
  bool merges_with(const SpaceTag& right) const {
    return !guard && !right.guard && mapped == right.mapped && still_mapped == right.still_mapped;
  }
  void join(const SpaceTag& right);
  void clear();
};

// Guards. A guard is a chunk of one page that is not handed out while the block on its left lives. If a buffer
// fills its pages to the last element, the address one past its end then still belongs to that block, and is not the
// beginning of another one; and no address in it means the element before another buffer (Heap::meant_by). For the same
// reason the first page of the reservation is never handed out: the address before a buffer is ours, too. A guard costs
// addresses. If it lies on free mapped space, it is free: its page stays mapped, so that no driver call is needed, counts
// as free mapped space, is reused like it, and is taken before new pages are created (backing.cc). Else it is in use.
//
// Chunks still mapped. The physical pages of free space may be mapped at other addresses while work submitted earlier
// may still use them, if their new user's work is ordered after that work on the device. The driver's old mapping is
// removed when that work has completed (Backing::sweep); until then the chunk's addresses are not handed out. For a
// program this is reuse in stream order: only a use after free can see the bytes of another buffer.
//
// Invariants:
//   - a free mapped chunk has a physical page at each of its addresses, a free unmapped one at none;
//   - only the pages of chunks in use, and of their guards, have a block;
//   - a guard is one page and lies directly right of a chunk in use;
//   - no physical page is mapped at two addresses, apart from those of chunks still mapped.
class AddressSpace {
 public:
  using Space = Bfc<SpaceTag>;
  using Chunk = Space::Chunk;

  // Reserves `bytes` of addresses. While the driver refuses, the size is halved, down to `at_least`.
  static Status reserve(const Driver& driver, Bytes bytes, Bytes at_least, Bytes page_bytes,
                        std::unique_ptr<AddressSpace>* out);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Addresses for `pages`, by the first of these that exists: the best fit in free mapped space; a placement that
  // covers one of the largest free mapped chunks and free space beside it, the one with the most mapped pages; the best
  // fit without pages. The chunk's tag has the uses that are pending on it. Null when the addresses are exhausted.
  // `guarded`: a guard follows the chunk, on unmapped addresses if they are as good.
  Chunk* take(std::uint64_t pages, Zone zone, bool guarded = false);
  // take() if it finds free mapped space of that zone; else null.
  Chunk* take_mapped(std::uint64_t pages, Zone zone, bool guarded);
  // Frees a chunk and its guard. The uses stay pending on the parts that have pages. `stale`: the ranges of the chunk
  // that have no pages but are still mapped by the driver, in order of address; they become `still_mapped`.
  // `all_mapped`: every page of the chunk has memory, so they need not be checked.
  void give(Chunk* chunk, const UseSet& pending, std::span<const StaleRange> stale, bool all_mapped);
  // Records the pending uses of memory that is freed, or given up, now.
  FreeTime log(const UseSet& pending) { return log_.add(pending); }
  // For a chunk in use: its pages, plus its guard if it has one.
  std::uint64_t pages_with_guard(Chunk* chunk) { return chunk->size() + (guard_of(chunk) != nullptr ? 1 : 0); }
  // True for a free chunk that is neither guard nor still mapped; false for null.
  static bool is_open(const Chunk* chunk) {
    return chunk != nullptr && chunk->is_free() && !chunk->tag.guard && !chunk->tag.still_mapped;
  }

  DeviceAddress begin() const { return owner_.begin(); }
  Bytes bytes() const { return owner_.bytes(); }
  Bytes page_bytes() const { return page_bytes_; }
  std::uint64_t pages() const { return pages_; }
  bool contains(DeviceAddress address) const { return address.value - begin().value < bytes(); }
  std::uint64_t page_of(DeviceAddress address) const { return (address - begin()) >> page_shift_; }
  DeviceAddress address_of(std::uint64_t page) const { return begin() + page * page_bytes_; }

  // Indexed by page of addresses.
  Block** blocks() { return blocks_; }
  Block* const* blocks() const { return blocks_; }
  PageHandle* handles() { return handles_; }
  const PageHandle* handles() const { return handles_; }
  // For a page of free mapped space: when it was freed. pending_since answers what may still use it.
  FreeTime freed_at(std::uint64_t page) const { return freed_at_[page]; }
  const UseSet& pending_since(FreeTime time) const { return log_.at(time); }

  Space& space() { return space_; }
  const Space& space() const { return space_; }
  std::uint64_t free_mapped_pages() const;
  std::uint64_t mapped_guards() const { return space_.free_size(SpaceTag::guard_shelf_of(true)); }
  template <class Visit>
  void for_each_mapped_guard(Visit visit) {
    space_.for_each_on(SpaceTag::guard_shelf_of(true), visit);
  }
  template <class Wanted>
  Chunk* largest_stale(Wanted wanted) {
    Chunk* found = nullptr;
    space_.shelf(SpaceTag::kStillMappedShelf).each_from_largest([&](Chunk& chunk) {
      if (wanted(chunk)) found = &chunk;
      return found == nullptr;
    });
    return found;
  }
  std::uint64_t still_mapped_pages() const { return space_.free_size(SpaceTag::kStillMappedShelf); }
  // The largest number of adjacent pages of addresses that could be taken. Linear in the number of chunks.
  std::uint64_t largest_open_pages() const;
  // Includes guards that have pages.
  template <class Visit>
  void for_each_free_mapped(Visit visit) {
    for (const unsigned shelf : kMappedShelves) space_.for_each_on(shelf, visit);
  }

  void validate() const;

 private:
  static constexpr unsigned kMappedShelves[] = {SpaceTag::shelf_of(Zone::kBlocks, true),
                                                SpaceTag::shelf_of(Zone::kSlabs, true), SpaceTag::guard_shelf_of(true)};

  AddressSpace(ReservationOwner owner, Bytes at_least, Bytes page_bytes);
  bool allocate_tables();
  Chunk* find_mapped(std::uint64_t pages, Zone zone, bool guarded);
  Chunk* take_in(std::uint64_t pages, Zone zone, bool guarded);
  Chunk* taken(Chunk* chunk, bool guarded);
  Chunk* take_before_unmapped(std::uint64_t pages, Zone zone);
  // Adjacent free chunks that together contain the wanted pages.
  struct FreeRun {
    Chunk* first = nullptr;
    std::uint64_t size = 0;    // of all the chunks
    std::uint64_t mapped = 0;  // how many of the wanted pages would be mapped already
  };
  FreeRun place_around(Chunk* candidate, std::uint64_t pages);
  Chunk* take_partly_mapped(std::uint64_t pages, Zone zone);
  void lay_guard(Chunk* chunk);
  void give_guard(Chunk* guard, FreeTime now);
  Chunk* guard_of(Chunk* chunk) {
    Chunk* const right = space_.right_of(chunk);
    return right != nullptr && right->tag.guard ? right : nullptr;
  }

  ReservationOwner owner_;
  Bytes page_bytes_;  // a power of two
  int page_shift_;
  std::uint64_t pages_;
  std::uint64_t used_end_[2] = {};  // by zone: pages from here on were never handed out
  PendingLog log_;
  Block** blocks_ = nullptr;
  PageHandle* handles_ = nullptr;
  FreeTime* freed_at_ = nullptr;
  Space space_;
};

}  // namespace thermocline
