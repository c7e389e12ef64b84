// SPDX-License-Identifier: Apache-2.0
// Decides which eviction units are on the device, and which are evicted to make room.
//
// Strict: the pages of a live block are reused only after all submitted work that may use them has completed, and the
// contents are on the host (or were never defined). Trusting: pages are reused as soon as the copy out has been
// submitted, by work that is ordered after that copy on the device. The host then does not wait, and the block's
// addresses still map to another block's pages until the block is fetched, or the mapping is removed. So an access that
// the engine was not told of reads, or overwrites, another block's bytes.
//
// Reclaim: the sources of pages, cheapest first (make_room):
//   1. free pages, new pages under the limit, free mapped space; work that may still use these is waited for on the
//      device;
//   2. clean units whose uses have completed, oldest first: no copy and no wait. Trusting: after these, units whose
//      copy out has been submitted;
//   3. wait for the copy out that began first.
//      2 and 3 are done first for the units that the plan has chosen for eviction; then for others, which the plan
//      expects to stay; then for prefetched units: the plan's timing then includes a wait, but no second fetch;
//   4. take pages from units that have only some of their pages, and no contents in them yet;
//   5. wait for free space, if the driver refused what step 1 needs;
//   6. begin to copy out the oldest idle units, as many as needed;
//   7. out of memory.
#pragma once

#include <algorithm>
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
#include "offload/residency/dirty_units.h"
#include "offload/residency/migration.h"
#include "offload/residency/victim_order.h"
#include "offload/sleep.h"

namespace thermocline {

struct ResidencyOptions {
  bool may_evict = true;
  const std::atomic<bool>* evict_no_more = nullptr;  // EngineOptions
  bool trusting = false;
  Bytes min_offload_bytes = 0;
  bool compares_copies = false;  // with digests (clean_drop.cc)
  MovementObserver* observer = nullptr;
};

struct ResidencyStatistics {
  std::uint64_t evictions = 0, restores = 0;            // of units
  std::uint64_t prefetches = 0, wasted_prefetches = 0;  // of units; wasted: evicted without an access
  // Pages taken from units to make room; and the part of these whose contents write-behind had copied out before.
  Bytes given_up_bytes = 0, written_behind_bytes = 0;
  // Units found unchanged, or changed, since their copy out, as far as known; bytes not copied out because of that.
  std::uint64_t unchanged = 0, changed = 0;
  Bytes uncopied_bytes = 0;
  // Host copies made by uploads; those that were given up before they had saved a copy out.
  std::uint64_t upload_copies = 0, useless_upload_copies = 0;
  Bytes upload_copy_bytes = 0;
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
  const BlockState& state_of(const Block& block) const { return *by_index_.data()[block.index()]; }

  // A buffer has been handed out: the next access of its block waits for earlier users of its memory.
  void adopt(const Buffer& buffer);
  // adopt() for a block that has other buffers.
  void adopt_beside_others(const Buffer& buffer) { state_of(buffer.block()).former.join(buffer.former); }
  // adopt_beside_others() for what waits for `former`, if no function has to be called (use_set.h); else false.
  bool adopt_at_once(const Block& block, const UseSet& former) {
    if (former.empty()) return true;
    UseSet& all = state_of(block).former;
    if (!all.can_join_at_once(former)) return false;
    all.join_at_once(former);
    return true;
  }
  // Whether neither host nor spill file has contents of the block.
  bool has_no_copy(const Block& block) const {
    return std::ranges::all_of(state_of(block).parts(),
                               [](const EvictionUnit& unit) { return unit.copy == HostCopy::kNone; });
  }
  // The last owner of the block's pages is about to go: drops its host copy; its uses remain with the memory.
  void forget(Block& block);

  // The buffer has been freed and gets, or will get, a new owner: like forget and adopt, but the memory stays with it.
  void succeed(Buffer& buffer);

