// SPDX-License-Identifier: Apache-2.0
// Decides which blocks are on the device and which are evicted for others.
//
// Strict: the pages of a live block are reused only after all submitted work that may use them has completed, and their
// contents are on the host (or were never defined). Trusting: they are reused as soon as the copy out has been
// submitted, for work that is ordered after that copy on the device. The host then does not wait, and the block's
// addresses still map to pages of another block until the block is fetched, or somebody unmaps them. So an access that
// the engine was not told of reads, or overwrites, another block's bytes.
//
// Reclaim: the sources of pages, cheapest first (make_room):
//   1. free pages, new pages under the limit, free mapped space; work that may still use these is waited for on the
//      device;
//   2. clean units whose uses have completed, oldest first: no copy and no wait. Trusting: after these, units whose
//      copy out has been submitted;
//   3. wait for the copy out that began first.
//      2 and 3 are done for the units that the plan has chosen to leave; then for others, which the plan counts on to
//      stay; then for units that were prefetched: whoever planned that expects the wait, but not a second fetch;
//   4. take pages from units that have only some of their pages, and no contents in them yet;
//   5. wait for free space, if the driver refused what step 1 needs;
//   6. begin to copy out the oldest idle units, as many as needed;
//   7. out of memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "allocator/heap.h"
#include "allocator/stream_clock.h"
#include "driver/locks.h"
#include "offload/movement.h"
#include "offload/page_assignment/live_range_log.h"
#include "offload/residency/block_state.h"
#include "offload/residency/migration.h"
#include "offload/residency/victim_order.h"

namespace thermocline {

struct ResidencyOptions {
  bool may_evict = true;
  const std::atomic<bool>* evict_no_more = nullptr;  // EngineOptions
  bool trusting = false;
  Bytes min_offload_bytes = 0;
  bool compares_copies = false;  // by digests (clean_drop.cc)
  MovementObserver* observer = nullptr;
};

struct ResidencyStatistics {
  std::uint64_t evictions = 0, restores = 0;            // of units
  std::uint64_t prefetches = 0, wasted_prefetches = 0;  // of units; the latter left without an access
  // Pages that units gave up where room was needed; of these, whose contents had been copied out by write-behind.
  Bytes given_up_bytes = 0, written_behind_bytes = 0;
  // Units that were found unchanged, or changed, since their copy went out, as far as that is known; bytes that were not copied out for that.
  std::uint64_t unchanged = 0, changed = 0;
  Bytes uncopied_bytes = 0;
  MovementCounts by_reason;
};

class Residency {
 public:
  Residency(Heap& heap, StreamClock& clock, Digests& digests, Migration& migration, HostMappings& host_mappings,
            ResidencyOptions options)
      : heap_(heap),
        clock_(clock),
        digests_(digests),
        migration_(migration),
        host_mappings_(host_mappings),
        options_(options),
        trusting_(options.trusting) {}

  std::uint32_t pins_of(const Block& block) const { return by_index_.data()[block.index()]->pins; }
  BlockState& state_of(const Block& block) { return *by_index_.data()[block.index()]; }

  // A buffer has been handed out: earlier users of its space are waited for before the next access of its block.
  void adopt(const Buffer& buffer);
  // adopt() where the block has other buffers.
  void adopt_beside_others(const Buffer& buffer) { state_of(buffer.block()).former.join(buffer.former); }
  // The block's last page owner is about to go: its host copy goes, its uses stay with the space.
  void forget(Block& block);

  // The buffer has been freed and is another one's now, or will be, as adopt after forget; its space stays with it.
  void succeed(Buffer& buffer);

