// SPDX-License-Identifier: Apache-2.0
#include "offload/residency/residency.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "driver/check.h"
#include "driver/locks.h"
#include "offload/residency/part_size.h"

namespace thermocline {

void Residency::adopt(const Buffer& buffer) {
  Block& block = buffer.block();
  while (states_.size() <= block.index()) states_.emplace_back();
  BlockState& state = states_[block.index()];
  if (state.block == nullptr) {
    state.block = &block;
    state.wait_for.join(block.uses);
    cut(state);
    if (net_.full()) cover_new(state);
  }
  THERMOCLINE_CHECK(state.block == &block, "an index names one live block");
  (block.is_slab() ? state.former : state.wait_for).join(buffer.former);
}

// Into parts of nearly equal size; each goes to the list of what its pages say.
void Residency::cut(BlockState& state) {
  const Block& block = *state.block;
  state.count = std::min(parts_of(block.bytes()), block.pages());
  if (state.count > 1) state.many = std::make_unique<EvictionUnit[]>(state.count);
  const std::span<EvictionUnit> parts = state.parts();
  const std::span<const PageHandle> handles = block.page_handles();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EvictionUnit& part = parts[i];
    const std::uint64_t first = block.pages() * i / parts.size();
    part.whole = &state;
    part.range = {first, block.pages() * (i + 1) / parts.size() - first};
    const auto pages = handles.subspan(part.range.first, part.range.count);
    // Most blocks have all their pages, or none.
    const bool mapped = block.mapped() || (block.mapped_pages() != 0 &&
                                           std::find(pages.begin(), pages.end(), PageHandle{}) == pages.end());
    if (mapped) resident_bytes_ += part.bytes();
    set_state(part, mapped ? ResidencyState::kDirty : ResidencyState::kEvicted);
  }
}

void Residency::forget(Block& block) {
  BlockState& state = state_of(block);
  for (EvictionUnit& part : state.parts()) {
    set_prefetched(part, false);
    set_asleep(part, false);
    drop_host_copy(part);
    if (part.mapped()) resident_bytes_ -= part.bytes();
    set_state(part, ResidencyState::kUnmapped);
    block.uses.join(part.uses);
  }
  state = {};
}

void Residency::succeed(Buffer& buffer) {
  const Block& block = buffer.block();
  BlockState& state = state_of(block);
  // What stands is another page owner's, or the stream's that has it next.
  if (block.is_slab()) {
    clock_.join_without_blocking(block.uses, &buffer.former);
    state.former.join(buffer.former);
    return;
  }
  clock_.join_without_blocking(block.uses, &state.wait_for);
  for (EvictionUnit& part : state.parts()) {
    state.wait_for.join(part.uses);
    set_prefetched(part, false);
    set_asleep(part, false);
    part.defined = false;
    part.leaves_for.reset();
    set_hollow(part, false);
    drop_host_copy(part);
    part.evidence = {};
    set_state(part, part.mapped() ? ResidencyState::kDirty : ResidencyState::kEvicted);
  }
}

// What is written without being seen counts as contents, from the first access on that nobody sees. Where there is no
// host memory, contents begin with the first access that somebody does.
void Residency::cover_new(BlockState& state) {
  bool all = true;
  for (EvictionUnit& part : state.parts()) {
    if (part.mapped() || part.covered) continue;
    // Pages that it lies over are given up: all of it leads to one place.
    all &= heap_.unmap(*state.block, part.range).ok() && migration_.set_aside(part);
    if (part.host != nullptr) net_.cover(part);
  }
  for (EvictionUnit& part : state.parts()) part.defined = all;
}

void Residency::set_hollow(EvictionUnit& part, bool hollow) {
  if (part.hollow == hollow) return;
  part.hollow = hollow;
  part.whole->hollow_parts += hollow ? 1 : -1;
}

void Residency::set_prefetched(EvictionUnit& part, bool prefetched) {
  if (part.prefetched == prefetched) return;
  part.prefetched = prefetched;
  part.fetched_ahead = false;
  prefetched_bytes_ += prefetched ? part.bytes() : -part.bytes();
}

