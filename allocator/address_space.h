// SPDX-License-Identifier: Apache-2.0
// Level 1: the reservation, in units of pages. Chunks in use are blocks; free chunks either have pages behind all of
// them (mapped) or behind none. The page table says for every page of addresses which block it belongs to and which
// physical page stands behind it: 16 bytes for 2 MiB, touched only where addresses have been handed out.
#pragma once

#include <cstdint>
#include <memory>

#include "allocator/bfc.h"
#include "allocator/block.h"
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
  static constexpr unsigned kShelves = 4;
  Zone zone = Zone::kBlocks;
  bool mapped = false;
  UseSet pending;              // who may still use the pages behind it; empty when unmapped
  std::uint64_t freed_at = 0;  // counts what was freed; the newest part of a merged chunk

  unsigned shelf() const { return shelf_of(zone, mapped); }
  static constexpr unsigned shelf_of(Zone zone, bool mapped) {
    return (zone == Zone::kSlabs ? 2u : 0u) + (mapped ? 0u : 1u);
  }
  bool merges_with(const SpaceTag& right) const { return mapped == right.mapped; }
  void join(const SpaceTag& right);
  void clear();
};

// Invariants: a free mapped chunk has a physical page behind each of its pages, a free unmapped one behind none; only
// pages of chunks in use have a block; no physical page stands behind two addresses.
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

  // Addresses for `pages`: the best fit in free mapped space; else a place that begins with free mapped space, the
  // largest there is, and goes on in free space beside it; else the best fit without pages. The chunk's tag has the
  // uses that are pending on it. Null when the addresses are exhausted.
  Chunk* take(std::uint64_t pages, Zone zone);
  // Frees a chunk; the uses stay pending on those parts that have pages.
  void give(Chunk* chunk, const UseSet& pending);

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

  Space& space() { return space_; }
  const Space& space() const { return space_; }
  std::uint64_t free_mapped_pages() const;
  template <class Visit>
  void for_each_free_mapped(Visit visit) {
    for (const Zone zone : {Zone::kBlocks, Zone::kSlabs}) {
      for (Chunk& chunk : space_.shelf(SpaceTag::shelf_of(zone, true))) visit(chunk);
    }
  }

  void validate() const;

 private:
  AddressSpace(ReservationOwner owner, Bytes at_least, Bytes page_bytes);
  bool allocate_tables();
  Chunk* take_in(std::uint64_t pages, Zone zone);
  Chunk* take_partly_mapped(std::uint64_t pages, Zone zone);

  ReservationOwner owner_;
  Bytes page_bytes_;
  std::uint64_t pages_;
  std::uint64_t used_end_[2] = {};  // by zone: pages from here on were never handed out
  std::uint64_t frees_ = 0;
  Block** blocks_ = nullptr;
  PageHandle* handles_ = nullptr;
  Space space_;
};

}  // namespace thermocline
