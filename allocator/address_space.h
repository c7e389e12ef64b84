// SPDX-License-Identifier: Apache-2.0
// Level 1: the reservation, in units of pages. Chunks in use are blocks; free chunks either have pages behind all of
// them (mapped) or behind none. The page table says for every page of addresses which block it belongs to and which
// physical page stands behind it, and when it was last freed: 24 bytes for 2 MiB, accessed only where addresses have
// been handed out.
#pragma once

#include <algorithm>
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

// Slabs have addresses of their own: they come and go at other times than large blocks, and between them would leave
// holes that fit neither (on a recorded LSTM training step 6.8 % of live bytes, apart 2.9 %).
enum class Zone : std::uint8_t { kBlocks, kSlabs };

struct SpaceTag {
  static constexpr unsigned kShelves = 7;
  static constexpr bool kBinned = false;
  Zone zone = Zone::kBlocks;
  bool mapped = false;
  bool guard = false;     // nobody's, but not to be handed out
  bool lent = false;      // nobody's; its pages serve elsewhere, and the driver still leads here to them
  UseSet pending;         // who may still use the pages behind it; empty when unmapped
  FreeTime freed_at = 0;  // the newest part of a merged chunk

  unsigned shelf() const { return lent ? kLentShelf : guard ? guard_shelf_of(mapped) : shelf_of(zone, mapped); }
  static constexpr unsigned kLentShelf = 6;
  static constexpr unsigned shelf_of(Zone zone, bool mapped) {
    return (zone == Zone::kSlabs ? 2u : 0u) + (mapped ? 0u : 1u);
  }
  static constexpr unsigned guard_shelf_of(bool mapped) { return mapped ? 4u : 5u; }
  bool merges_with(const SpaceTag& right) const {
    return !guard && !right.guard && mapped == right.mapped && lent == right.lent;
  }
  void join(const SpaceTag& right);
  void clear();
};

// A guard is a free chunk of one page that is not handed out as long as the block on its left lives. One past the end
// of what fills its pages to the last byte is then an address of that block, and not the beginning of another one. A
// guard costs addresses. Where it is laid over free mapped space its page stays behind it, so that no driver call is
// needed; it counts as free mapped space and is harvested like it, and before pages are created (backing.cc).
//
// Lent: the pages of free space may be put behind other addresses while work that was submitted before may still use
// them, if their new user's work is ordered behind it on the device. The driver's old mapping goes when that work has
// passed (Backing::sweep); until then nobody gets these addresses. To a program this is what reuse in stream order is:
// a use after free may see another buffer's bytes, and nothing else may.
//
// Invariants: a free mapped chunk has a physical page behind each of its pages, a free unmapped one behind none; only
// pages of chunks in use, and their guards, have a block; a guard is one page, right of a chunk in use; no physical
// page stands behind two addresses, those of lent chunks apart.
class AddressSpace {
 public:
  using Space = Bfc<SpaceTag>;
  using Chunk = Space::Chunk;

  // Reserves `bytes`, or the largest half of a half of it that the driver grants, and no less than `at_least`.
  static Status reserve(const Driver& driver, Bytes bytes, Bytes at_least, Bytes page_bytes,
                        std::unique_ptr<AddressSpace>* out);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Addresses for `pages`: the best fit in free mapped space; else a place around some of the largest free mapped
  // space, the one that has most of it, and in free space beside it; else the best fit without pages. The chunk's tag
  // has the uses that are pending on it. Null when the addresses are exhausted. `guarded`: a guard follows the chunk,
  // on addresses without memory where they are as good.
  Chunk* take(std::uint64_t pages, Zone zone, bool guarded = false);
  // Frees a chunk and its guard; the uses stay pending on those parts that have pages. `stale`: the parts without whose
  // addresses are still mapped, in order; they are lent.
  void give(Chunk* chunk, const UseSet& pending, std::span<const StaleRange> stale = {});
  // For what is freed, or given up, now.
  FreeTime log(const UseSet& pending) { return log_.add(pending); }
  // Of a chunk in use: its pages and its guard, if it has one.
  std::uint64_t pages_with_guard(Chunk* chunk);
  // Free, neither guard nor lent; null is not.
  static bool is_open(const Chunk* chunk) {
    return chunk != nullptr && chunk->is_free() && !chunk->tag.guard && !chunk->tag.lent;
  }

