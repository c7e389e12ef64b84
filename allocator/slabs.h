// SPDX-License-Identifier: Apache-2.0
// Level 2: small buffers share blocks, called slabs, in granules of 512 bytes; best fit with coalescing over all slabs
// at once. Mapped slabs are preferred, so that a small buffer does not bring an evicted slab back. Buffers
// whose sizes are multiples of a granule lie edge to edge: one past the end of one is the beginning of its neighbour,
// which is harmless, since what is touched, evicted and pinned is the slab. (A byte between them would cost 0.7 % of
// live bytes on the recorded ResNet-1001.)
#pragma once

#include <algorithm>
#include <cstdint>

#include "allocator/address_table.h"
#include "allocator/bfc.h"
#include "allocator/block.h"
#include "allocator/object_pool.h"
#include "allocator/use_set.h"
#include "driver/units.h"

namespace thermocline {

struct SlabTag {
  static constexpr unsigned kShelves = 2;
  static constexpr bool kBinned = true;
  Block* block = nullptr;
  Buffer* buffer = nullptr;  // of a chunk in use
  bool mapped = false;
  UseSet pending;  // uses of the slab when its former owners freed this part

  unsigned shelf() const { return mapped ? 0 : 1; }
  bool merges_with(const SlabTag& right) const { return block == right.block; }
  void join(const SlabTag& right) { pending.join(right.pending); }
  void clear() {
    block = nullptr;
    buffer = nullptr;
    mapped = false;
    pending.clear();
  }
};

// Invariants: the chunks of a slab are those of one range; each chunk in use is one live buffer of the slab; `mapped`
// of every chunk says what its block says; no slab is without a live buffer, except between add and the first place.
class Slabs {
 public:
  static constexpr Bytes kGranule = 512;

  explicit Slabs(Bytes slab_bytes) : slab_bytes_(slab_bytes) {}

  // How large a slab should be when one is needed for `requested`: a sixteenth of what the slabs have so far, between
  // `page_bytes` and the full size, so that a program with few small buffers does not pay for a full slab.
  Bytes size_for(Bytes requested, Bytes page_bytes) const;

  // Gives the buffer a place in a slab; false when none has room. Sets its address, block, chunk and former uses.
  bool place(Bytes requested, Buffer* buffer);
  // The buffer leaves; what its block is used by stays pending on its place.
  void remove(Buffer* buffer);

  void add(Block* slab);
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

  Bytes slab_bytes_;
  Bytes bytes_ = 0;
  std::uint64_t count_ = 0;
  Space space_;                   // in granules of addresses
  AddressTable<Buffer> buffers_;  // those of all slabs
};

}  // namespace thermocline
