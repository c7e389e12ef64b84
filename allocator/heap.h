// SPDX-License-Identifier: Apache-2.0
// The device heap: addresses that never change, and the physical pages that come and go behind them.
//
// One reservation, far larger than the device, is cut into blocks of whole pages by best fit with coalescing (level 1).
// Small buffers share slabs (level 2, slabs.h). Pages are fungible: any page can stand behind any address, so free
// memory is never lost to fragmentation; but creating, mapping and unmapping cost tens of microseconds, so freed space
// keeps its pages and its pending uses, and is handed out again with both. A steady program makes no driver call here.
//
//   allocate: addresses, best of (free mapped space; mapped space and the unmapped beside it; unmapped). No driver
//   call. map:      memory behind the block's missing pages: from the pool, then created under the limit, then
//   harvested from free
//             mapped space, oldest first (backing.h).
//
// Invariants, beside those of the parts: every live buffer is in its block's set; a block without live buffers does not
// exist; live bytes are the sum of what live buffers asked for; created bytes never exceed the limit.
//
// Not thread-safe: the owner locks. A context of the device must be current.
#pragma once

#include <array>
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
#include "driver/driver.h"
#include "driver/page_size.h"
#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

struct HeapOptions {
  int device = 0;
  Bytes page_bytes = kDefaultPageBytes;
  // Most bytes of device memory ever created.
  Bytes limit = 0;
  // Addresses to reserve; halved while the driver refuses.
  Bytes reserve_bytes = Bytes{1} << 40;
  Bytes slab_bytes = 8 * kMiB;
  // False: no page stands behind two addresses.
  bool may_alias = true;
  // Buffers of this size and more own whole pages; smaller ones only where rounding up wastes an eighth or less.
  Bytes whole_pages_from = kDefaultPageBytes;
};

struct HeapStatistics {
  Bytes live_bytes = 0, peak_live_bytes = 0;        // requested by live buffers
  Bytes mapped_bytes = 0, peak_mapped_bytes = 0;    // behind any address, free ones included
  Bytes created_bytes = 0, peak_created_bytes = 0;  // pages created and not destroyed: what the device has lost to us
  Bytes free_mapped_bytes = 0;                      // behind free addresses
  Bytes slab_bytes = 0, slab_live_bytes = 0;        // addresses of slabs, and what their buffers asked for
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
  // Gives everything back; nothing may be running.
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Finds addresses. Its block may be mapped or not, and new or (a slab) old. Fails when the addresses are exhausted
  // (out_of_memory) or `requested` is 0 (invalid_value).
  // `vacant`: where a block is needed it is this one, if it has the size (vacate).
  Status allocate(Bytes requested, StreamIndex hint, Buffer** out, Block* vacant = nullptr);
  // True when the block went away with its last buffer (`buffer` is gone in any case): its pages, if it had any, stay
  // behind the freed addresses, and its uses stay pending on them.
  bool free(Buffer* buffer);

  // The buffer, and with it a block that is its own, gets a new number and serial: another owner has it, or soon will.
  void renew(Buffer& buffer);

  // Frees the last buffer of a block, and keeps the addresses: the block is vacant, and counts for nothing. Its pages
  // are given up (below).
  Block& vacate(Buffer* buffer);
  // The addresses of a vacant block are free for anybody.
  void dissolve(Block& vacant);

  // The live buffer that contains the address; one past the end counts for the buffer before it if none begins there.
  Buffer* find(DeviceAddress address) const;
  // The block whose addresses contain it, live buffer or not; no vacant one.
  Block* block_at(DeviceAddress address) const;
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