// Whoever waits for all that is submitted would never come to an end while others go on submitting.
Status Residency::come_to_rest() {
  const WaitsInPlace others_submit;
  const StreamClock::Deferring none(clock_, false);
  if (Status status = clock_.synchronize(clock_.newest()); !status.ok()) return status;
  while (!clean_.empty()) {
    EvictionUnit& part = clean_.front();
    part.leaves_for.reset();
    drop_host_copy(part);
    set_state(part, ResidencyState::kDirty);
  }
  return {};
}

Status Residency::wait_for_users(std::span<BlockState* const> blocks) {
  const WaitsInPlace others_submit;
  const StreamClock::Deferring none(clock_, false);
  for (BlockState* state : blocks) {
    for (EvictionUnit& part : state->parts()) {
      if (Status status = clock_.synchronize(part.uses); !status.ok()) return status;
    }
  }
  return come_to_rest();
}

Status Residency::make_resident(std::span<BlockState* const> blocks, FetchReason reason) {
  ++preparation_;
  makes_room_for_ = EvictReason::kPressure;
  fetches_for_ = reason;
  Bytes wanted = 0;
  bool absent = false;
  for (BlockState* state : blocks) {
    THERMOCLINE_CHECK(!state->dropped, "what is dropped is recomputed before it is accessed");
    state->held = preparation_;
    wanted += state->wanted_bytes();
    absent |= !state->has_wanted();
  }
  if (!absent) return {};
  // Nothing is evicted for an operation that can never fit.
  if (wanted > heap_.limit()) return Status::out_of_memory();
  const WaitsForFile waits_for_file(*this);
  const InOneGo in_one_go(net_, clock_);
  if (net_.full()) {
    if (Status status = come_to_rest(); !status.ok()) return status;
  }
  const bool blocked = clock_.any_blocked();
  Status status = not_ready_if_put_off(bring(blocks), blocked);
  // Also what came before the one for which there was no room.
  if (Status settled = net_.full() ? wait_for_users(blocks) : Status(); status.ok()) status = settled;
  return status;
}

Status Residency::bring(std::span<BlockState* const> blocks) {
  if (migration_.files() != nullptr) {
    for (BlockState* state : blocks) begin_to_read_wanted(*state);
  }
  for (BlockState* state : blocks) {
    if (state->has_wanted() || map_whole(*state)) continue;
    for (EvictionUnit& part : state->parts()) {
      if (!state->wants(part) || (part.mapped() && (!part.hollow || state->overwrites(part)))) continue;
      if (!state->overwrites(part)) {
        if (Status status = bring_to_host(part); !status.ok()) return status;
      }
      if (part.mapped()) {
        if (Status status = copy_in(part); !status.ok()) return status;
        continue;
      }
      bool untouched = false;
      if (Status status = make_room(part, &untouched); !status.ok()) return status;
      if (Status status = restore(part, untouched, state->overwrites(part)); !status.ok()) return status;
    }
  }
  return {};
}

Status Residency::make_whole_resident(BlockState& state, FetchReason reason) {
  state.whole = true;
  BlockState* const one = &state;
  return make_resident({&one, 1}, reason);
}

// A new block gets its pages in one go, where there are enough.
bool Residency::map_whole(BlockState& state) {
  if (state.nonresident_units != state.count) return false;
  for (const EvictionUnit& part : state.parts()) {
    if (part.defined || part.copy != HostCopy::kNone || !state.wants(part)) return false;
  }
  Block& block = *state.block;
  const bool mapped = heap_.map(block, Wait::kBehindNewest).ok();
  // Where mapping fails and the driver does not undo it, pages stay, of this attempt (block.uses) or of one before
  // (a part's): the next one finds them there.
  state.wait_for.join(block.uses);
  for (const EvictionUnit& part : state.parts()) state.wait_for.join(part.uses);
  if (!mapped) return false;
  for (EvictionUnit& part : state.parts()) {
    resident_bytes_ += part.bytes();
    set_state(part, ResidencyState::kDirty);
  }
  return true;
}

// Of a part that has just got its pages. It stays evicted, with pages, when its contents can not be copied: the next
// access tries again. `untouched`: it has got its own pages back before anybody else had them, with what is in them.
Status Residency::restore(EvictionUnit& part, bool untouched, bool overwritten) {
  part.whole->wait_for.join(part.uses);
  part.leaves_for.reset();
  // Whoever was not seen may have written to the copy.
  if (part.covered) release_digest(part);
  net_.uncovered(part);
  if (part.copy != HostCopy::kNone && (!untouched || part.hollow)) {
    if (overwritten) {
      set_hollow(part, true);
    } else if (Status status = copy_in(part); !status.ok()) {
      return status;
    }
  }
  resident_bytes_ += part.bytes();
  set_asleep(part, false);
  set_state(part, part.has_copy() ? ResidencyState::kClean : ResidencyState::kDirty);
  return {};
}

