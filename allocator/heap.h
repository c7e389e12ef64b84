// SPDX-License-Identifier: Apache-2.0
// The device heap: addresses that never change, and physical pages that are mapped there and removed again.
//
// One reservation, far larger than the device, is cut into blocks of whole pages by best fit with coalescing (level 1).
// Small buffers share slabs (level 2, slabs.h). Any physical page can be mapped at any address, so free memory is never
// lost to fragmentation. But creating, mapping and unmapping pages cost tens of microseconds, so freed space keeps its
// pages and its pending uses, and is handed out again with both. A program in a steady state makes no driver call here.
//
//   - allocate finds addresses, by the first of these that exists: free mapped space; mapped space together with
//     unmapped space beside it; unmapped space. No driver call.
//   - map provides memory for the pages that a block lacks: from the pool; then newly created under the limit; then
//     taken from free mapped space, oldest first (backing.h).
//
// Invariants, in addition to those of the parts: every live buffer is registered in its block; a block without live
// buffers does not exist, unless it is vacant; live bytes are the sum of the requested sizes of the live buffers;
// created bytes never exceed the limit.
//
// Not thread-safe: the owner locks. A context of the device must be current.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "allocator/address_space.h"
#include "allocator/backing.h"
#include "allocator/block.h"
#include "allocator/object_pool.h"
#include "allocator/page_pool.h"
#include "allocator/size_class.h"
#include "allocator/slabs.h"
#include "allocator/stream_clock.h"
#include "allocator/use_set.h"
#include "driver/check.h"
#include "driver/driver.h"
#include "driver/page_size.h"
#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

struct HeapOptions {
  int device = 0;
  Bytes page_bytes = kDefaultPageBytes;
  // Upper bound for the device memory created at any time.
  Bytes limit = 0;
  // Size of the address reservation; halved while the driver refuses.
  Bytes reserve_bytes = Bytes{1} << 40;
  Bytes slab_bytes = 8 * kMiB;
  // False: no page is mapped at two addresses.
  bool may_alias = true;
  // Buffers of this size or more get whole pages of their own; smaller ones only if rounding up wastes at most an
  // eighth.
  Bytes whole_pages_from = kDefaultPageBytes;
  KeepApart apart = KeepApart::kNone;
};

// The live buffers that a program may mean by an address; null: none. See Heap::meant_by.
struct MeantBuffers {
  Buffer* within = nullptr;  // contains it; if none does: ends there
  Buffer* ended = nullptr;   // ends at the address, where `within` begins
  Buffer* behind = nullptr;  // begins shortly after the address

  bool operator==(const MeantBuffers&) const = default;
  bool any() const { return within != nullptr || behind != nullptr; }
};

struct HeapStatistics {
  Bytes live_bytes = 0, peak_live_bytes = 0;        // requested by live buffers
  Bytes mapped_bytes = 0, peak_mapped_bytes = 0;    // mapped at any address, free addresses included
  Bytes created_bytes = 0, peak_created_bytes = 0;  // pages created and not destroyed: taken from the device
  Bytes free_mapped_bytes = 0;                      // mapped at free addresses
  Bytes slab_bytes = 0, slab_live_bytes = 0;        // addresses of slabs, and the requested sizes of their buffers
  std::uint64_t buffers = 0, blocks = 0, slabs = 0;
  std::array<SizeClass, SizeClass::kCount> classes;
  std::uint64_t allocations = 0, frees = 0;
  // Driver calls.
  std::uint64_t creates = 0, destroys = 0, maps = 0, set_accesses = 0, unmaps = 0;
  std::uint64_t harvested_pages = 0;
};

