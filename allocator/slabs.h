// SPDX-License-Identifier: Apache-2.0
// Level 2 of the allocator: small buffers share blocks, called slabs, in granules of 512 bytes. Only whole slabs
// are mapped, evicted and counted. There are two kinds.
//
// Buffers of up to 32 KiB: a slab is one page, and slabs are filled one after another, so that buffers that were
// allocated in sequence, which are often used together, lie in one or two slabs. New slabs are added until an eighth of
// all their space is holes; after that, slabs with many holes are filled again, in turn.
//
// Larger buffers, of which few fit in a page: best fit into separate slabs of several pages. With slabs of one page,
// these would come and go with each iteration, and their driver calls would take 7 % of a step of the recorded
// ResNet-1001 at 80 % of its memory.
//
// Mapped slabs are preferred, so that allocating a small buffer does not fetch an evicted slab. Buffers whose sizes are
// multiples of a granule are adjacent: the address one past the end of one is the beginning of its neighbor. That is
// harmless, because slabs are accessed, evicted and pinned as a whole. (A gap between them would cost 0.7 % of live
// bytes on the recorded ResNet-1001. Callers that record accesses, or have contents recomputed, get one behind some of
// them: KeepApart.)
//
// A slab is divided into chunks, and each chunk is one record: a live buffer, or a hole. A freed buffer becomes a hole,
// or a hole beside it grows by its bytes at once; an allocated buffer takes the left end of a hole. A hole that remains
// keeps its record, and mostly its bin. The `former` of a hole: the work that used it.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/block.h"
#include "allocator/keep_apart.h"
#include "allocator/object_pool.h"
#include "allocator/size_bins.h"
#include "allocator/slab_table.h"
#include "allocator/use_set.h"
#include "driver/units.h"

namespace thermocline {

enum class SlabKind : std::uint8_t { kSmall, kLarge };

// Invariants, recomputed by validate():
//   - The chunks of a slab, from first_ by right_, follow one another without a gap from its beginning to its end, and
//     left_ leads back; no two neighbors are holes.
//   - A hole is in one bin and nothing else is in any: of a slab of small buffers, in the slab's own bins; else in the
//     bins of the mapped, or of the unmapped ones.
//   - A chunk in use, and nothing else, is found in the slab's table by its address.
//   - used_granules_ of a slab of small buffers is the sum of its chunks in use, and used_small_ that of all these slabs.
//   - Every slab is at its place among those of its kind, and has a live buffer, except between add and the next place.
//   - All uses in a hole's `former` are in its slab's uses, or have passed.
class Slabs {
 public:
  static constexpr Bytes kGranule = 512;

  // Chunks come from `records`, like the records of buffers that have blocks of their own.
  Slabs(Bytes slab_bytes, Bytes page_bytes, KeepApart apart, Buffer::Pool& records)
      : slab_bytes_(slab_bytes), page_bytes_(page_bytes), apart_(apart), records_(records) {}

  // The size of a new slab for a buffer of `requested` bytes. For small buffers: one page. For others: a sixteenth of
  // all slabs so far, between a page and the full slab size, so that a program with few buffers does not pay for a full
  // slab.
  Bytes size_for(Bytes requested) const;

  // A buffer in one of the slabs, with its address, block and former uses; null when a new slab is needed.
  Buffer* place(Bytes requested);
  // Removes the buffer, whose record must not be used any more; the uses of its block stay pending on its space.
  void remove(Buffer* buffer);
  // place() and remove() without a call (slabs_inline.h). `only_mapped`: also null if an evicted slab would be taken.
  Buffer* place_inline(Bytes requested, bool only_mapped);
  // `window`: as found in the slab's table.
  void remove_inline(Buffer* buffer, std::uint64_t window);
  // The same where no function has to be called, so that nothing is kept in memory across calls: a hole of the slab that
  // is being filled, or of the mapped ones; records at hand; uses of one stream. Null, or false: there is more to do, or
  // the caller does not accept the slab and what the hole waits for, about which it is asked last; nothing has changed.
  template <class Accepts>
  Buffer* place_at_once(Bytes requested, Accepts accepts);
  static bool can_remove_at_once(const Buffer& buffer);
  void remove_at_once(Buffer* buffer, std::uint64_t window);