  // Gives pages to all these blocks, with their contents if these are defined. Evicts other blocks, but none of these.
  // On out_of_memory some of them may have got pages already; no contents are lost. If the operation names ranges, only
  // the units that it wants get pages; those that it overwrites are hollow then.
  Status make_resident(std::span<BlockState* const> blocks, FetchReason reason = FetchReason::kAccessed) {
    return hold(blocks, reason) ? Status() : make_absent_resident(blocks);
  }
  // The first step of make_resident(): none of these blocks is evicted before the next call. True: everything that the
  // operation wants is resident, and make_resident() would do nothing more.
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
  // hold() in two steps if the caller knows that all of them are resident: begins to hold others, then holds each.
  void hold_others() {
    ++preparation_;
    makes_room_for_ = EvictReason::kPressure;
    fetches_for_ = FetchReason::kAccessed;
  }
  void hold_resident(BlockState& state) { state.held = preparation_; }
  // Makes all units of one block resident.
  Status make_whole_resident(BlockState& state, FetchReason reason);
  // The operation that accessed the block, number `operation`, has been submitted.
  void accessed(BlockState& state, std::uint64_t operation) {
    state.operation = operation;
    if (state.count == 1 && state.whole && log_ == nullptr && is_plain(state.one)) [[likely]] {
      dirty_.access(state.one);
    } else {
      accessed_in_units(state);
    }
  }
  // Unseen work may have written to all of the block while it was pinned.
  void written_unseen(BlockState& state);

  // Makes room for mappings of the program's own: evicts until the heap fits into `new_limit`.
  Status make_room_for_limit(Bytes new_limit);

  // Fetches a unit into free pages only; false if there are none without waiting or evicting.
  bool prefetch(EvictionUnit& unit);

  // Sets the order in which victims are chosen; null: least recently accessed first. `spill`: the same for host copies
  // that go to the spill file.
  void evict_in(VictimOrder* order, VictimOrder* spill = nullptr) {
    victim_order_ = order;
    spill_order_ = spill;
  }
  // With a spill file: writes host copies to it while host memory fills up. Does not wait.
  void spill_behind();
  // Drops host copies that nothing needs: stale ones, and those of units that stay on the device.
  void drop_spare_copies();
  // With a spill file: moves host copies there until no more than `most` bytes of host memory are in use. not_ready:
  // the caller has to wait without the engine's lock. out_of_memory: what is left cannot go there.
  Status leave_host(Bytes most);

  // Submits the copy out of the oldest idle dirty unit; false if none is worth it.
  bool write_behind();
  // Upload copies (upload_copies.cc). Whether an upload that fills the unit should leave its contents on the host, too.
  bool wants_upload_copy(const EvictionUnit& unit) const;
  // An upload has been submitted that fills the unit from `host`, whose first `bytes` have the contents at once, or behind
  // `use`, the upload; what is behind them in the unit has been undefined. The unit is then clean.
  void keep_upload(EvictionUnit& unit, void* host, Bytes bytes, Use use, bool at_once);
  // Makes, or begins to make, a host copy of a unit that the coming operation does not need on the device.
  // out_of_memory: there is no host memory for it.
  Status make_host_copy(EvictionUnit& unit);
  // Planned or requested: copies out the first `units` units of the block now; they are evicted first when room is
  // needed.
  void begin_evictions(BlockState& state, std::size_t units, EvictReason reason);
  // Units that the plan has chosen for eviction, and that are still there, become ordinary clean units.
  void plan_ended();
  // Drops the block's contents, which can be recomputed. Its pages are free at once, after its uses on the device.
  void drop_contents(BlockState& state);
  // Planned or requested: the block is needed soon. True: it is on the device, or on its way. False: there is no room
  // yet. `may_wait`: the host may wait until nobody uses the block's addresses any more (trusting); if it may not, that
  // case returns false, too.
  bool prefetch(BlockState& state, bool may_wait, FetchReason reason);