class Heap {
 public:
  // `driver` and `clock` must outlive the heap.
  static Status create(const Driver& driver, StreamClock& clock, const HeapOptions& options,
                       std::unique_ptr<Heap>* out);
  // Returns all memory and addresses to the driver; no submitted work may still use them.
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Finds addresses. The block may be mapped or not; a slab may be an existing one. Fails with out_of_memory when the
  // addresses are exhausted, and with invalid_value when `requested` is 0. `vacant`: if a block is needed and this one
  // has the right size, it is used (see vacate).
  Status allocate(Bytes requested, StreamIndex hint, Buffer** out, Block* vacant = nullptr);
  // Whether a buffer of that size gets a block to itself.
  bool owns_pages(Bytes requested) const;
  // No buffer of that size or less does.
  Bytes shares_until() const {
    return std::min(options_.whole_pages_from, options_.page_bytes - options_.page_bytes / 8) - 1;
  }
  // The common cases of allocate, in the cheapest way: in space that has pages. Null if there is none; then nothing has
  // changed. For a buffer that shares a slab, and for one that owns its pages.
  Buffer* allocate_in_mapped_slab(Bytes requested, StreamIndex hint);
  Buffer* allocate_in_mapped_pages(Bytes requested, StreamIndex hint);
  // The same for free: the slab at the address, if it has several buffers, else null; and the buffer that begins there,
  // and where it was found (`window`).
  [[gnu::always_inline]] const Block* slab_of_several_at(DeviceAddress address) const {
    if (!space_->contains(address)) return nullptr;
    const Block* const block = space_->blocks()[space_->page_of(address)];
    return block == nullptr || !block->is_slab_ || block->live_buffers_ == 1 ? nullptr : block;
  }
  [[gnu::always_inline]] static Buffer* begins_in(const Block& slab, DeviceAddress address, std::uint64_t* window) {
    return Slabs::at(slab, address, window);
  }
  void free_beside_others(Buffer* buffer, std::uint64_t window);
  // allocate_in_mapped_slab() and free_beside_others() where no function has to be called (needs slabs_inline.h; see
  // there). `requested` must not be 0.
  template <class Accepts>
  [[gnu::always_inline]] Buffer* allocate_at_once(Bytes requested, StreamIndex hint, Accepts accepts) {
    Buffer* const buffer = slabs_.place_at_once(requested, accepts);
    if (buffer != nullptr) count_in<true>(buffer, requested, hint);
    return buffer;
  }
  static bool can_free_at_once(const Buffer& buffer) { return Slabs::can_remove_at_once(buffer); }
  [[gnu::always_inline]] void free_at_once(Buffer* buffer, std::uint64_t window) {
    count_out<true>(*buffer);
    slabs_.remove_at_once(buffer, window);
  }
  // The buffer that begins at the address and has the block to itself; null: none.
  Buffer* owner_at(DeviceAddress address) const {
    Block* const block = block_at(address);
    return block != nullptr && !block->is_slab_ && block->begin() == address ? block->sole_ : nullptr;
  }
  // True when the block was freed with its last buffer. `buffer` is destroyed in any case. The block's pages, if any,
  // stay mapped at the freed addresses, and its uses stay pending on them.
  bool free(Buffer* buffer);
  // free() for a buffer that has its block to itself.
  void free_owner(Buffer* buffer);

  // Gives the buffer, and its block if it has one to itself, a new number and serial, as for a new allocation: it has,
  // or will soon have, another owner.
  void renew(Buffer& buffer);

  // Frees the last buffer of a block but keeps the addresses: the block is vacant and is left out of all counts. Its
  // pages are given up (see give_up).
  Block& vacate(Buffer* buffer);
  // Frees the addresses of a vacant block.
  void dissolve(Block& vacant);

  // The live buffer that contains the address. The address one past the end of a buffer belongs to that buffer, unless
  // another one begins there.
  Buffer* find(DeviceAddress address) const;
  // The block that contains the address, whether or not a live buffer does; never a vacant block.
  Block* block_at(DeviceAddress address) const;
  // Programs also pass addresses that are in no buffer: one past the end of one; and, for arrays whose indices begin at
  // 1, that of the element before the first (numerical code translated from Fortran). Such an address means a buffer
  // that begins at most kMostBefore after it or, if it is in another buffer or ends one, at most kMostElement after it.
  MeantBuffers meant_by(DeviceAddress address) const;
  // The buffer that begins there, or null. Its address means only this buffer, and one that ends there.
  Buffer* begins_at(DeviceAddress address) const;
  // The block that an access to the address means, as in meant_by; never two.
  Block* block_meant_by(DeviceAddress address) const;
  // Whether the address means this block as long as the block has its serial, whatever is placed beside it.
  bool stays_meant(DeviceAddress address) const {
    const Block* const block = block_at(address);
    return block != nullptr && (block->is_slab_ || address <= block->sole_->end());
  }
  static constexpr Bytes kMostBefore = Slabs::kGranule, kMostElement = 16;
  // In order of address.
  template <class Visit>
  void for_each_buffer(const Block& block, Visit visit) const {
    if (block.is_slab()) {
      slabs_.for_each_buffer(block, visit);
    } else {
      visit(*block.sole_);
    }
  }
  // Every live block, in order of address. `visit` must not allocate or free.
  void for_each_block(const std::function<void(Block&)>& visit) const;