  // Adds a slab of `kind`, for a buffer that did not fit in the others.
  void add(Block* slab, SlabKind kind);
  SlabKind kind_of(Bytes requested) const {
    return is_small(granules_of(requested)) ? SlabKind::kSmall : SlabKind::kLarge;
  }
  // The bytes that a buffer takes: its size, and perhaps a byte behind it.
  Bytes taken_by(Bytes requested) const {
    const Bytes alone = round_up(requested, kGranule);
    if (apart_ == KeepApart::kNone) return alone;
    const Bytes apart = round_up(requested + 1, kGranule);
    if (apart <= kLargestSmall) return apart;
    const Bytes in_a_page = page_bytes_ / alone;
    const bool as_many = page_bytes_ / apart == in_a_page;
    if (apart_ == KeepApart::kMost) return as_many || in_a_page >= kMostApartFrom ? apart : alone;
    return as_many && in_a_page <= kCheapUpTo ? apart : alone;
  }
  // The size of its chunk.
  std::uint64_t granules_of(Bytes requested) const { return taken_by(requested) / kGranule; }
  static bool is_small(std::uint64_t granules) { return granules <= kLargestSmall / kGranule; }
  // Removes a slab without live buffers.
  void drop(Block* slab);
  // The buffer of the block that begins at the address, and its window; null if there is none, or the block is no slab.
  static Buffer* at(const Block& block, DeviceAddress address, std::uint64_t* window) {
    return block.table_.find(address, window);
  }
  // The buffer of the slab that begins at the address, or else the last one that begins below it; null when there is
  // none.
  static Buffer* at_or_before(const Block& slab, DeviceAddress address);
  // Calls visit for the slab's buffers in order of address.
  template <class Visit>
  void for_each_buffer(const Block& slab, Visit visit) const {
    for (Buffer* chunk = slab.first_; chunk != nullptr; chunk = chunk->right_) {
      if (!chunk->is_hole_) visit(*chunk);
    }
  }
  // Must be called whenever slab->mapped() has changed.
  void mapped_changed(Block* slab);

  // Linear in the number of chunks.
  Bytes largest_hole() const;
  // Chunks of all slabs that are not buffers. Linear in the number of chunks.
  std::uint64_t holes() const;
  Bytes bytes() const { return bytes_; }
  std::uint64_t count() const { return of_kind_[0].size() + of_kind_[1].size(); }

  void validate() const;

 private:
  // A buffer up to this size is small.
  static constexpr Bytes kLargestSmall = 32 * kKiB;
  // How many buffers fit in a page that have a byte behind them; see KeepApart.
  static constexpr Bytes kMostApartFrom = 8, kCheapUpTo = 3;
  static_assert(kLargestSmall <= ExactBins<Buffer>::kLargest * kGranule, "Every small size has a bin.");
  static_assert(kLargestSmall >= SlabTable<Buffer>::window_bytes(Windows::kWide), "Others have windows of their own.");

  Buffer* find_small_hole(std::uint64_t granules);
  Buffer* find_small_hole_elsewhere(std::uint64_t granules);
  Buffer* find_large_hole(std::uint64_t granules);
  bool has_many_holes() const;
  void put(Buffer& hole);
  void take_out(Buffer& hole);
  void unlink(Buffer* chunk);
  // With the bins of the slab, whose type depends on its kind.
  template <class Bins>
  static void put_in(Bins& bins, Buffer& hole);
  template <class Bins>
  static void take_out_of(Bins& bins, Buffer& hole);
  template <bool kAtOnce, class Bins>
  Buffer* take_from(Bins& bins, Buffer* hole, std::uint32_t granules);
  template <bool kAtOnce, class Bins>
  void become_hole(Bins& bins, Buffer* buffer);
  template <bool kAtOnce>
  static void assign(UseSet& to, const UseSet& from);
  bool can_take_at_once(const Buffer& hole, std::uint64_t granules) const;
  template <bool kAtOnce>
  Buffer* fill_small(Block& slab, Buffer* hole, std::uint64_t granules);
  template <bool kAtOnce>
  Buffer* fill_large(Block& slab, Buffer* hole, std::uint64_t granules, Bytes requested);
  template <bool kAtOnce>
  void vacate(Buffer* buffer, std::uint64_t window);
  std::uint64_t validate_slab(const Block& slab) const;

  Bytes slab_bytes_, page_bytes_;
  KeepApart apart_;
  Buffer::Pool& records_;
  std::vector<Block*> of_kind_[2];
  std::size_t next_small_ = 0;       // the slab of small buffers that was examined last
  Block* filling_ = nullptr;         // the slab of small buffers that is being filled
  std::uint64_t used_small_ = 0;     // granules
  Bytes bytes_of_kind_[2] = {0, 0};  // the size of all slabs
  Bytes bytes_ = 0;
  SizeBins<Buffer> large_holes_[2];  // in unmapped slabs, in mapped slabs
  ObjectPool<ExactBins<Buffer>> small_holes_;
  TableMemory table_memory_;
};

}  // namespace thermocline
