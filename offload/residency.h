// SPDX-License-Identifier: Apache-2.0
// Who is on the device and who leaves for whom. Strict: a block's pages are given away only after everything submitted
// that may use them has passed and its contents are on the host (or were never defined).
//
// The ladder for pages, cheapest first (make_room):
//   1. free pages, new pages under the limit, free mapped space whose uses have passed;
//   2. clean blocks whose uses have passed, oldest first: nothing to copy, nobody waits;
//   3. wait for the copy out that began first;
//   4. take pages from blocks that have only a part of theirs and nothing in it yet;
//   5. wait for free space that is still in use, when it is enough;
//   6. begin to copy out the oldest idle blocks, enough of them;
//   7. out of memory.
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "allocator/heap.h"
#include "allocator/stream_clock.h"
#include "offload/block_state.h"
#include "offload/migration.h"

namespace thermocline {

struct ResidencyOptions {
  bool may_evict = true;
  Bytes min_offload_bytes = kMiB;
};

struct ResidencyStatistics {
  std::uint64_t evictions = 0, restores = 0, wasted_prefetches = 0;
};

class Residency {
 public:
  Residency(Heap& heap, StreamClock& clock, Migration& migration, ResidencyOptions options)
      : heap_(heap), clock_(clock), migration_(migration), options_(options) {}

  BlockState& state_of(const Block& block) { return states_[block.index()]; }

  // A buffer has been handed out: earlier users of its space are waited for before the next touch of its block.
  void adopt(const Buffer& buffer);
  // The block's last tenant is about to go: its host copy goes, its uses stay with the space.
  void forget(Block& block);

  // Gives pages to every block (contents restored where defined), evicting others but none of these. On out_of_memory
  // some of them may have got pages already; no contents are lost.
  Status make_resident(std::span<BlockState* const> blocks);
  // The operation that touched the block as `operation` has been submitted.
  void touched(BlockState& state, std::uint64_t operation);

  // Makes room for pages of the program's own: evicts until `bytes` of the limit are free.
  Status make_room_for_limit(Bytes new_limit);

  // Brings a block back into free pages only; false when there are none to be had without waiting or evicting.
  bool prefetch(BlockState& state);

  // Submits the copy out of the oldest idle dirty block; false when there is none worth it.
  bool write_behind();
  // As planned: the block is copied out now, and is the next to go when room is needed.
  void leave(BlockState& state);
  // As planned: the block is wanted soon. True when it is on the device, or on its way there; false when that would
  // mean to wait.
  bool bring_back(BlockState& state);

  BlockState* youngest_away() { return away_.empty() ? nullptr : &away_.back(); }
  Bytes resident_bytes() const { return resident_bytes_; }  // pages behind live blocks
  Bytes clean_bytes() const { return clean_bytes_; }        // of these, with a host copy leaving or current
  const ResidencyStatistics& statistics() const { return statistics_; }

  // Frees every host copy; only when nothing will be restored any more.
  void release_host_copies();

  void validate() const;

 private:
  bool may_leave(const BlockState& state) const;
  void place(BlockState& state, Place where);
  Status make_room(Block& block);
  // Rungs 2 to 4, then 6 unless `enough_pending`; each step makes room or begins to. False when none could.
  Status climb(Bytes missing, bool enough_pending, bool* progress);
  bool drop_clean(Bytes missing);
  bool drop_clean_if(Bytes missing, bool wanted);
  Status drop_first_leaving(bool* progress);
  Status drop_partial(bool* progress);
  Status start_copies(Bytes missing, bool* progress);
  void drop(BlockState& state);

  Heap& heap_;
  StreamClock& clock_;
  Migration& migration_;
  const ResidencyOptions options_;
  std::deque<BlockState> states_;  // by Block::index()
  BlockList dirty_, clean_, away_;
  Bytes resident_bytes_ = 0;
  Bytes clean_bytes_ = 0;
  std::uint64_t preparation_ = 0;  // blocks with held == preparation_ belong to the operation being prepared
  ResidencyStatistics statistics_;
};

}  // namespace thermocline
