// SPDX-License-Identifier: Apache-2.0
// Block: a run of whole pages of addresses; the unit of mapping, eviction and fetching. Buffer: what the program
// allocated. A buffer of a few MiB or more has a block of its own; small ones share a block, called a slab. Both types
// belong to a Heap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "allocator/use_set.h"
#include "driver/driver.h"
#include "driver/units.h"

namespace thermocline {

class Block;
class Heap;
template <class Tag>
class BfcChunk;   // bfc.h
struct SpaceTag;  // address_space.h: level 1 of the allocator
struct SlabTag;   // slabs.h: level 2
class Slabs;
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
  // them. A subset of block().uses; the others there are uses of neighbours in the slab, which need no order.
  UseSet former;

 private:
  friend class Heap;
  friend class Slabs;
  friend class ThreadCache;

  DeviceAddress address_;
  Bytes requested_ = 0;
  Block* block_ = nullptr;
  BfcChunk<SlabTag>* chunk_ = nullptr;  // null: the buffer has a block of its own
  StreamIndex hint_{};
  std::uint8_t slot_ = 0;         // in cache_
  ThreadCache* cache_ = nullptr;  // of the thread that it was handed out to; null: none
  std::uint64_t number_ = 0;
};

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
  // By page; 0 if no physical page is mapped.
  std::span<const PageHandle> page_handles() const { return {handles_, pages_}; }

  bool is_slab() const { return is_slab_; }
  // True if the block has no buffer and its addresses are kept for an owner that returns (Heap::vacate).
  bool is_vacant() const { return is_vacant_; }
  std::uint32_t live_buffers() const { return live_buffers_; }
  // The sum of the requested sizes of the live buffers.
  Bytes live_bytes() const { return live_bytes_; }
  // A dense number among the live blocks; reused when the block is gone.
  std::uint32_t index() const { return index_; }
  // In order of creation, from 1; never reused.
  std::uint64_t serial() const { return serial_; }
  // Bytes from begin() to the end of the last live buffer: what a copy has to move.
  Bytes contents_end() const;
  // All submitted work that may still use the block's pages. Whoever submits such work adds it here. After unmap the
  // set is empty; when a mapped block is freed, the uses stay pending on the freed space.
  UseSet uses;

 private:
  friend class Backing;
  friend class Heap;
  friend class Slabs;

  DeviceAddress begin_;
  std::uint64_t pages_ = 0;
  Bytes page_bytes_ = 0;
  std::uint64_t mapped_pages_ = 0;
  PageHandle* handles_ = nullptr;  // in the heap's page table
  BfcChunk<SpaceTag>* chunk_ = nullptr;
  BfcChunk<SlabTag>* first_ = nullptr;  // of a slab: its first chunk
  bool is_slab_ = false;
  bool is_vacant_ = false;
  std::uint32_t live_buffers_ = 0;
  Bytes live_bytes_ = 0;
  std::uint32_t index_ = 0;
  std::uint64_t serial_ = 0;
  Buffer* sole_ = nullptr;             // the one buffer of a block that is no slab; null for a slab
  const Slabs* slabs_ = nullptr;       // of a slab: the owner of its list of buffers
  std::uint64_t used_granules_ = 0;    // of a slab: granules taken by its buffers
  std::size_t place_among_small_ = 0;  // of a slab of small buffers: its index in Slabs::small_
  std::vector<std::uint64_t> starts_;  // of a slab: see Slabs
};

}  // namespace thermocline