  // Gives pages to every block (contents restored where defined), evicting others but none of these. On out_of_memory
  // some of them may have got pages already; no contents are lost.
  // Of an operation with ranges, to the units that it wants; those that it overwrites are hollow then.
  Status make_resident(std::span<BlockState* const> blocks, FetchReason reason = FetchReason::kAccessed) {
    return hold(blocks, reason) ? Status() : make_absent_resident(blocks);
  }
  // The first step: none of these leaves before the next call. True: all that the operation wants of them is there, and
  // make_resident() would do nothing more.
  bool hold(std::span<BlockState* const> blocks, FetchReason reason = FetchReason::kAccessed) {
    ++preparation_;
    makes_room_for_ = EvictReason::kPressure;
    fetches_for_ = reason;
    bool are_there = true;
    for (BlockState* state : blocks) {
      THERMOCLINE_CHECK(!state->dropped, "what is dropped is recomputed before it is accessed");
      state->held = preparation_;
      are_there &= state->has_wanted();
    }
    return are_there;
  }
  // hold() where the caller knows that all are there.
  void hold_resident(std::span<BlockState* const> blocks) {
    ++preparation_;
    makes_room_for_ = EvictReason::kPressure;
    fetches_for_ = FetchReason::kAccessed;
    for (BlockState* state : blocks) state->held = preparation_;
  }
  // All of one.
  Status make_whole_resident(BlockState& state, FetchReason reason);
  // The operation that accessed the block as `operation` has been submitted.
  void accessed(BlockState& state, std::uint64_t operation) {
    state.operation = operation;
    if (state.count == 1 && state.whole && log_ == nullptr && is_plain(state.one)) [[likely]] {
      move_to_end(state.one);
    } else {
      accessed_in_units(state);
    }
  }
  // Somebody who was not seen may have written to all of it while it was pinned.
  void written_unseen(BlockState& state);

  // Makes room for pages of the program's own: evicts until `bytes` of the limit are free.
  Status make_room_for_limit(Bytes new_limit);

  // Brings a unit back into free pages only; false when there are none to be had without waiting or evicting.
  bool prefetch(EvictionUnit& unit);

  // Victims are chosen in that order; null: what has been accessed longest ago goes first. `spill`: the same of host
  // copies that go to the spill file.
  void evict_in(VictimOrder* order, VictimOrder* spill = nullptr) {
    victim_order_ = order;
    spill_order_ = spill;
  }
  // Where there is a spill file: host copies are written there while the host fills up. Waits for nobody.
  void spill_behind();

  // Submits the copy out of the oldest idle dirty unit; false when there is none worth it.
  bool write_behind();
  // Of a unit that need not be on the device for what is to come: it has a host copy afterwards, or one is being made.
  // out_of_memory: the host has no room for it.
  Status make_host_copy(EvictionUnit& unit);
  // As planned, or asked for: the first `units` units of the block are copied out now, and are the next to go when room
  // is needed.
  void begin_evictions(BlockState& state, std::size_t units, EvictReason reason);
  // What the plan has chosen to leave, and has not left yet, is like all that is clean.
  void plan_ended();
  // The block's contents can be recomputed: they are given up, and its pages at once, behind its uses on the device.
  void drop_contents(BlockState& state);
  // As planned, or asked for: the block is wanted soon. True when it is on the device, or on its way there; false when
  // there is no room yet. `may_wait`: the host may wait until nobody uses the block's addresses any more (trusting);
  // else that is false, too.
  bool prefetch(BlockState& state, bool may_wait, FetchReason reason);

  // Sleep (sleep.cc), each in steps: the caller opens the lock, waits for `in_flight`, and goes on while `goes_on`.
  struct Step {
    bool goes_on = false;          // something was begun, or is on its way
    std::optional<Use> in_flight;  // the copy that began first
    std::optional<Use> newest;     // of waking: the copy that began last
    EvictionUnit* busy = nullptr;  // in use by work in flight; valid until the lock is opened
    bool is_busy = false;          // work in flight keeps something, `busy` or all of it
    bool no_host = false;          // there was no host memory for something
    bool no_room = false;          // of waking: there are no free pages for something
    Status status;                 // of the driver, where it refused something
  };
  // Takes what can leave now, and begins to copy out more; nothing that an operation after `since` accessed. Unless it
  // `waits`, it begins nothing behind a copy that something else began, which may come behind a kernel without an end.
  Step sleep_more(std::uint64_t since, bool waits);
  // Evicts all that can leave in one go, under a full host fallback: nothing runs meanwhile.
  Status sleep_at_rest();
  // Begins to bring back what is asleep, into free pages only.
  Step wake_more();
  // What has stayed of what is on the device, and why; `no_host`: as the last step said.
  struct Staying {
    Bytes pinned = 0, in_use = 0, no_host = 0;
  };
  Staying staying(std::uint64_t since, bool no_host);
  Bytes asleep_bytes() const { return asleep_bytes_; }

