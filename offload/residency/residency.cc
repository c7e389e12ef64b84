// SPDX-License-Identifier: Apache-2.0
#include "offload/residency/residency.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "driver/check.h"
#include "driver/locks.h"
#include "offload/residency/unit_size.h"

namespace thermocline {
namespace {

// Most blocks have all their pages, or none.
bool has_all_pages(const Block& block, PageRange range) {
  if (block.mapped() || block.mapped_pages() == 0) return block.mapped();
  const auto pages = block.page_handles().subspan(range.first, range.count);
  return std::find(pages.begin(), pages.end(), PageHandle{}) == pages.end();
}

}  // namespace

// Moves the unit to the end of a list, and keeps the sums that depend on lists.
[[gnu::always_inline]] inline void Residency::change_state(EvictionUnit& unit, ResidencyState state) {
  if (log_ != nullptr) [[unlikely]]
    log_change(unit, state);
  leave_list(unit);
  enter_list(unit, state);
}

[[gnu::always_inline]] inline void Residency::leave_list(EvictionUnit& unit) {
  switch (unit.state) {
    case ResidencyState::kUnmapped:
      break;
    case ResidencyState::kDirty:
      dirty_.remove(unit);
      break;
    case ResidencyState::kClean:
      clean_.erase(clean_.iterator_to(unit));
      clean_bytes_ -= unit.bytes();
      break;
    case ResidencyState::kEvicted:
      evicted_.erase(evicted_.iterator_to(unit));
      --unit.whole->nonresident_units;
      break;
  }
}

[[gnu::always_inline]] inline void Residency::enter_list(EvictionUnit& unit, ResidencyState state) {
  unit.state = state;
  switch (state) {
    case ResidencyState::kUnmapped:
      break;
    case ResidencyState::kDirty:
      dirty_.add(unit);
      break;
    case ResidencyState::kClean:
      clean_.push_back(unit);
      clean_bytes_ += unit.bytes();
      break;
    case ResidencyState::kEvicted:
      unit.whole->dropped ? evicted_.push_front(unit) : evicted_.push_back(unit);  // last to be fetched
      ++unit.whole->nonresident_units;
      break;
  }
}

void Residency::set_state(EvictionUnit& unit, ResidencyState state) { change_state(unit, state); }

// Gives the block its units; each goes to the list that its pages determine.
inline void Residency::divide(BlockState& state) {
  const Block& block = *state.block;
  const std::size_t number = state.number_of_units();
  if (block.mapped() && log_ == nullptr && !host_mappings_.full()) [[likely]] {
    if (number > 1) state.uncut = &dirty_;
    state.count = 1;
    state.one.whole = &state;
    state.one.range = {0, block.pages()};
    resident_bytes_ += block.bytes();
    return enter_list(state.one, ResidencyState::kDirty);
  }
  state.set_count(number);
  state.place_units();
  for (EvictionUnit& unit : state.parts()) {
    const bool mapped = has_all_pages(block, unit.range);
    if (mapped) resident_bytes_ += unit.bytes();
    change_state(unit, mapped ? ResidencyState::kDirty : ResidencyState::kEvicted);
  }
}

void Residency::adopt(const Buffer& buffer) {
  Block& block = buffer.block();
  while (by_index_.size() <= block.index()) by_index_.push_back(&states_.emplace_back());
  BlockState& state = state_of(block);
  if (state.block == nullptr) {
    state.block = &block;
    state.wait_for = block.uses;
    divide(state);
    if (host_mappings_.full()) map_new_to_host(state);
  }
  THERMOCLINE_CHECK(state.block == &block, "an index names one live block");
  // The uses of a block include all that its only buffer waits for.
  if (block.is_slab()) state.former.join(buffer.former);
}

// Units of one block have nearly equal sizes.
void BlockState::place_units() {
  std::uint64_t first = 0, i = 0;
  for (EvictionUnit& unit : parts()) {
    const std::uint64_t end = ++i == count ? block->pages() : block->pages() * i / count;
    unit.whole = this;
    unit.range = {first, end - first};
    first = end;
  }
}

void BlockState::cut() {
  set_count(number_of_units());
  DirtyUnits& dirty = *std::exchange(uncut, nullptr);
  place_units();
  for (EvictionUnit& unit : parts()) {
    unit.state = one.state;
    unit.defined = one.defined;
    unit.uses = one.uses;
  }
  dirty.replace(one, parts());
  one.state = ResidencyState::kUnmapped;
  one.reset();
}

EvictionUnit& Residency::next_cut(UnitList& list, UnitList::iterator* at) {
  EvictionUnit* unit = &**at;
  if (unit->whole->uncut != nullptr) unit = &unit->whole->units().front();
  *at = std::next(list.iterator_to(*unit));
  return *unit;
}

void Residency::forget(Block& block) {
  BlockState& state = state_of(block);
  for (EvictionUnit& unit : state.parts()) {
    if (unit.prefetched) set_prefetched(unit, false);
    if (unit.asleep) set_asleep(unit, false);
    drop_host_copy(unit);
    if (unit.mapped()) resident_bytes_ -= unit.bytes();
    if (log_ != nullptr) [[unlikely]]
      log_change(unit, ResidencyState::kUnmapped);
    leave_list(unit);
    unit.state = ResidencyState::kUnmapped;
    block.uses.join(unit.uses);
    unit.reset();
  }
  state.reset();
}

void Residency::succeed(Buffer& buffer) {
  const Block& block = buffer.block();
  BlockState& state = state_of(block);
  // The uses that are there belong to another page owner, or to the next owner's stream.
  if (block.is_slab()) {
    clock_.join_without_blocking(block.uses, &buffer.former);
    state.former.join(buffer.former);
    return;
  }
  clock_.join_without_blocking(block.uses, &state.wait_for);
  state.tag = 0;
  for (EvictionUnit& unit : state.parts()) {
    state.wait_for.join(unit.uses);
    set_prefetched(unit, false);
    set_asleep(unit, false);
    unit.defined = false;
    unit.evict_reason.reset();
    set_hollow(unit, false);
    drop_host_copy(unit);
    unit.evidence = {};
    unit.is_input = false;
    set_state(unit, unit.mapped() ? ResidencyState::kDirty : ResidencyState::kEvicted);
  }
}

// Unseen writes count as contents, from the first unseen access on. If there is no host memory, contents begin with the
// first access that is seen.
void Residency::map_new_to_host(BlockState& state) {
  bool all = true;
  for (EvictionUnit& unit : state.units()) {
    if (unit.mapped() || unit.mapped_to_host) continue;
    // Pages that it lies over are given up: all of it maps to one place.
    all &= heap_.unmap(*state.block, unit.range).ok() && migration_.set_aside(unit);
    if (unit.host != nullptr) host_mappings_.map_to_host(unit);
  }
  for (EvictionUnit& unit : state.units()) unit.defined = all;
}

void Residency::set_hollow(EvictionUnit& unit, bool hollow) {
  if (unit.hollow == hollow) return;
  unit.hollow = hollow;
  unit.whole->hollow_units += hollow ? 1 : -1;
}

void Residency::set_prefetched(EvictionUnit& unit, bool prefetched) {
  if (unit.prefetched == prefetched) return;
  unit.prefetched = prefetched;
  unit.fetched_ahead = false;
  prefetched_bytes_ += prefetched ? unit.bytes() : -unit.bytes();
}

// Waits with the lock held: while other threads go on submitting, a wait for everything submitted would never end.
Status Residency::come_to_rest() {
  const WaitsInPlace others_submit;
  const StreamClock::Deferring none(clock_, false);
  if (Status status = clock_.synchronize(clock_.newest()); !status.ok()) return status;
  while (!clean_.empty()) {
    EvictionUnit& unit = clean_.front();
    unit.evict_reason.reset();
    drop_host_copy(unit);
    set_state(unit, ResidencyState::kDirty);
  }
  return {};
}

Status Residency::wait_for_users(std::span<BlockState* const> blocks) {
  const WaitsInPlace others_submit;
  const StreamClock::Deferring none(clock_, false);
  for (BlockState* state : blocks) {
    for (EvictionUnit& unit : state->units()) {
      if (Status status = clock_.synchronize(unit.uses); !status.ok()) return status;
    }
  }
  return come_to_rest();
}

// The blocks are held, and some are not resident.
Status Residency::make_absent_resident(std::span<BlockState* const> blocks) {
  Bytes wanted = 0;
  for (const BlockState* state : blocks) wanted += state->wanted_bytes();
  // Nothing is evicted for an operation that can never fit.
  if (wanted > heap_.limit()) return Status::out_of_memory();
  const WaitsForFile waits_for_file(*this);
  const InOneGo in_one_go(host_mappings_, clock_);
  if (host_mappings_.full()) {
    if (Status status = come_to_rest(); !status.ok()) return status;
  }
  const bool blocked = clock_.any_blocked();
  Status status = not_ready_if_put_off(make_each_resident(blocks), blocked);
  // Also waits for blocks before the one for which there was no room.
  if (Status waited = host_mappings_.full() ? wait_for_users(blocks) : Status(); status.ok()) status = waited;
  return status;
}

Status Residency::make_each_resident(std::span<BlockState* const> blocks) {
  if (migration_.files() != nullptr) {
    for (BlockState* state : blocks) begin_to_read_wanted(*state);
  }
  for (BlockState* state : blocks) {
    if (state->has_wanted() || map_whole(*state)) continue;
    for (EvictionUnit& unit : state->units()) {
      if (!state->wants(unit) || (unit.mapped() && (!unit.hollow || state->overwrites(unit)))) continue;
      if (!state->overwrites(unit)) {
        if (Status status = read_to_host(unit); !status.ok()) return status;
      }
      if (unit.mapped()) {
        if (Status status = copy_in(unit); !status.ok()) return status;
        continue;
      }
      bool untouched = false;
      if (Status status = make_room(unit, &untouched); !status.ok()) return status;
      if (Status status = restore(unit, untouched, state->overwrites(unit)); !status.ok()) return status;
    }
  }
  return {};
}

Status Residency::make_whole_resident(BlockState& state, FetchReason reason) {
  state.whole = true;
  BlockState* const one = &state;
  return make_resident({&one, 1}, reason);
}

// A new block gets its pages in one go, if there are enough.
bool Residency::map_whole(BlockState& state) {
  if (state.nonresident_units != state.count) return false;
  for (const EvictionUnit& unit : state.units()) {
    if (unit.defined || unit.copy != HostCopy::kNone || !state.wants(unit)) return false;
  }
  Block& block = *state.block;
  const bool mapped = heap_.map(block, Wait::kBehindNewest).ok();
  // If mapping fails and the driver does not undo it, pages stay: of this attempt (block.uses) or of one before (a
  // unit's). The next attempt finds them there.
  state.wait_for.join(block.uses);
  for (const EvictionUnit& unit : state.units()) state.wait_for.join(unit.uses);
  if (!mapped) return false;
  for (EvictionUnit& unit : state.units()) {
    resident_bytes_ += unit.bytes();
    set_state(unit, ResidencyState::kDirty);
  }
  return true;
}

// Restores a unit that has just got its pages. It stays evicted, with pages, if its contents cannot be copied: the next
// access tries again. `untouched`: it has got its own pages back before anybody else had them, with their contents.
Status Residency::restore(EvictionUnit& unit, bool untouched, bool overwritten) {
  unit.whole->wait_for.join(unit.uses);
  unit.evict_reason.reset();
  // Unseen work may have written to the copy.
  if (unit.mapped_to_host) release_digest(unit);
  host_mappings_.mapped_to_pages(unit);
  if (unit.copy != HostCopy::kNone && (!untouched || unit.hollow)) {
    if (overwritten) {
      set_hollow(unit, true);
    } else if (Status status = copy_in(unit); !status.ok()) {
      return status;
    }
  }
  resident_bytes_ += unit.bytes();
  set_asleep(unit, false);
  set_state(unit, unit.has_copy() ? ResidencyState::kClean : ResidencyState::kDirty);
  return {};
}

void Residency::note_use(EvictionUnit& unit) {
  if (log_ != nullptr && unit.prefetched) log_->changed(LiveRangeChange::Kind::kUses, *unit.whole->block, unit.range);
  set_prefetched(unit, false);
}

void Residency::accessed_in_units(BlockState& state) {
  for (EvictionUnit& unit : state.parts()) {
    if (!state.wants(unit)) continue;
    if (log_ == nullptr && is_plain(unit)) {
      dirty_.access(unit);
      continue;
    }
    unit.defined = true;
    unit.evict_reason.reset();
    set_hollow(unit, false);
    note_use(unit);
    if (state.writes(unit)) may_have_changed(unit);
    set_state(unit, unit.has_copy() ? ResidencyState::kClean : ResidencyState::kDirty);
  }
}

void Residency::written_unseen(BlockState& state) {
  for (EvictionUnit& unit : state.parts()) {
    if (!unit.mapped()) continue;
    unit.defined = true;
    unit.evict_reason.reset();
    note_use(unit);
    may_have_changed(unit);
    set_state(unit, unit.has_copy() ? ResidencyState::kClean : ResidencyState::kDirty);
  }
}

bool Residency::prefetch(EvictionUnit& unit) {
  fetches_for_ = FetchReason::kPredicted;
  return !unit.whole->dropped && is_free_to_come(unit) && fetch(unit);
}

void Residency::give_up_at_once(bool does) {
  const bool did = std::exchange(gives_up_at_once_, does && trusting_);
  if (did || !gives_up_at_once_) return;
  ++preparation_;
  makes_room_for_ = EvictReason::kPlanned;
  give_up_leaving(~Bytes{0});
}

bool Residency::is_free_to_come(const EvictionUnit& unit) {
  const Block& block = *unit.whole->block;
  return heap_.homes_at_hand(block, unit.range, true) && heap_.can_map_without_waiting(block, unit.range);
}

EvictionUnit* Residency::youngest_evicted() {
  const auto youngest = std::find_if(evicted_.rbegin(), evicted_.rend(),
                                     [](const EvictionUnit& unit) { return may_fetch(unit, FetchReason::kPredicted); });
  return youngest == evicted_.rend() ? nullptr : &*youngest;
}

// The host would wait for it.
bool Residency::may_fetch(const EvictionUnit& unit, FetchReason reason) {
  const bool is_ahead =
      reason == FetchReason::kPredicted || reason == FetchReason::kPlanned || reason == FetchReason::kRequested;
  return !unit.is_pageable || !is_ahead;
}

bool Residency::fetch(EvictionUnit& unit) {
  if (!may_fetch(unit, fetches_for_)) return false;
  if (!is_on_host(unit)) return false;
  bool untouched = false;
  if (!heap_.map(*unit.whole->block, unit.range, Wait::kBehind, &unit.uses, &untouched).ok()) return false;
  const bool returns = unit.copy != HostCopy::kNone;
  if (!restore(unit, untouched, false).ok()) return false;
  set_prefetched(unit, returns);
  unit.fetched_ahead = returns;
  if (returns) ++statistics_.prefetches;
  return true;
}

// Undefined contents are as good as any others.
Status Residency::make_host_copy(EvictionUnit& unit) {
  if (unit.hollow || unit.has_copy()) return {};
  if (!unit.mapped() && !migration_.set_aside(unit)) return Status::out_of_memory();
  unit.defined = true;
  return unit.mapped() ? begin_eviction(unit, EvictReason::kPressure) : Status();
}

void Residency::begin_evictions(BlockState& state, std::size_t units, EvictReason reason) {
  if (has_stopped()) return;
  if (state.pins > 0 || clock_.is_blocked(state.block->uses)) return;
  const std::span<EvictionUnit> all = state.units();
  for (EvictionUnit& unit : all.first(std::min(units, all.size()))) {
    if (!unit.mapped() || !unit.defined || unit.pins > 0) continue;
    set_prefetched(unit, false);
    if (!unit.has_copy() && !begin_eviction(unit, reason).ok()) return;
    unit.evict_reason = reason;
    set_state(unit, ResidencyState::kClean);
    if (gives_up_at_once_) give_up(unit);
  }
}

void Residency::plan_ended() {
  for (EvictionUnit& unit : clean_) {
    if (unit.evict_reason && is_chosen(*unit.evict_reason)) unit.evict_reason.reset();
  }
}

bool Residency::prefetch(BlockState& state, bool may_wait, FetchReason reason) {
  if (state.dropped) return true;
  fetches_for_ = reason;
  makes_room_for_ = reason == FetchReason::kPlanned ? EvictReason::kPlanned : EvictReason::kRequested;
  for (EvictionUnit& unit : state.units()) {
    if (!unit.mapped() && !may_fetch(unit, reason)) continue;
    if (unit.mapped()) {
      set_prefetched(unit, true);
      unit.evict_reason.reset();
      set_state(unit, unit.state);
    } else if (!may_wait && !is_free_to_come(unit)) {
      return false;
    } else if (!fetch(unit)) {
      // Units that are evicted by now give their room to the fetched ones.
      const bool planned = reason == FetchReason::kPlanned;
      if (!evict_clean(unit.bytes(), Victims::kPlanned) && (planned || !evict_clean(unit.bytes(), Victims::kOthers)))
        return false;
      if (!fetch(unit)) return false;
    }
  }
  return true;
}

Status Residency::make_room_for_limit(Bytes new_limit) {
  ++preparation_;
  makes_room_for_ = EvictReason::kLimitLowered;
  const WaitsForFile waits_for_file(*this);
  const InOneGo in_one_go(host_mappings_, clock_);
  const bool blocked = clock_.any_blocked();
  if (!host_mappings_.full()) return not_ready_if_put_off(shrink_to(new_limit), blocked);
  if (Status status = come_to_rest(); !status.ok()) return status;
  Status status = not_ready_if_put_off(shrink_to(new_limit), blocked);
  // Ends copies out that were begun and are not needed after all.
  if (Status waited = come_to_rest(); status.ok()) status = waited;
  return status;
}

Status Residency::shrink_to(Bytes new_limit) {
  for (;;) {
    Status status = heap_.set_limit(new_limit, Wait::kYes);
    if (!status.is_out_of_memory()) return status;
    bool progress = false;
    const Bytes created = heap_.created_bytes();
    status = reclaim(created > new_limit ? created - new_limit : heap_.page_bytes(), false, &progress);
    if (!status.ok()) return status;
    if (!progress) return Status::out_of_memory();
  }
}

void Residency::release_host_copies() {
  for (BlockState& state : states_) {
    if (state.block == nullptr) continue;
    for (EvictionUnit& unit : state.parts()) drop_host_copy(unit);
  }
  migration_.drain();
}

bool Residency::is_evictable(const EvictionUnit& unit) const {
  if (has_stopped()) return false;
  const BlockState& state = *unit.whole;
  return state.pins == 0 && unit.pins == 0 && !is_held(unit) && state.block->bytes() >= options_.min_offload_bytes &&
         !clock_.is_blocked(state.block->uses) && !clock_.is_blocked(unit.uses);
}

// A blocked stream may have continued by now: then there is more room than was seen. There is also more when awaited
// work has completed; and on the host, when unused memory has been returned, or written to a file.
Status Residency::not_ready_if_put_off(Status status, bool blocked) {
  const bool put_off = blocked || clock_.has_deferred() || migration_.wants_trim() || migration_.awaits();
  return put_off && status.is_out_of_memory() ? Status::not_ready() : status;
}

// The unit is about to be put into the list of that state.
void Residency::log_change(const EvictionUnit& unit, ResidencyState state) {
  const bool comes = state == ResidencyState::kDirty || state == ResidencyState::kClean;
  if (unit.mapped() == comes) return;
  using Kind = LiveRangeChange::Kind;
  const bool copied = unit.copy != HostCopy::kNone;
  const Kind leaves = state == ResidencyState::kEvicted && copied ? Kind::kLeaves : Kind::kFrees;
  log_->changed(comes ? (copied ? Kind::kReturns : Kind::kTakes) : leaves, *unit.whole->block, unit.range);
}

void Residency::watch(LiveRangeLog* log) {
  log_ = log;
  if (log == nullptr) return;
  UnitList& dirty = dirty_.in_order();
  for (auto at = dirty.begin(); at != dirty.end();) next_cut(dirty, &at);
  for (const UnitList* list : {&dirty_.in_any_order(), &std::as_const(clean_)}) {
    for (const EvictionUnit& unit : *list) log->begins_with(*unit.whole->block, unit.range);
  }
}

}  // namespace thermocline
