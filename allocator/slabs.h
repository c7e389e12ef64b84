// SPDX-License-Identifier: Apache-2.0
// Level 2 of the allocator: small buffers share blocks, called slabs, in granules of 512 bytes. The slab is what is
// mapped, evicted and counted. There are two kinds.
//
// Buffers of up to 32 KiB: a slab is one page, and slabs are filled one after another, so that buffers that were
// allocated in sequence, which are often used together, lie in one or two slabs. New slabs are added until an eighth of
// all their space is holes; after that, slabs with many holes are filled again, in turn.
//
// Larger buffers, of which few fit in a page: best fit with coalescing into separate slabs of several pages. With slabs
// of one page, these would come and go with each iteration, and their driver calls would take 7 % of a step of the
// recorded ResNet-1001 at 80 % of its memory.
//
// Mapped slabs are preferred, so that allocating a small buffer does not fetch an evicted slab. Buffers whose sizes are
// multiples of a granule are adjacent: the address one past the end of one is the beginning of its neighbour. That is
// harmless, because the slab is what is accessed, evicted and pinned. (A gap between them would cost 0.7 % of live
// bytes on the recorded ResNet-1001.)
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
  bool filling = false;  // free, in the slab that receives the next small buffers
  UseSet pending;        // uses of the slab at the time when the former owners freed this part

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
// of every chunk equals that of its block; `filling` is true for the free chunks of the slab that is being filled, and
// for no others; every slab has a live buffer, except between add and the first place.
class Slabs {
 public:
  static constexpr Bytes kGranule = 512;

  explicit Slabs(Bytes slab_bytes) : slab_bytes_(slab_bytes) {}

  // The size of a new slab for a buffer of `requested` bytes. For small buffers: one page. For others: a sixteenth of
  // all slabs so far, between `page_bytes` and the full slab size, so that a program with few buffers does not pay for
  // a full slab.
  Bytes size_for(Bytes requested, Bytes page_bytes) const;

  // Places the buffer in a slab; false when a new slab is needed. Sets the buffer's address, block, chunk and former
  // uses.
  bool place(Bytes requested, Buffer* buffer);
  // Removes the buffer; the uses of its block stay pending on the freed chunk.
  void remove(Buffer* buffer);

  // Adds a slab of `kind`, for a buffer that did not fit in the others.
  void add(Block* slab, SlabKind kind);
  static SlabKind kind_of(Bytes requested);
  // Removes a slab without live buffers.
  void drop(Block* slab);
  // The buffer of the slab that begins at the address, or else the last one that begins below it; null when there is
  // none.
  Buffer* at_or_before(const Block& slab, DeviceAddress address) const;
  // Calls visit for the slab's buffers in order of address.
  template <class Visit>
  void for_each_buffer(const Block& slab, Visit visit) const {
    for (const Chunk* chunk = slab.first_; chunk != nullptr; chunk = space_.right_of(chunk)) {
      if (!chunk->is_free()) visit(*chunk->tag.buffer);
    }
  }
  // Must be called whenever slab->mapped() has changed.
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
  // Selects the next slab with many holes as the one to fill; null if the search finds none with a hole of this size.
  Chunk* fill_another(std::uint64_t granules);
  void fill(Block* slab);
  void set_filling(const Block& slab, bool filling);
  bool has_many_holes() const;

  Bytes slab_bytes_;
  std::vector<Block*> small_;  // slabs of small buffers
  std::size_t next_small_ = 0;
  Block* filling_ = nullptr;  // the one of these that is being filled
  Bytes small_bytes_ = 0;     // the size of all of these
  Bytes bytes_ = 0;
  std::uint64_t count_ = 0;
  Space space_;                   // in granules of addresses
  AddressTable<Buffer> buffers_;  // of all slabs
};

}  // namespace thermocline