  // Nothing leaves any more, although it might have.
  bool has_stopped() const {
    return options_.evict_no_more != nullptr && options_.evict_no_more->load(std::memory_order_relaxed);
  }
  bool is_trusting() const { return trusting_; }
  // Whether buffers may be found unchanged (BlockState::was_found_unchanged).
  bool takes_digests() const { return options_.compares_copies && digests_.on(); }
  // Strict: for a while all accesses are known, and pages are given away as if trusting.
  void trust() { trusting_ = true; }
  // Unless trusting for good: from now on some are not. Nothing leads to pages of others any more, and what is evicted is
  // on the host. Waits for what may still use those addresses; on failure it is trusting still.
  Status distrust();
  // Trusting: what leaves gives up its pages at once, and not when somebody asks for them. If nobody takes
  // them before it returns, its contents are still in them.
  void give_up_at_once(bool does);
  // The log is told of all units that have pages, and of every change from now on; null: nobody is.
  void watch(LiveRangeLog* log);

  bool any_nonresident() const { return !evicted_.empty(); }
  // Sleep shows nothing of how much memory the program needs.
  bool has_evicted_for_room() const { return statistics_.given_up_bytes > 0; }
  EvictionUnit* youngest_evicted() { return evicted_.empty() ? nullptr : &evicted_.back(); }
  Bytes resident_bytes() const { return resident_bytes_; }  // pages behind units of live blocks that have all theirs
  Bytes clean_bytes() const { return clean_bytes_; }        // of these, with a host copy current or being made
  // Of these, brought back for a use to come, which has not come yet.
  Bytes prefetched_bytes() const { return prefetched_bytes_; }
  const ResidencyStatistics& statistics() const { return statistics_; }

  // Of units that left if they had changed, which the device has found changed by now. Never blocks.
  void count_outcomes();

  // Frees every host copy; only when nothing will be restored any more.
  void release_host_copies();

  void validate() const;