  DeviceAddress begin() const { return owner_.begin(); }
  Bytes bytes() const { return owner_.bytes(); }
  Bytes page_bytes() const { return page_bytes_; }
  std::uint64_t pages() const { return pages_; }
  bool contains(DeviceAddress address) const { return address.value - begin().value < bytes(); }
  std::uint64_t page_of(DeviceAddress address) const { return (address - begin()) / page_bytes_; }
  DeviceAddress address_of(std::uint64_t page) const { return begin() + page * page_bytes_; }

  // By page of addresses.
  Block** blocks() { return blocks_; }
  Block* const* blocks() const { return blocks_; }
  PageHandle* handles() { return handles_; }
  const PageHandle* handles() const { return handles_; }
  // Of a page of free mapped space: when it was freed, and what may use it since before then.
  FreeTime freed_at(std::uint64_t page) const { return freed_at_[page]; }
  const UseSet& pending_since(FreeTime time) const { return log_.at(time); }

  Space& space() { return space_; }
  const Space& space() const { return space_; }
  std::uint64_t free_mapped_pages() const;
  std::uint64_t mapped_guards() const { return space_.free_size(SpaceTag::guard_shelf_of(true)); }
  template <class Visit>
  void for_each_mapped_guard(Visit visit) {
    for (Chunk& chunk : space_.shelf(SpaceTag::guard_shelf_of(true))) visit(chunk);
  }
  template <class Wanted>
  Chunk* largest_lent(Wanted wanted) {
    Space::Shelf& shelf = space_.shelf(SpaceTag::kLentShelf);
    const auto found = std::find_if(shelf.rbegin(), shelf.rend(), wanted);
    return found != shelf.rend() ? &*found : nullptr;
  }
  std::uint64_t lent_pages() const { return space_.free_size(SpaceTag::kLentShelf); }
  // Guards that have pages are among them.
  template <class Visit>
  void for_each_free_mapped(Visit visit) {
    for (const unsigned shelf : kMappedShelves) {
      for (Chunk& chunk : space_.shelf(shelf)) visit(chunk);
    }
  }

  void validate() const;

 private:
  static constexpr unsigned kMappedShelves[] = {SpaceTag::shelf_of(Zone::kBlocks, true),
                                                SpaceTag::shelf_of(Zone::kSlabs, true), SpaceTag::guard_shelf_of(true)};

  AddressSpace(ReservationOwner owner, Bytes at_least, Bytes page_bytes);
  bool allocate_tables();
  Chunk* take_in(std::uint64_t pages, Zone zone, bool guarded);
  Chunk* take_before_unmapped(std::uint64_t pages, Zone zone);
  // Free chunks side by side, as many as `pages` need.
  struct Place {
    Chunk* first = nullptr;
    std::uint64_t size = 0;    // of all of them
    std::uint64_t mapped = 0;  // how many of `pages` would have memory
  };
  Place place_around(Chunk* candidate, std::uint64_t pages);
  Chunk* take_partly_mapped(std::uint64_t pages, Zone zone);
  void lay_guard(Chunk* chunk);
  Chunk* guard_of(Chunk* chunk);

  ReservationOwner owner_;
  Bytes page_bytes_;
  std::uint64_t pages_;
  std::uint64_t used_end_[2] = {};  // by zone: pages from here on were never handed out
  PendingLog log_;
  Block** blocks_ = nullptr;
  PageHandle* handles_ = nullptr;
  FreeTime* freed_at_ = nullptr;
  Space space_;
};

}  // namespace thermocline