  // Maps memory at a range of the block. kNo and kBehind never block the host; kYes may synchronize with uses of freed
  // space. New work on the range must be ordered after `behind`; this call adds the pending uses of the pages it took.
  // On out_of_memory nothing has changed, except that pages may have moved from free addresses into the pool.
  // `untouched`: true if nobody has used the range's pages since it gave them up, so that its contents are still there.
  Status map(Block& block, PageRange range, Wait wait, UseSet* behind, bool* untouched = nullptr);
  // Maps the whole block; adds to block.uses the uses that new work must be ordered after.
  Status map(Block& block, Wait wait) { return map(block, {0, block.pages()}, wait, &block.uses); }
  // The next pages will be used on this stream (see Backing).
  void expect_user(StreamIndex stream) { backing_->expect_user(stream); }
  // All work that uses the range must have completed. Its pages return to the pool.
  Status unmap(Block& block, PageRange range);
  // Takes the pages from the range at once, while `pending` may still use them; the next owner of the pages is ordered
  // after `pending` on the device. Until the range is mapped again, its addresses may still map to pages of another
  // block: only for programs all of whose accesses are known.
  void give_up(Block& block, PageRange range, const UseSet& pending);
  // These driver functions wait for work in flight: from now on they are called only while no stream is blocked;
  // requests that need them return not_ready meanwhile. Streams are not blocked within a call of the heap.
  void mapping_waits(WaitingCalls calls) { backing_->mapping_waits(calls); }
  // Gives another device access to everything that is mapped, now and later. On failure it may have access to some of
  // it.
  Status open_to(int device) { return backing_->open_to(device); }
  // Which physical pages should be mapped at which addresses (both by page of the reservation), and when. Entries of a
  // block are removed with the block.
  AssignedPages& assigned_pages() { return backing_->assigned_pages(); }
  // Makes the pages of free addresses available for any address. The freed addresses are not handed out until the
  // driver's old mapping is removed.
  void defer_unmaps_of_free_space() { backing_->defer_unmaps_of_free_space(); }
  std::uint64_t page_of(DeviceAddress address) const { return space_->page_of(address); }
  // Calls visit(handle) for every page that is free and not recorded at any address.
  template <class Visit>
  void for_each_loose_page(Visit visit) const {
    for (const PageHandle page : pool_.free_list()) visit(page);
    for (const auto& [time, entry] : backing_->deferred_unmaps().entries()) {
      for (const PageHandle page : entry.pages) visit(page);
    }
  }
  // Maps the range, which has no pages, to these host pages, until it is mapped again. On failure the range is
  // unmapped, or mapped to them without access.
  Status show(Block& block, PageRange range, const std::vector<PageHandle>& pages) {
    return backing_->show(block, range, pages);
  }
  // Keeps the range mapped to `host` at least until `pending` has completed. When it is not mapped any more,
  // take_released() returns `host`. False: the range is not mapped to the host, and `host` is free at once.
  bool abandon_shown(const Block& block, PageRange range, void* host, const UseSet& pending) {
    return backing_->abandon_shown(block, range, host, pending);
  }
  std::vector<void*> take_released() { return backing_->take_released(); }
  // Removes the mappings of still mapped and of abandoned addresses whose uses have completed (kYes: waits for them).
  Status sweep(Wait wait) { return backing_->sweep_all(wait); }
  // False if somebody else has a page that is assigned to the range, or (`early`) will need it before this range does.
  bool homes_at_hand(const Block& block, PageRange range, bool early) const {
    return backing_->homes_at_hand(block, range, early);
  }
  // False if map() would have to wait for uses through the range's old mappings.
  bool can_map_without_waiting(const Block& block, PageRange range) {
    return backing_->can_map_without_waiting(block, range);
  }
  // Unmaps up to `most` stale ranges whose uses have completed.
  bool has_stale() const { return backing_->has_stale(); }
  void sweep_stale(std::size_t most) { backing_->sweep_passed_stale(most, false); }
  // Unmaps the whole block. block.uses must have completed (checked), and is cleared.
  Status unmap(Block& block);
  // Bytes that no live block holds: in the pool, still to be created under the limit, and mapped at free addresses.
  Bytes free_bytes() const { return backing_->free_pages() * options_.page_bytes; }
  // The largest number of addresses that one block could have; and the total.
  Bytes largest_free_addresses() const { return space_->largest_open_pages() * options_.page_bytes; }
  Bytes address_bytes() const { return space_->bytes(); }
  // Created bytes that no live block holds.
  Bytes unused_bytes() const { return created_bytes() - mapped_bytes() + free_mapped_bytes(); }
  // The largest free gap between the buffers of one slab. Linear in the number of gaps.
  Bytes largest_hole() const { return slabs_.largest_hole(); }
  // Bytes that map() could find: in the pool, under the limit, and in free mapped space (kNo: only where the uses have
  // completed).
  Bytes available_bytes(Wait wait);