 private:
  // Clean units, in the order in which they go: those that the plan has chosen, for it counts on the others; the others;
  // those that have been brought back for a use to come.
  enum class Victims : std::uint8_t { kPlanned, kOthers, kPrefetched };
  static Victims victims_of(const EvictionUnit& unit);
  bool is_evictable(const EvictionUnit& unit) const;
  static bool is_pinned(const EvictionUnit& unit) { return unit.whole->pins > 0 || unit.pins > 0; }
  bool may_sleep(const EvictionUnit& unit, std::uint64_t since) const;
  void set_asleep(EvictionUnit& unit, bool asleep);
  // Whether a copy out is on its way that was not begun for sleep.
  bool evicts_for_others();
  void drop_for_sleep(std::uint64_t since, Step* step);
  void unmap_partial();
  void copy_for_sleep(std::uint64_t since, Step* step);
  std::vector<EvictionUnit*> next_to_wake();
  // The operation being prepared wants it.
  bool is_held(const EvictionUnit& unit) const { return unit.whole->held == preparation_ && unit.whole->wants(unit); }
  // An access changes nothing but its place among the others.
  static bool is_plain(const EvictionUnit& unit) {
    return unit.state == ResidencyState::kDirty && unit.defined && !unit.has_been_moved();
  }
  void move_to_end(EvictionUnit& dirty) {
    if (&dirty_.back() != &dirty) dirty_.splice(dirty_.cend(), dirty_, dirty_.iterator_to(dirty));
  }
  void accessed_in_units(BlockState& state);
  void set_prefetched(EvictionUnit& unit, bool prefetched);
  void note_use(EvictionUnit& unit);
  static void set_hollow(EvictionUnit& unit, bool hollow);
  // not_ready for out_of_memory where streams were blocked: what they use may leave when they have gone on. And where something
  // has been put off until the engine's lock is open.
  Status not_ready_if_put_off(Status status, bool blocked);
  void cut(BlockState& state);
  void set_state(EvictionUnit& unit, ResidencyState state);
  void log_change(const EvictionUnit& unit, ResidencyState state);
  // True once nobody uses the unit's pages.
  bool idle(const EvictionUnit& unit) { return clock_.passed(unit.whole->block->uses) && clock_.passed(unit.uses); }
  Status await(const EvictionUnit& unit);
  Status restore(EvictionUnit& unit, bool untouched, bool overwritten);
  // Of what is chosen to leave for that reason.
  Status copy_out(EvictionUnit& unit, EvictReason reason);
  Status copy_in(EvictionUnit& unit);
  void count_eviction(EvictionUnit& unit);
  MovedUnit moved_unit(const EvictionUnit& unit, Bytes bytes) const;
  // While one lives, host memory may be waited for that a write to the spill file frees.
  struct WaitsForFile {
    explicit WaitsForFile(Residency& residency) : of(residency) {
      of.waits_for_file_ = true;
      of.needed_on_host_ = nullptr;
    }
    ~WaitsForFile() {
      of.waits_for_file_ = false;
      of.needed_on_host_ = nullptr;
    }
    WaitsForFile(const WaitsForFile&) = delete;
    WaitsForFile& operator=(const WaitsForFile&) = delete;
    Residency& of;
  };
  // What is begun under a full host fallback ends where it is: come_to_rest() gives up the copies out, so that an
  // operation that began again behind a wait for one of them would find it gone, and begin the same copy for ever.
  struct InOneGo {
    InOneGo(const HostMappings& host_mappings, StreamClock& clock) {
      if (!host_mappings.full()) return;
      none.emplace(clock, false);
      in_place.emplace();
    }
    std::optional<StreamClock::Deferring> none;
    std::optional<WaitsInPlace> in_place;
  };
  // With a full host fallback: nothing runs that could access what is about to be evicted or fetched, and no copy is older
  // than that.
  Status come_to_rest();
  Status wait_for_users(std::span<BlockState* const> blocks);
  Status make_absent_resident(std::span<BlockState* const> blocks);
  Status make_each_resident(std::span<BlockState* const> blocks);
  Status shrink_to(Bytes new_limit);
  // Maps what is evicted to the host, whether or not it has contents.
  void map_new_to_host(BlockState& state);
  bool map_whole(BlockState& state);
  Status make_room(EvictionUnit& unit, bool* untouched);
  // Calls visit(unit) for the units of dirty_ or clean_, oldest first or in the policy's order, until it returns false.
  // May move the unit to another list.
  template <class Visit>
  void for_each_victim(UnitList& list, Visit visit);
  // Steps 2 to 4 of the list above, then 6 unless `enough_pending`. `progress`: whether one made room, or begins to.
  Status reclaim(Bytes missing, bool enough_pending, bool* progress);
  bool evict_clean(Bytes missing, Victims victims);
  Bytes give_up_leaving(Bytes missing, std::optional<Victims> victims = {});
  Status drop_first_leaving(Victims victims, bool* progress);
  Status drop_partial(bool* progress);
  Status start_copies(Bytes missing, bool* progress);
  // Clean drop (clean_drop.cc).
  bool takes_digests(const EvictionUnit& unit) const;
  void take_digest_of_copy(EvictionUnit& unit);
  // An operation that may write has been submitted.
  void may_have_changed(EvictionUnit& unit);
  // The unit, dirty, is to leave: its copy out begins, if need be on the condition that it has changed. It is clean
  // then.
  Status begin_eviction(EvictionUnit& unit, EvictReason reason);
  bool copy_out_if_changed(EvictionUnit& unit, EvictReason reason);
  void learn_outcome(Evidence& evidence);
  void release_digest(EvictionUnit& unit);
  void drop_host_copy(EvictionUnit& unit);
  // The oldest stale copy, for its host memory; false: there is none.
  bool drop_a_stale_copy();
  // Spill (spilling.cc).
  void sort_for_spill(std::vector<EvictionUnit*>* units) const;
  bool is_needed_on_host(const EvictionUnit& unit) const;
  Bytes free_host_of_written(Bytes bytes);
  // Of one unit that need not leave: its copy, with that in the file or without one there.
  bool drop_copies_of_resident(bool in_file);
  // Writes, farthest next use first, until `bytes` are being written, or `most` copies.
  bool begin_spilling(Bytes bytes, std::size_t most);
  bool begin_spilling_of(UnitList& list, Bytes bytes, std::size_t most);
  bool may_spill(const EvictionUnit& unit) const;
  bool await_what_may_spill();
  bool forget_failed_writes();
  bool fetch_one();
  // `reads`: for contents of the file; else for what is to leave the device, to which nothing comes back meanwhile.
  bool make_host_room(Bytes bytes, bool reads);
  // make_host_room() after an allocation in vain; false where that was not for lack of host memory alone.
  bool make_host_room_again(Bytes bytes, bool reads);
  bool begin_to_read(EvictionUnit& unit, bool makes_room);
  void begin_to_read_wanted(BlockState& state);
  // The operation being prepared needs its contents: on the host, if they were in the file. not_ready: the read is
  // waited for without the lock. operating_system: it has failed.
  Status read_to_host(EvictionUnit& unit);
  bool is_on_host(EvictionUnit& unit);
  // prefetch() where the host may have to wait until the unit's addresses are free (trusting).
  bool fetch(EvictionUnit& unit);
  // Nobody has its pages, and nobody uses its addresses.
  bool is_free_to_come(const EvictionUnit& unit);
  bool evict_unit(EvictionUnit& unit);
  // Trusting: the unit loses its pages while its uses, and its copy out, may still be to come.
  void give_up(EvictionUnit& unit);
  void evict_now(EvictionUnit& unit);