  // Puts memory behind a part of the block. kNo and kBehind never block; kYes may synchronise the uses of freed space.
  // What uses the part from now on has to be ordered behind `behind`, to which the uses of borrowed pages are added.
  // out_of_memory leaves everything as it was, except that pages may have moved from free addresses into the pool.
  // `untouched`: true if nobody has had the part's pages since it gave them up; its contents are what they were.
  Status map(Block& block, PageRange range, Wait wait, UseSet* behind, bool* untouched = nullptr);
  // The whole block; block.uses takes what it has to be ordered behind.
  Status map(Block& block, Wait wait) { return map(block, {0, block.pages()}, wait, &block.uses); }
  // Who gets pages next will use them on this stream (Backing).
  void expect_user(StreamIndex stream) { backing_->expect_user(stream); }
  // Everything that uses the part must have passed. Its pages return to the pool.
  Status unmap(Block& block, PageRange range);
  // The part loses its pages at once, while `pending` may still use them; whoever gets them next is ordered behind that
  // on the device. Until the part is mapped again, its addresses lead to pages that may be somebody else's: for
  // programs all of whose accesses are known.
  void give_up(Block& block, PageRange range, const UseSet& pending);
  // Another device may use what is mapped, from now on and already. On failure it may use some of it.
  Status open_to(int device) { return backing_->open_to(device); }
  // Which pages of memory are to stand behind which addresses (both by page of the reservation), and when; what is
  // said of a block is forgotten with it.
  Timetable& timetable() { return backing_->timetable(); }
  // Pages behind free addresses become loose: their addresses serve nobody until the driver leads them there no more.
  void loosen() { backing_->loosen(); }
  std::uint64_t page_of(DeviceAddress address) const { return space_->page_of(address); }
  // Calls visit(handle) for every page that is nobody's and stands behind no address.
  template <class Visit>
  void for_each_loose_page(Visit visit) const {
    for (const PageHandle page : pool_.free_list()) visit(page);
    for (const auto& [time, entry] : backing_->deferred_unmaps().entries()) {
      for (const PageHandle page : entry.pages) visit(page);
    }
  }
  // The part, which has no pages, leads to these on the host until it is mapped; on failure to nothing, or to them
  // without access.
  Status show(Block& block, PageRange range, const std::vector<PageHandle>& pages) {
    return backing_->show(block, range, pages);
  }
  // The part's addresses lead to `host` as long as `pending` has not passed, and then some: when they do no more,
  // take_released() gives `host` back. False when they lead nowhere: then it is free at once.
  bool abandon_shown(const Block& block, PageRange range, void* host, const UseSet& pending) {
    return backing_->abandon_shown(block, range, host, pending);
  }
  std::vector<void*> take_released() { return backing_->take_released(); }
  // Unmaps what lent and abandoned addresses lead to, where it has passed (kYes: waits for it).
  Status sweep(Wait wait) { return backing_->sweep_all(wait); }
  // False: somebody else has a page that is to stand behind the part; or (`early`) comes there before this part does.
  bool homes_at_hand(const Block& block, PageRange range, bool early) const {
    return backing_->homes_at_hand(block, range, early);
  }
  // False: map() would have to wait for what may still use the part's addresses.
  bool can_map_without_waiting(const Block& block, PageRange range) {
    return backing_->can_map_without_waiting(block, range);
  }
  // Frees up to `most` such parts' addresses whose uses have passed.
  bool has_stale() const { return backing_->has_stale(); }
  void sweep_stale(std::size_t most) { backing_->sweep_passed_stale(most, false); }
  // The whole block: block.uses must have passed (checked), and is cleared.
  Status unmap(Block& block);
  // How many bytes there are that no live block holds.
  Bytes free_bytes() const { return backing_->free_pages() * options_.page_bytes; }
  // Of the created pages, those that no live block has.
  Bytes unused_bytes() const { return created_bytes() - mapped_bytes() + free_mapped_bytes(); }
  // The largest free place between the buffers of one slab. Linear in the number of places.
  Bytes largest_hole() const { return slabs_.largest_hole(); }
  // How many bytes map() could find: in the pool, under the limit, and in free mapped space (kNo: whose uses have
  // passed).
  Bytes available_bytes(Wait wait);

  // Gives unused pages back to the driver until no more than `keep` bytes are created; kNo: none while work that was
  // submitted may use lent addresses.
  Status trim(Bytes keep, Wait wait = Wait::kNo);
  // Trims as far as needed (kYes: waits). out_of_memory, and no change, when live blocks hold more.
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
  Bytes peak_created_bytes() const { return pool_.peak_created_bytes(); }
  std::uint64_t buffers() const { return allocations_ - frees_; }
  HeapStatistics statistics() const;
  // Calls of the driver so far that change what addresses lead to.
  std::uint64_t mapping_calls() const { return backing_->maps() + backing_->unmaps(); }
  // Every peak becomes what is so now.
  void reset_peaks();

  // The live block of that index, or null.
  Block* block_of(std::uint32_t index) const { return index < blocks_.size() ? blocks_[index] : nullptr; }

  // Recomputes every number and link from first principles; checks what must hold. Linear in the number of pages.
  void validate() const;

 private:
  Heap(const Driver& driver, StreamClock& clock, const HeapOptions& options, std::unique_ptr<AddressSpace> space);

  bool owns_pages(Bytes requested) const;
  std::uint64_t ample_pages() const;
  Block* new_block(std::uint64_t pages, Zone zone, bool guarded, Block* vacant);
  bool revive(Block* vacant, std::uint64_t pages, bool guarded);
  void end_block(Block* block);
  bool place_in_slab(Bytes requested, Buffer* buffer, Block* vacant);
  bool place_in_pages(Bytes requested, Buffer* buffer, Block* vacant);
  Buffer* buffer_in(Block* block, DeviceAddress address) const;
  void count_in(Buffer* buffer, Bytes requested, StreamIndex hint);
  void count_out(const Buffer& buffer);
  void validate_vacant() const;

  HeapOptions options_;
  // In order of construction: what is built on what.
  std::unique_ptr<AddressSpace> space_;
  PagePool pool_;
  std::unique_ptr<Backing> backing_;
  Slabs slabs_;
  ObjectPool<Block> block_objects_;
  ObjectPool<Buffer> buffer_objects_;
  std::vector<Block*> blocks_;  // by index; null where free
  std::vector<std::uint32_t> free_indices_;
  std::unordered_set<Block*> vacant_;
  std::uint64_t last_serial_ = 0;
  std::uint64_t last_number_ = 0;
  std::uint64_t allocations_ = 0;
  Bytes live_bytes_ = 0;
  Bytes peak_live_bytes_ = 0;
  Bytes slab_live_bytes_ = 0;
  std::uint64_t frees_ = 0;
  std::array<SizeClass, SizeClass::kCount> classes_;
};

}  // namespace thermocline