  // Returns unused pages to the driver until at most `keep` bytes are created. kNo: does nothing while submitted work
  // may still use addresses that are still mapped.
  Status trim(Bytes keep, Wait wait = Wait::kNo);
  // Trims as far as needed (kYes: waits). If live blocks hold more: out_of_memory, and nothing changes.
  Status set_limit(Bytes limit, Wait wait = Wait::kYes);

  DeviceAddress range_begin() const { return space_->begin(); }
  Bytes range_bytes() const { return space_->bytes(); }
  Bytes page_bytes() const { return options_.page_bytes; }
  Bytes limit() const { return pool_.limit(); }
  Bytes live_bytes() const { return live_bytes_; }
  Bytes peak_live_bytes() const { return peak_live_bytes_; }
  Bytes mapped_bytes() const { return backing_->mapped_pages() * options_.page_bytes; }
  Bytes free_mapped_bytes() const { return space_->free_mapped_pages() * options_.page_bytes; }
  Bytes peak_mapped_bytes() const { return backing_->peak_mapped_pages() * options_.page_bytes; }
  Bytes created_bytes() const { return pool_.created_bytes(); }
  std::uint64_t created_pages() const { return pool_.created_pages(); }
  Bytes peak_created_bytes() const { return pool_.peak_created_bytes(); }
  std::uint64_t buffers() const { return buffers_; }
  HeapStatistics statistics() const;
  // Driver calls so far that changed a mapping.
  std::uint64_t mapping_calls() const { return backing_->maps() + backing_->unmaps(); }
  // Sets every peak to its current value.
  void reset_peaks();

  // The live block with that index, or null.
  Block* block_of(std::uint32_t index) const { return index < blocks_.size() ? blocks_[index] : nullptr; }

  // Recomputes every number and link from first principles and checks the invariants. Linear in the number of pages.
  void validate() const;

 private:
  Heap(const Driver& driver, StreamClock& clock, const HeapOptions& options, std::unique_ptr<AddressSpace> space);

  static unsigned width_of(Bytes requested);
  void fold_classes(std::array<SizeClass, SizeClass::kCount>* out) const;
  std::uint64_t ample_pages() const;
  Block* new_block(std::uint64_t pages, Zone zone, bool guarded, Block* vacant);
  Block* begin_block(AddressSpace::Chunk* chunk, bool guarded);
  bool revive(Block* vacant, std::uint64_t pages, bool guarded);
  void end_block(Block* block);
  Buffer* place_in_slab(Bytes requested, Block* vacant);
  Buffer* place_in_pages(Bytes requested, Block* vacant);
  // The pages that a buffer of its own block needs, and whether a guard must follow them.
  struct Footprint {
    std::uint64_t pages;
    bool guarded;
  };
  Footprint footprint_of(Bytes requested) const {
    // A page is of a power of two (AddressSpace).
    const Bytes bytes = (requested + options_.page_bytes - 1) & ~(options_.page_bytes - 1);
    return {bytes >> std::countr_zero(options_.page_bytes), bytes - requested <= kMostElement};
  }
  Buffer* fill_block(Block* block);
  void end_buffer(Buffer* buffer);
  Buffer* buffer_in(Block* block, DeviceAddress address) const;
  // `address`: at most kMostBefore before the end of its page, which belongs to the block `here`, or to none.
  Block* block_meant_near_the_end(Block* here, DeviceAddress address) const;
  template <bool kInSlab>
  void count_in(Buffer* buffer, Bytes requested, StreamIndex hint);
  template <bool kInSlab>
  void count_out(const Buffer& buffer);
  void validate_vacant() const;
  void validate_pages_of(const Block& block) const;