void Residency::note_use(EvictionUnit& part) {
  if (log_ != nullptr && part.prefetched) log_->changed(LiveRangeChange::Kind::kUses, *part.whole->block, part.range);
  set_prefetched(part, false);
}

void Residency::accessed(BlockState& state, std::uint64_t operation) {
  state.operation = operation;
  for (EvictionUnit& part : state.parts()) {
    if (!state.wants(part)) continue;
    if (part.state == ResidencyState::kDirty && part.defined && !part.has_been_moved() && log_ == nullptr) [[likely]] {
      if (&dirty_.back() != &part) dirty_.splice(dirty_.cend(), dirty_, dirty_.iterator_to(part));
      continue;
    }
    part.defined = true;
    part.leaves_for.reset();
    set_hollow(part, false);
    note_use(part);
    if (state.writes(part)) may_have_changed(part);
    set_state(part, part.has_copy() ? ResidencyState::kClean : ResidencyState::kDirty);
  }
}

void Residency::written_unseen(BlockState& state) {
  for (EvictionUnit& part : state.parts()) {
    if (!part.mapped()) continue;
    part.defined = true;
    part.leaves_for.reset();
    note_use(part);
    may_have_changed(part);
    set_state(part, part.has_copy() ? ResidencyState::kClean : ResidencyState::kDirty);
  }
}

bool Residency::prefetch(EvictionUnit& part) {
  fetches_for_ = FetchReason::kPredicted;
  return !part.whole->dropped && is_free_to_come(part) && fetch(part);
}

void Residency::give_up_at_once(bool does) {
  const bool did = std::exchange(gives_up_at_once_, does && trusting_);
  if (did || !gives_up_at_once_) return;
  ++preparation_;
  makes_room_for_ = EvictReason::kPlanned;
  give_up_leaving(~Bytes{0});
}

bool Residency::is_free_to_come(const EvictionUnit& part) {
  const Block& block = *part.whole->block;
  return heap_.homes_at_hand(block, part.range, true) && heap_.can_map_without_waiting(block, part.range);
}

bool Residency::fetch(EvictionUnit& part) {
  if (!is_on_host(part)) return false;
  bool untouched = false;
  if (!heap_.map(*part.whole->block, part.range, Wait::kBehind, &part.uses, &untouched).ok()) return false;
  const bool returns = part.copy != HostCopy::kNone;
  if (!restore(part, untouched, false).ok()) return false;
  set_prefetched(part, returns);
  part.fetched_ahead = returns;
  if (returns) ++statistics_.prefetches;
  return true;
}

// Contents that nobody has defined are as good as any others.
Status Residency::make_host_copy(EvictionUnit& part) {
  if (part.hollow || part.has_copy()) return {};
  if (!part.mapped() && !migration_.set_aside(part)) return Status::out_of_memory();
  part.defined = true;
  return part.mapped() ? begin_to_leave(part, EvictReason::kPressure) : Status();
}

void Residency::leave(BlockState& state, std::size_t parts, EvictReason reason) {
  if (has_stopped()) return;
  if (state.pins > 0 || clock_.is_blocked(state.block->uses)) return;
  for (EvictionUnit& part : state.parts().first(std::min(parts, state.count))) {
    if (!part.mapped() || !part.defined || part.pins > 0) continue;
    set_prefetched(part, false);
    if (!part.has_copy() && !begin_to_leave(part, reason).ok()) return;
    part.leaves_for = reason;
    set_state(part, ResidencyState::kClean);
    if (gives_up_at_once_) give_up(part);
  }
}

void Residency::plan_ended() {
  for (EvictionUnit& part : clean_) {
    if (part.leaves_for == EvictReason::kPlanned) part.leaves_for.reset();
  }
}

