// SPDX-License-Identifier: Apache-2.0
// Block: a run of whole pages of addresses; the unit of mapping, eviction and fetching. Buffer: what the program
// allocated. A buffer of a few MiB or more has a block of its own; small ones share a block, called a slab. Both types
// belong to a Heap.
#pragma once

#include <cstdint>
#include <span>

#include "allocator/object_pool.h"
#include "allocator/size_bins.h"
#include "allocator/slab_table.h"
#include "allocator/use_set.h"
#include "driver/driver.h"
#include "driver/units.h"

namespace thermocline {

class Block;
class Heap;
template <class Tag>
class BfcChunk;   // bfc.h
struct SpaceTag;  // address_space.h: level 1 of the allocator
class Slabs;      // slabs.h: level 2
enum class SlabKind : std::uint8_t;
class ThreadCache;  // thread_cache.h

class Buffer {
 public:
  DeviceAddress address() const { return address_; }
  DeviceAddress end() const { return address_ + requested_; }
  // The size that the program asked for.
  Bytes requested() const { return requested_; }
  Block& block() const { return *block_; }
  // The stream named at allocation.
  StreamIndex hint() const { return hint_; }
  // Numbered in order of allocation, from 1.
  std::uint64_t number() const { return number_; }

  // Pending uses by former owners of these bytes: on every stream, the first use of the buffer must be ordered after
  // them. A subset of block().uses; the others there are uses of neighbors in the slab, which need no order.
  UseSet former;

 private:
  friend class Heap;
  friend class Slabs;
  friend class ThreadCache;
  friend class BinList<Buffer>;
  friend class ExactBins<Buffer>;
  friend class SizeBins<Buffer>;
  friend class SlabTable<Buffer>;

  // For bins.
  std::uint64_t size() const { return granules_; }
  std::uint64_t offset() const { return address_.value; }

  DeviceAddress address_;
  // A buffer's own; while it is a hole, the members that its bin needs (BinHook).
  union {
    Bytes requested_ = 0;
    Buffer* next_in_bin;
  };
  union {
    std::uint64_t number_ = 0;
    Buffer** link_in_bin;
  };
  union {
    StreamIndex hint_{};
    unsigned bin;
  };
  std::uint32_t granules_ = 0;  // of a chunk: its size; 0: the buffer has a block of its own
  Block* block_ = nullptr;
  // Slabs consist of chunks: buffers, and the holes between them (slabs.h). These link to the neighbors in the slab.
  Buffer* left_ = nullptr;
  Buffer* right_ = nullptr;
  bool is_hole_ = false;
  std::uint8_t slot_ = 0;         // in cache_
  ThreadCache* cache_ = nullptr;  // the cache of the thread that it was handed out to; null: none

  using Pool = LinkedPool<Buffer, &Buffer::right_>;
};

// docs/limits.md
static_assert(sizeof(Buffer) == 112, "A small buffer costs its record.");

class Block {
 public:
  DeviceAddress begin() const { return begin_; }
  DeviceAddress end() const { return begin_ + bytes(); }
  std::uint64_t pages() const { return pages_; }
  Bytes bytes() const { return pages_ * page_bytes_; }
  Bytes page_bytes() const { return page_bytes_; }

  // True if every page has memory. A new block may have some pages mapped, if it was placed partly on mapped space.
  bool mapped() const { return mapped_pages_ == pages_; }
  std::uint64_t mapped_pages() const { return mapped_pages_; }
  // By page; 0: no physical page is mapped.
  std::span<const PageHandle> page_handles() const { return {handles_, pages_}; }

  bool is_slab() const { return is_slab_; }
  // For a slab: no buffer in it is smaller than this.
  Bytes least_requested() const { return least_requested_; }
  std::uint32_t live_buffers() const { return live_buffers_; }
  // The sum of the requested sizes of the live buffers.
  Bytes live_bytes() const { return live_bytes_; }
  // A dense number among the live blocks; reused when the block is gone.
  std::uint32_t index() const { return index_; }
  // In order of creation, from 1; never reused.
  std::uint64_t serial() const { return serial_; }
  // Bytes from begin() to the end of the last live buffer: what a copy has to move.
  Bytes contents_end() const {
    return is_slab_ ? contents_end_of_slab() : sole_ != nullptr ? sole_->end() - begin_ : 0;
  }
  // All submitted work that may still use the block's pages. Code that submits such work adds it here. After unmap the
  // set is empty; when a mapped block is freed, the uses stay pending on the freed space.
  UseSet uses;

 private:
  friend class Backing;
  friend class Heap;
  friend class Slabs;

  Bytes contents_end_of_slab() const;

  DeviceAddress begin_;
  std::uint64_t pages_ = 0;
  Bytes page_bytes_ = 0;
  std::uint64_t mapped_pages_ = 0;
  PageHandle* handles_ = nullptr;  // in the heap's page table
  BfcChunk<SpaceTag>* chunk_ = nullptr;
  bool is_slab_ = false;
  bool is_vacant_ = false;  // it has no buffer, and its addresses are kept for an owner that returns (Heap::vacate)
  std::uint32_t live_buffers_ = 0;
  Bytes live_bytes_ = 0;
  std::uint32_t index_ = 0;
  std::uint64_t serial_ = 0;
  Buffer* sole_ = nullptr;  // the one buffer of a block that is no slab; null for a slab
  // For a slab only (see Slabs).
  SlabTable<Buffer> table_;                   // closed: it is no slab
  Buffer* first_ = nullptr;                   // its first chunk
  ExactBins<Buffer>* small_holes_ = nullptr;  // if it is for small buffers: its holes
  SizeBins<Buffer>* large_holes_ = nullptr;   // if not: where they are
  SlabKind slab_kind_{};
  Bytes least_requested_ = 0;        // smallest buffer ever in it; 0 in a slab for small buffers
  bool mapped_when_placed_ = false;  // mapped(), as its holes are placed in bins
  std::uint64_t used_granules_ = 0;  // taken by its buffers, if they are small
  std::size_t place_in_kind_ = 0;    // among the slabs of its kind
};

}  // namespace thermocline
