// SPDX-License-Identifier: Apache-2.0
// Level 2: small buffers share blocks, called slabs, in granules of 512 bytes. A slab is what is mapped, evicted and
// counted: for buffers of up to 32 KiB it is one page, and keeps together what may be used together. These fill one
// slab after another, so that what was allocated in a row lies in one slab or two. A new slab is made for them until an
// eighth of all are holes; from then on those with many are filled again, in turn. Larger buffers, few to a page, go by
// best fit with coalescing to slabs of their own, of several pages: in slabs of one page each they come and go with the
// iteration, whose calls of the driver take 7 % of a step of the recorded ResNet-1001 at 80 % of its memory. Mapped
// slabs are preferred, so that a small buffer does not bring an evicted slab back. Buffers whose sizes are multiples of
// a granule lie edge to edge: one past the end of one is the beginning of its neighbour, which is harmless, since what
// is accessed, evicted and pinned is the slab. (A byte between them would cost 0.7 % of live bytes on the recorded
// ResNet-1001.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "allocator/address_table.h"
#include "allocator/bfc.h"
#include "allocator/block.h"
#include "allocator/object_pool.h"
#include "allocator/use_set.h"
#include "driver/units.h"

namespace thermocline {

enum class SlabKind : std::uint8_t { kSmall, kLarge };

struct SlabTag {
  static constexpr unsigned kShelves = 5;
  static constexpr bool kBinned = true;
  Block* block = nullptr;
  Buffer* buffer = nullptr;  // of a chunk in use
  SlabKind kind = SlabKind::kSmall;
  bool mapped = false;
  bool filling = false;  // free, in the slab where the next small buffers go
  UseSet pending;        // uses of the slab when its former owners freed this part

  static constexpr unsigned kFillingShelf = 4;
  static constexpr unsigned shelf_of(SlabKind kind, bool mapped) {
    return (kind == SlabKind::kSmall ? 0u : 2u) + (mapped ? 0u : 1u);
  }
  unsigned shelf() const { return filling ? kFillingShelf : shelf_of(kind, mapped); }
  bool merges_with(const SlabTag& right) const { return block == right.block; }
  void join(const SlabTag& right) { pending.join(right.pending); }
  void clear() {
    block = nullptr;
    buffer = nullptr;
    mapped = false;
    filling = false;
    pending.clear();
  }
};

// Invariants: the chunks of a slab are those of one range; each chunk in use is one live buffer of the slab; `mapped`
// of every chunk says what its block says; `filling` is true of the free chunks of the slab that is filled, and of no
// others; no slab is without a live buffer, except between add and the first place.
class Slabs {
 public:
  static constexpr Bytes kGranule = 512;

  explicit Slabs(Bytes slab_bytes) : slab_bytes_(slab_bytes) {}

  // How large a slab should be when one is needed for `requested`: a page for small buffers; else a sixteenth of what
  // the slabs have so far, between `page_bytes` and the full size, so that a program with few buffers does not pay for
  // a full slab.
  Bytes size_for(Bytes requested, Bytes page_bytes) const;

  // Gives the buffer a place in a slab; false when a new one is needed. Sets its address, block, chunk and former uses.
  bool place(Bytes requested, Buffer* buffer);
  // The buffer leaves; what its block is used by stays pending on its place.
  void remove(Buffer* buffer);

  // Of `kind`, for a buffer that finds no place.
  void add(Block* slab, SlabKind kind);
  static SlabKind kind_of(Bytes requested);
  // Without live buffers.
  void drop(Block* slab);
  // The buffer of the slab that begins at the address, or the last one that begins below it; null when there is none.
  Buffer* at_or_before(const Block& slab, DeviceAddress address) const;
  // Of the slab's buffers in order of address.
  template <class Visit>
  void for_each_buffer(const Block& slab, Visit visit) const {
    for (const Chunk* chunk = slab.first_; chunk != nullptr; chunk = space_.right_of(chunk)) {
      if (!chunk->is_free()) visit(*chunk->tag.buffer);
    }
  }
  // To be called whenever slab->mapped() has changed.
  void mapped_changed(Block* slab);

  Bytes largest_hole() const {
    Bytes largest = 0;
    space_.for_each([&largest](const Chunk& chunk) {
      if (chunk.is_free()) largest = std::max(largest, chunk.size() * kGranule);
    });
    return largest;
  }
  Bytes bytes() const { return bytes_; }
  std::uint64_t count() const { return count_; }

  void validate() const;

 private:
  using Space = Bfc<SlabTag>;
  using Chunk = Space::Chunk;

  static void mark(Block& slab, DeviceAddress at, bool begins);
  Chunk* place_small(std::uint64_t granules);
  Chunk* best_fit(SlabKind kind, std::uint64_t granules);
  // Goes on to the next slab that has room for many; null: none is near, or has a hole of this size.
  Chunk* fill_another(std::uint64_t granules);
  void fill(Block* slab);
  void set_filling(const Block& slab, bool filling);
  bool has_many_holes() const;

  Bytes slab_bytes_;
  std::vector<Block*> small_;  // slabs of small buffers
  std::size_t next_small_ = 0;
  Block* filling_ = nullptr;  // of these, the one that is filled
  Bytes small_bytes_ = 0;     // of all of them
  Bytes bytes_ = 0;
  std::uint64_t count_ = 0;
  Space space_;                   // in granules of addresses
  AddressTable<Buffer> buffers_;  // those of all slabs
};

}  // namespace thermocline