  HeapOptions options_;
  // In order of construction: each member uses the ones before it.
  std::unique_ptr<AddressSpace> space_;
  PagePool pool_;
  std::unique_ptr<Backing> backing_;
  ObjectPool<Block> block_objects_;
  Buffer::Pool buffer_objects_;  // and holes of slabs
  Slabs slabs_;
  std::vector<Block*> blocks_;  // by index; null where free
  std::vector<std::uint32_t> free_indices_;
  std::unordered_set<Block*> vacant_;
  std::uint64_t last_serial_ = 0;
  std::uint64_t last_number_ = 0;
  std::uint64_t renewals_ = 0;  // numbers that were not given to a new buffer
  std::uint64_t buffers_ = 0;   // live ones
  Bytes live_bytes_ = 0;
  Bytes peak_live_bytes_ = 0;
  Bytes whole_pages_live_bytes_ = 0;  // of live bytes: those of buffers with blocks of their own
  // Live buffers by the width of their sizes (width_of); statistics have them by size class.
  Bytes live_by_width_[64] = {};
  std::uint64_t buffers_by_width_[64] = {};
};

inline Block* Heap::block_at(DeviceAddress address) const {
  if (!space_->contains(address)) return nullptr;
  Block* const block = space_->blocks()[space_->page_of(address)];
  return block == nullptr || block->is_vacant_ ? nullptr : block;
}

inline Block* Heap::block_meant_by(DeviceAddress address) const {
  Block* const here = block_at(address);
  // Pages begin at multiples of their size.
  const Bytes left_of_page = page_bytes() - (address.value & (page_bytes() - 1));
  return left_of_page > kMostBefore ? here : block_meant_near_the_end(here, address);
}

inline bool Heap::owns_pages(Bytes requested) const {
  if (requested >= options_.whole_pages_from) return true;
  // Rounding up wastes more than an eighth of the last page, which is the only one.
  if (requested <= options_.page_bytes / 2) [[likely]]
    return false;
  const Bytes rounded = round_up(requested, options_.page_bytes);
  return (rounded - requested) <= rounded / 8;
}

// All sizes of one width are of one size class.
inline unsigned Heap::width_of(Bytes requested) {
  return static_cast<unsigned>(std::bit_width((requested - 1) | 1)) - 1;
}

// Counts a buffer that already has its address.
template <bool kInSlab>
[[gnu::always_inline]] inline void Heap::count_in(Buffer* buffer, Bytes requested, StreamIndex hint) {
  buffer->requested_ = requested;
  buffer->hint_ = hint;
  buffer->number_ = ++last_number_;
  buffer->cache_ = nullptr;
  ++buffers_;
  Block* const block = buffer->block_;
  if constexpr (!kInSlab) {
    block->sole_ = buffer;
    whole_pages_live_bytes_ += requested;
  }
  ++block->live_buffers_;
  block->live_bytes_ += requested;
  live_bytes_ += requested;
  if (live_bytes_ > peak_live_bytes_) peak_live_bytes_ = live_bytes_;
  const unsigned width = width_of(requested);
  live_by_width_[width] += requested;
  ++buffers_by_width_[width];
}

template <bool kInSlab>
[[gnu::always_inline]] inline void Heap::count_out(const Buffer& buffer) {
  Block* const block = buffer.block_;
  const Bytes requested = buffer.requested_;
  --buffers_;
  --block->live_buffers_;
  block->live_bytes_ -= requested;
  live_bytes_ -= requested;
  if constexpr (!kInSlab) whole_pages_live_bytes_ -= requested;
  const unsigned width = width_of(requested);
  live_by_width_[width] -= requested;
  --buffers_by_width_[width];
}

}  // namespace thermocline