  Heap& heap_;
  StreamClock& clock_;
  Digests& digests_;
  Migration& migration_;
  HostMappings& host_mappings_;
  const ResidencyOptions options_;
  bool trusting_;
  std::deque<BlockState> states_;
  std::vector<BlockState*> by_index_;  // of these, by Block::index(): every operation and allocation looks there
  UnitList dirty_, clean_, evicted_;
  struct Compared {
    MovedUnit unit;
    EvictReason reason;
  };
  std::deque<Compared> compared_;  // of unknown outcome, in order of submission
  // Since the last unit was found unchanged: copies that went though they had a digest; and copies that then got none.
  std::uint64_t useless_digests_ = 0, undigested_copies_ = 0;
  Bytes resident_bytes_ = 0;
  Bytes clean_bytes_ = 0;
  Bytes prefetched_bytes_ = 0;
  Bytes asleep_bytes_ = 0;
  std::uint64_t preparation_ = 0;  // blocks with held == preparation_ belong to the operation being prepared
  VictimOrder* victim_order_ = nullptr;
  VictimOrder* spill_order_ = nullptr;
  // The unit that is being fetched: its host copy stays.
  const EvictionUnit* needed_on_host_ = nullptr;
  bool waits_for_file_ = false;                            // whoever asks for room may wait for the disk
  std::uint64_t nothing_to_spill_at_ = ~std::uint64_t{0};  // so many evictions
  LiveRangeLog* log_ = nullptr;
  bool gives_up_at_once_ = false;
  // Of what is going on: why room is made, and why something is fetched. Whoever begins either says so first.
  EvictReason makes_room_for_ = EvictReason::kPressure;
  FetchReason fetches_for_ = FetchReason::kAccessed;
  ResidencyStatistics statistics_;
};

}  // namespace thermocline