  // Sleep (sleep.cc), in steps: the caller releases the lock, waits for `in_flight`, and repeats while `goes_on`.
  struct Step {
    bool goes_on = false;          // something was begun, or is in progress
    std::optional<Use> in_flight;  // the copy that was begun first
    std::optional<Use> newest;     // for waking: the copy that was begun last
    EvictionUnit* busy = nullptr;  // used by work in flight; valid until the lock is released
    bool is_busy = false;          // work in flight prevents some evictions, of `busy` or of all
    bool no_host = false;          // some unit found no host memory
    bool no_room = false;          // for waking: some unit found no free pages
    Status status;                 // the driver's error, if it refused something
  };
  // Evicts what can be evicted now and begins to copy out more; not what operations after `since` accessed. Unless it
  // `waits`, it begins no copy behind one begun for another purpose, which may be behind a never-ending kernel.
  Step sleep_more(const SleepScope& scope, bool waits);
  // With a full host fallback: evicts everything that can be evicted, in one go, while nothing runs.
  Status sleep_at_rest();
  // Begins to fetch sleeping units, into free pages only.
  Step wake_more(std::uint64_t tag);
  // Bytes that have stayed on the device, by reason; `no_host`: from the last step.
  struct Staying {
    Bytes pinned = 0, in_use = 0, no_host = 0, untagged = 0;
  };
  Staying staying(const SleepScope& scope, bool no_host);
  Bytes asleep_bytes() const { return asleep_bytes_; }
  // The part of these bytes that has the tag (0: any).
  Bytes asleep_bytes_of(std::uint64_t tag) const;

  // Nothing is evicted any more, although the policy may evict.
  bool has_stopped() const {
    return options_.evict_no_more != nullptr && options_.evict_no_more->load(std::memory_order_relaxed);
  }
  bool is_trusting() const { return trusting_; }
  // Whether digests are taken, so that buffers may be found unchanged (BlockState::was_found_unchanged).
  bool takes_digests() const { return options_.compares_copies && digests_.on(); }
  // False: no digest has been taken yet, so no buffer was found unchanged.
  bool has_taken_digests() const { return digests_.statistics().taken > 0; }
  // Strict: all accesses are known for a while, and pages are reused as if trusting.
  void trust() { trusting_ = true; }
  // Ends trust(): from now on some accesses are unknown. No address maps to another block's pages any more; evicted
  // contents are on the host. Waits for work that may use those addresses; on failure still trusts.
  Status distrust();
  // Trusting: evicted units give up their pages at once, not when somebody asks for them. If nobody has taken the pages
  // by the time the unit is fetched, its contents are still in them.
  void give_up_at_once(bool does);
  // Reports all units that have pages, and from now on every change, to the log; null: to none.
  void watch(LiveRangeLog* log);

  bool any_nonresident() const { return !evicted_.empty(); }
  // Evictions for sleep do not count, because they do not show how much memory the program needs.
  bool has_evicted_for_room() const { return statistics_.given_up_bytes > 0; }
  // The unit evicted last of those that may be fetched ahead of need; null: there is none.
  EvictionUnit* youngest_evicted();
  // Pageable memory is not read before something waits for it.
  static bool may_fetch(const EvictionUnit& unit, FetchReason reason);
  Bytes resident_bytes() const { return resident_bytes_; }  // pages of completely resident units of live blocks
  Bytes clean_bytes() const { return clean_bytes_; }        // of these: with a current host copy, or one in progress
  // The part of the resident bytes that was fetched for a use that has not come yet.
  Bytes prefetched_bytes() const { return prefetched_bytes_; }
  const ResidencyStatistics& statistics() const { return statistics_; }

  // Counts the outcomes known by now of copies out that depended on a change: changed, or not. Never blocks.
  void count_outcomes();

  // Frees every host copy. Only allowed if nothing will be fetched any more.
  void release_host_copies();

  void validate() const;

