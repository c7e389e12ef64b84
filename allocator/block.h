// SPDX-License-Identifier: Apache-2.0
// Block: a run of whole pages of addresses, the unit that is mapped, evicted and restored. Buffer: what the program
// allocated. A buffer of a few MiB and more has a block to itself; small ones share a block, called a slab. Both belong
// to a Heap.
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
  // What the program asked for.
  Bytes requested() const { return requested_; }
  Block& block() const { return *block_; }
  // The stream named at allocation.
  StreamIndex hint() const { return hint_; }
  // In order of allocation, from 1.
  std::uint64_t number() const { return number_; }

  // Uses by former owners of these bytes that were pending when they were handed out: every stream's first use of the
  // buffer runs after them. A part of block().uses; the rest of those are uses by neighbours in the slab, which need no
  // order.
  UseSet former;

 private:
  friend class Heap;
  friend class Slabs;
  friend class ThreadCache;

  DeviceAddress address_;
  Bytes requested_ = 0;
  Block* block_ = nullptr;
  BfcChunk<SlabTag>* chunk_ = nullptr;  // null: the block is this buffer's own
  StreamIndex hint_{};
  std::uint8_t slot_ = 0;         // in its cache
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

  // Every page of it has memory behind it. A fresh block may have some, when it was laid partly over mapped space.
  bool mapped() const { return mapped_pages_ == pages_; }
  std::uint64_t mapped_pages() const { return mapped_pages_; }
  // By page; 0 where there is none.
  std::span<const PageHandle> page_handles() const { return {handles_, pages_}; }

  bool is_slab() const { return is_slab_; }
  // Nobody's, and kept for whoever comes back (Heap::vacate).
  bool is_vacant() const { return is_vacant_; }
  std::uint32_t live_buffers() const { return live_buffers_; }
  // Sum of what the live buffers asked for.
  Bytes live_bytes() const { return live_bytes_; }
  // Dense number among the live blocks, given again when the block is gone.
  std::uint32_t index() const { return index_; }
  // In order of creation, from 1; never given again.
  std::uint64_t serial() const { return serial_; }
  // Bytes from begin() behind which no live buffer has anything: what a copy has to move.
  Bytes contents_end() const;
  // Everything submitted that may still use the pages behind the block. Whoever submits such work adds it here; after
  // unmap it is empty, and when the block goes away while mapped it stays pending on the freed space.
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
  BfcChunk<SlabTag>* first_ = nullptr;  // of a slab: the chunk that begins it
  bool is_slab_ = false;
  bool is_vacant_ = false;
  std::uint32_t live_buffers_ = 0;
  Bytes live_bytes_ = 0;
  std::uint32_t index_ = 0;
  std::uint64_t serial_ = 0;
  Buffer* sole_ = nullptr;             // whose own it is; null: a slab
  const Slabs* slabs_ = nullptr;       // of a slab: where its buffers are known
  std::uint64_t used_granules_ = 0;    // of a slab: how many its buffers take
  std::size_t place_among_small_ = 0;  // of a slab of small buffers
  std::vector<std::uint64_t> starts_;  // of a slab: see Slabs
};

}  // namespace thermocline