bool Residency::prefetch(BlockState& state, bool may_wait, FetchReason reason) {
  if (state.dropped) return true;
  fetches_for_ = reason;
  makes_room_for_ = reason == FetchReason::kPlanned ? EvictReason::kPlanned : EvictReason::kRequested;
  for (EvictionUnit& part : state.parts()) {
    if (part.mapped()) {
      set_prefetched(part, true);
      part.leaves_for.reset();
      set_state(part, part.state);
    } else if (!may_wait && !is_free_to_come(part)) {
      return false;
    } else if (!fetch(part)) {
      // What has left by now gives its room to what comes.
      const bool planned = reason == FetchReason::kPlanned;
      if (!drop_clean(part.bytes(), Victims::kPlanned) && (planned || !drop_clean(part.bytes(), Victims::kOthers)))
        return false;
      if (!fetch(part)) return false;
    }
  }
  return true;
}

Status Residency::make_room_for_limit(Bytes new_limit) {
  ++preparation_;
  makes_room_for_ = EvictReason::kLimitLowered;
  const WaitsForFile waits_for_file(*this);
  const InOneGo in_one_go(net_, clock_);
  const bool blocked = clock_.any_blocked();
  if (!net_.full()) return not_ready_if_put_off(shrink_to(new_limit), blocked);
  if (Status status = come_to_rest(); !status.ok()) return status;
  Status status = not_ready_if_put_off(shrink_to(new_limit), blocked);
  // Copies out that were begun and are not needed after all.
  if (Status settled = come_to_rest(); status.ok()) status = settled;
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
    for (EvictionUnit& part : state.parts()) drop_host_copy(part);
  }
  migration_.drain();
}

bool Residency::may_leave(const EvictionUnit& part) const {
  if (has_stopped()) return false;
  const BlockState& state = *part.whole;
  return state.pins == 0 && part.pins == 0 && !is_held(part) && state.block->bytes() >= options_.min_offload_bytes &&
         !clock_.is_blocked(state.block->uses) && !clock_.is_blocked(part.uses);
}

// A stream that was blocked may have gone on by now: then there is more room than was seen. So there is when what had to be waited for
// has passed, and on the host when what is unused there has been returned, or written to a file.
Status Residency::not_ready_if_put_off(Status status, bool blocked) {
  const bool put_off = blocked || clock_.has_deferred() || migration_.wants_trim() || migration_.awaits();
  return put_off && status.is_out_of_memory() ? Status::not_ready() : status;
}

// Moves the part to the end of a list, and keeps the sums that depend on lists.
void Residency::set_state(EvictionUnit& part, ResidencyState state) {
  if (log_ != nullptr) [[unlikely]]
    log_change(part, state);
  switch (part.state) {
    case ResidencyState::kUnmapped:
      break;
    case ResidencyState::kDirty:
      dirty_.erase(dirty_.iterator_to(part));
      break;
    case ResidencyState::kClean:
      clean_.erase(clean_.iterator_to(part));
      clean_bytes_ -= part.bytes();
      break;
    case ResidencyState::kEvicted:
      evicted_.erase(evicted_.iterator_to(part));
      --part.whole->nonresident_units;
      break;
  }
  part.state = state;
  switch (state) {
    case ResidencyState::kUnmapped:
      break;
    case ResidencyState::kDirty:
      dirty_.push_back(part);
      break;
    case ResidencyState::kClean:
      clean_.push_back(part);
      clean_bytes_ += part.bytes();
      break;
    case ResidencyState::kEvicted:
      part.whole->dropped ? evicted_.push_front(part) : evicted_.push_back(part);  // never the youngest to bring back
      ++part.whole->nonresident_units;
      break;
  }
}

// It is about to be placed there.
void Residency::log_change(const EvictionUnit& part, ResidencyState state) {
  const bool comes = state == ResidencyState::kDirty || state == ResidencyState::kClean;
  if (part.mapped() == comes) return;
  using Kind = LiveRangeChange::Kind;
  const bool copied = part.copy != HostCopy::kNone;
  const Kind leaves = state == ResidencyState::kEvicted && copied ? Kind::kLeaves : Kind::kFrees;
  log_->changed(comes ? (copied ? Kind::kReturns : Kind::kTakes) : leaves, *part.whole->block, part.range);
}

void Residency::watch(LiveRangeLog* log) {
  log_ = log;
  if (log == nullptr) return;
  for (const PartList* list : {&dirty_, &clean_}) {
    for (const EvictionUnit& part : *list) log->begins_with(*part.whole->block, part.range);
  }
}

}  // namespace thermocline