 private:
  // Clean units, in the order in which they are evicted: those that the plan has chosen; others, which the plan expects
  // to stay; those that were fetched for a future use.
  enum class Victims : std::uint8_t { kPlanned, kOthers, kPrefetched };
  static Victims victims_of(const EvictionUnit& unit);
  bool is_evictable(const EvictionUnit& unit) const;
  static bool is_pinned(const EvictionUnit& unit) { return unit.whole->pins > 0 || unit.pins > 0; }
  bool may_sleep(const EvictionUnit& unit, const SleepScope& scope) const;
  void set_asleep(EvictionUnit& unit, bool asleep);
  // Whether a copy out is in flight that was not begun for sleep.
  bool evicts_for_others();
  void drop_for_sleep(const SleepScope& scope, Step* step);
  void unmap_partial();
  void copy_for_sleep(const SleepScope& scope, Step* step);
  std::vector<EvictionUnit*> next_to_wake(std::uint64_t tag);
  // Whether the operation in preparation wants the unit.
  bool is_held(const EvictionUnit& unit) const { return unit.whole->held == preparation_ && unit.whole->wants(unit); }
  // Whether an access changes only the unit's position in its list.
  static bool is_plain(const EvictionUnit& unit) {
    return unit.state == ResidencyState::kDirty && unit.defined && !unit.has_been_moved();
  }
  void accessed_in_units(BlockState& state);
  void set_prefetched(EvictionUnit& unit, bool prefetched);
  void note_use(EvictionUnit& unit);
  static void set_hollow(EvictionUnit& unit, bool hollow);
  // Returns not_ready instead of out_of_memory if streams were blocked (units that they use can be evicted when they
  // continue), or if something was put off until the engine's lock is free.
  Status not_ready_if_put_off(Status status, bool blocked);
  void divide(BlockState& state);
  void set_state(EvictionUnit& unit, ResidencyState state);
  void change_state(EvictionUnit& unit, ResidencyState state);  // set_state() without a call
  void leave_list(EvictionUnit& unit);
  void enter_list(EvictionUnit& unit, ResidencyState state);
  void log_change(const EvictionUnit& unit, ResidencyState state);
  // True once nobody uses the unit's pages.
  bool idle(const EvictionUnit& unit) { return clock_.passed(unit.whole->block->uses) && clock_.passed(unit.uses); }
  Status await(const EvictionUnit& unit);
  Status restore(EvictionUnit& unit, bool untouched, bool overwritten);
  // Copies out a unit that is chosen for eviction for that reason.
  Status copy_out(EvictionUnit& unit, EvictReason reason);
  Status copy_in(EvictionUnit& unit);
  void count_eviction(EvictionUnit& unit);
  MovedUnit moved_unit(const EvictionUnit& unit, Bytes bytes) const;
  // While one lives, the caller may wait for a write to the spill file that frees host memory.
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
  // Under a full host fallback, work that was begun is finished in place. come_to_rest() abandons copies out. So an
  // operation that waited for such a copy and started again would find it gone, and begin the same copy for ever.
  struct InOneGo {
    InOneGo(const HostMappings& host_mappings, StreamClock& clock) {
      if (!host_mappings.full()) return;
      none.emplace(clock, false);
      in_place.emplace();
    }
    std::optional<StreamClock::Deferring> none;
    std::optional<WaitsInPlace> in_place;
  };
  // With a full host fallback: waits until nothing runs that could access what is about to be evicted or fetched, and
  // abandons all earlier copies out.
  Status come_to_rest();
  Status wait_for_users(std::span<BlockState* const> blocks);
  Status make_absent_resident(std::span<BlockState* const> blocks);
  Status make_each_resident(std::span<BlockState* const> blocks);
  Status shrink_to(Bytes new_limit);
  // Maps the block's evicted units to the host, whether or not they have contents.
  void map_new_to_host(BlockState& state);
  bool map_whole(BlockState& state);
  Status make_room(EvictionUnit& unit, bool* untouched);
  // The unit there, or the first of those that it stands for; `at` is then behind it. Who goes through a list cuts no
  // block in another way, because that takes the unit at hand out of it.
  static EvictionUnit& next_cut(UnitList& list, UnitList::iterator* at);
  // Calls visit(unit) for the dirty or clean units, oldest first or in the policy's order, until it returns false.
  // May move the unit to another list.
  template <class Visit>
  void for_each_victim(UnitList& list, Visit visit);
  // Steps 2 to 4 of the list above, then 6 unless `enough_pending`. `progress`: set if a step made room, or began to.
  Status reclaim(Bytes missing, bool enough_pending, bool* progress);
  bool evict_clean(Bytes missing, Victims victims);
  Bytes give_up_leaving(Bytes missing, std::optional<Victims> victims = {});
  Status drop_first_leaving(Victims victims, bool* progress);
  Status drop_partial(bool* progress);
  Status start_copies(Bytes missing, bool* progress);
  // Clean drop (clean_drop.cc).
  bool takes_digests(const EvictionUnit& unit) const;
  void take_digest_of_copy(EvictionUnit& unit);
  // An operation that may write to the unit has been submitted.
  void may_have_changed(EvictionUnit& unit);
  // Begins to evict a dirty unit by copying it out, or by copying it out if a digest shows that it has changed. The
  // unit is then clean.
  Status begin_eviction(EvictionUnit& unit, EvictReason reason);
  bool copy_out_if_changed(EvictionUnit& unit, EvictReason reason);
  void learn_outcome(Evidence& evidence);
  void release_digest(EvictionUnit& unit);
  void drop_host_copy(EvictionUnit& unit) {
    if (unit.copy != HostCopy::kNone || unit.evidence.copied.state != TakenDigest::State::kNone || unit.evidence.proven)
        [[unlikely]]
      drop_copy_and_digest(unit);
  }
  void drop_copy_and_digest(EvictionUnit& unit);
  // Drops the oldest stale copy to free its host memory; false: there is none.
  bool drop_a_stale_copy();
  // Spill (spilling.cc).
  void sort_for_spill(std::vector<EvictionUnit*>* units) const;
  bool is_needed_on_host(const EvictionUnit& unit) const;
  Bytes free_host_of_written(Bytes bytes);
  // Drops the copy of a unit that need not be evicted: a copy in the file (`in_file`), or one only on the host.
  bool drop_copies_of_resident(bool in_file);
  // Writes, farthest next use first, until `bytes` or `most` copies are being written.
  bool begin_spilling(Bytes bytes, std::size_t most);
  bool begin_spilling_of(UnitList& list, Bytes bytes, std::size_t most);
  bool may_spill(const EvictionUnit& unit) const;
  bool await_what_may_spill();
  bool forget_failed_writes();
  bool fetch_one();
  // `reads`: room for contents to be read from the file; else for evictions, and then nothing is read back meanwhile.
  bool make_host_room(Bytes bytes, bool reads);
  // make_host_room() after a failed allocation; false if lack of host memory was not the only reason.
  bool make_host_room_again(Bytes bytes, bool reads);
  bool begin_to_read(EvictionUnit& unit, bool makes_room);
  void begin_to_read_wanted(BlockState& state);
  // The operation in preparation needs the contents: reads them to the host if they are in the file. not_ready: the
  // caller has to wait for the read without the lock. operating_system: the read failed.
  Status read_to_host(EvictionUnit& unit);
  bool is_on_host(EvictionUnit& unit);
  // prefetch() in the case that the host may have to wait until the unit's addresses are unused (trusting).
  bool fetch(EvictionUnit& unit);
  // Whether nobody has the unit's pages, and nobody uses its addresses.
  bool is_free_to_come(const EvictionUnit& unit);
  bool evict_unit(EvictionUnit& unit);
  // Trusting: the unit loses its pages although its uses, and its copy out, may not have completed.
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
  std::vector<BlockState*> by_index_;  // states_ by Block::index(): every operation and allocation reads it
  DirtyUnits dirty_;
  UnitList clean_, evicted_;
  struct Compared {
    MovedUnit unit;
    EvictReason reason;
  };
  std::deque<Compared> compared_;  // with unknown outcome, in order of submission
  // Since a unit was last found unchanged: copies made although they had a digest; later copies that got none.
  std::uint64_t useless_digests_ = 0, undigested_copies_ = 0;
  Bytes resident_bytes_ = 0;
  Bytes clean_bytes_ = 0;
  Bytes prefetched_bytes_ = 0;
  Bytes asleep_bytes_ = 0;
  std::uint64_t preparation_ = 0;  // blocks with held == preparation_ belong to the operation being prepared
  VictimOrder* victim_order_ = nullptr;
  VictimOrder* spill_order_ = nullptr;
  // The unit that is being fetched: its host copy must stay.
  const EvictionUnit* needed_on_host_ = nullptr;
  bool waits_for_file_ = false;                            // the caller may wait for the disk
  std::uint64_t nothing_to_spill_at_ = ~std::uint64_t{0};  // the number of evictions at that time
  LiveRangeLog* log_ = nullptr;
  bool gives_up_at_once_ = false;
  // Reasons for the work in progress: why room is made, and why something is fetched. Set before either begins.
  EvictReason makes_room_for_ = EvictReason::kPressure;
  FetchReason fetches_for_ = FetchReason::kAccessed;
  ResidencyStatistics statistics_;
};

}  // namespace thermocline
