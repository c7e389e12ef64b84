// SPDX-License-Identifier: Apache-2.0
#include "offload/residency.h"

#include <algorithm>
#include <new>

#include "driver/check.h"

namespace thermocline {

void Residency::adopt(const Buffer& buffer) {
  Block& block = buffer.block();
  while (states_.size() <= block.index()) states_.emplace_back();
  BlockState& state = states_[block.index()];
  if (state.block == nullptr) {
    state.block = &block;
    if (block.mapped()) resident_bytes_ += block.bytes();
    place(state, block.mapped() ? Place::kDirty : Place::kAway);
  }
  THERMOCLINE_CHECK(state.block == &block, "an index names one live block");
  state.wait_for.join(buffer.former);
}

void Residency::forget(Block& block) {
  BlockState& state = state_of(block);
  migration_.drop_host_copy(state);
  place(state, Place::kNowhere);
  if (block.mapped()) resident_bytes_ -= block.bytes();
  state.~BlockState();
  new (&state) BlockState;
}

Status Residency::make_resident(std::span<BlockState* const> blocks) {
  ++preparation_;
  Bytes wanted = 0;
  bool absent = false;
  for (BlockState* state : blocks) {
    state->held = preparation_;
    wanted += state->block->bytes();
    absent |= !state->block->mapped();
  }
  if (!absent) return {};
  // Nothing is evicted for an operation that can never fit.
  if (wanted > heap_.limit()) return Status::out_of_memory();
  for (BlockState* state : blocks) {
    Block& block = *state->block;
    if (block.mapped()) continue;
    if (Status status = make_room(block); !status.ok()) return status;
    resident_bytes_ += block.bytes();
    place(*state, Place::kDirty);
    if (state->host == nullptr) continue;
    ++statistics_.restores;
    if (Status status = migration_.copy_in(*state); !status.ok()) return status;
    place(*state, Place::kClean);
  }
  return {};
}

void Residency::touched(BlockState& state, std::uint64_t operation) {
  state.operation = operation;
  state.defined = true;
  state.prefetched = false;
  if (state.may_write) migration_.drop_host_copy(state);
  place(state, state.host == nullptr ? Place::kDirty : Place::kClean);
}

bool Residency::prefetch(BlockState& state) {
  Block& block = *state.block;
  if (!heap_.map(block, Wait::kNo).ok()) return false;
  resident_bytes_ += block.bytes();
  place(state, Place::kDirty);
  if (state.host != nullptr) {
    if (!migration_.copy_in(state).ok()) return false;
    place(state, Place::kClean);
    state.prefetched = true;
  }
  return true;
}

bool Residency::write_behind() {
  for (BlockState& state : dirty_) {
    if (!may_leave(state) || !state.defined) continue;
    if (!migration_.copy_out(state).ok()) return false;
    place(state, Place::kClean);
    return true;
  }
  return false;
}

void Residency::leave(BlockState& state) {
  if (!state.block->mapped() || !state.defined || state.pins > 0) return;
  state.prefetched = false;
  if (state.host == nullptr && !migration_.copy_out(state).ok()) return;
  place(state, Place::kClean);
}

bool Residency::bring_back(BlockState& state) {
  if (!state.block->mapped()) return prefetch(state);
  state.prefetched = true;
  place(state, state.place);
  return true;
}

Status Residency::make_room_for_limit(Bytes new_limit) {
  ++preparation_;
  for (;;) {
    Status status = heap_.set_limit(new_limit, Wait::kYes);
    if (!status.is_out_of_memory()) return status;
    bool progress = false;
    const Bytes created = heap_.created_bytes();
    status = climb(created > new_limit ? created - new_limit : heap_.page_bytes(), false, &progress);
    if (!status.ok()) return status;
    if (!progress) return Status::out_of_memory();
  }
}

void Residency::release_host_copies() {
  for (BlockState& state : states_) {
    if (state.block != nullptr) migration_.drop_host_copy(state);
  }
  migration_.drain();
}

bool Residency::may_leave(const BlockState& state) const {
  return state.pins == 0 && state.held != preparation_ && state.block->bytes() >= options_.min_offload_bytes;
}

// Moves the block to the end of a list, and keeps the sums that depend on lists.
void Residency::place(BlockState& state, Place where) {
  switch (state.place) {
    case Place::kNowhere:
      break;
    case Place::kDirty:
      dirty_.erase(dirty_.iterator_to(state));
      break;
    case Place::kClean:
      clean_.erase(clean_.iterator_to(state));
      clean_bytes_ -= state.block->bytes();
      break;
    case Place::kAway:
      away_.erase(away_.iterator_to(state));
      break;
  }
  state.place = where;
  switch (where) {
    case Place::kNowhere:
      break;
    case Place::kDirty:
      dirty_.push_back(state);
      break;
    case Place::kClean:
      clean_.push_back(state);
      clean_bytes_ += state.block->bytes();
      break;
    case Place::kAway:
      away_.push_back(state);
      break;
  }
}

Status Residency::make_room(Block& block) {
  for (;;) {
    Status status = heap_.map(block, Wait::kNo);
    if (!status.is_out_of_memory()) return status;
    const Bytes wanted = block.bytes() - block.mapped_pages() * heap_.page_bytes();
    const Bytes at_hand = heap_.available_bytes(Wait::kNo);
    const bool enough_pending = heap_.available_bytes(Wait::kYes) >= wanted;
    bool progress = false;
    status = climb(wanted - std::min(wanted, at_hand), enough_pending, &progress);
    if (!status.ok()) return status;
    if (!progress) return heap_.map(block, Wait::kYes);
  }
}

Status Residency::climb(Bytes missing, bool enough_pending, bool* progress) {
  *progress = options_.may_evict && drop_clean(missing);
  if (*progress || !options_.may_evict) return {};
  if (Status status = drop_first_leaving(progress); !status.ok() || *progress) return status;
  if (Status status = drop_partial(progress); !status.ok() || *progress) return status;
  if (enough_pending) return {};
  return start_copies(missing, progress);
}

// Drops clean blocks, oldest first, until `missing` bytes have become free; what has been brought back for a use to
// come goes last. True if any has.
bool Residency::drop_clean(Bytes missing) { return drop_clean_if(missing, false) || drop_clean_if(missing, true); }

bool Residency::drop_clean_if(Bytes missing, bool wanted) {
  Bytes dropped = 0;
  for (auto it = clean_.begin(); it != clean_.end() && dropped < missing;) {
    BlockState& state = *it++;
    if (state.prefetched != wanted || !may_leave(state)) continue;
    if (!migration_.has_left(state) || !clock_.passed(state.block->uses)) continue;
    dropped += state.block->bytes();
    drop(state);
  }
  return dropped > 0;
}

void Residency::drop(BlockState& state) {
  THERMOCLINE_CHECK(!state.defined || state.copy == HostCopy::kCurrent,
                    "contents leave the device only with a current host copy");
  if (state.prefetched) ++statistics_.wasted_prefetches;
  state.prefetched = false;
  const Status status = heap_.unmap(*state.block);
  THERMOCLINE_CHECK(status.ok(), "a block that nobody uses can be unmapped");
  resident_bytes_ -= state.block->bytes();
  state.wait_for.clear();
  place(state, Place::kAway);
  ++statistics_.evictions;
}

// Waits for the copy out that began first, and for what still reads the block, and drops it.
Status Residency::drop_first_leaving(bool* progress) {
  for (BlockState& state : clean_) {
    if (!may_leave(state)) continue;
    if (Status status = migration_.finish(state); !status.ok()) return status;
    if (Status status = clock_.synchronize(state.block->uses); !status.ok()) return status;
    drop(state);
    *progress = true;
    return {};
  }
  return {};
}

// An absent block may lie partly over mapped space (Heap::allocate); its pages are free for others until it is touched.
Status Residency::drop_partial(bool* progress) {
  for (BlockState& state : away_) {
    if (state.held == preparation_ || state.block->mapped_pages() == 0) continue;
    if (Status status = clock_.synchronize(state.block->uses); !status.ok()) return status;
    if (Status status = heap_.unmap(*state.block); !status.ok()) return status;
    *progress = true;
    return {};
  }
  return {};
}

// Begins to copy out the oldest blocks until `missing` bytes are on their way. Blocks without defined contents leave at
// once.
Status Residency::start_copies(Bytes missing, bool* progress) {
  Bytes started = 0;
  for (auto it = dirty_.begin(); it != dirty_.end() && started < missing;) {
    BlockState& state = *it++;
    if (!may_leave(state)) continue;
    if (state.defined) {
      Status status = migration_.copy_out(state);
      if (status.is_out_of_memory()) break;
      if (!status.ok()) return status;
      place(state, Place::kClean);
    } else {
      if (Status status = clock_.synchronize(state.block->uses); !status.ok()) return status;
      drop(state);
    }
    started += state.block->bytes();
    *progress = true;
  }
  return {};
}

void Residency::validate() const {
  Bytes resident = 0, clean = 0;
  std::size_t placed = 0;
  for (const BlockState& state : states_) {
    THERMOCLINE_CHECK((state.block == nullptr) == (state.place == Place::kNowhere),
                      "live blocks, and only they, are in a list");
    if (state.block == nullptr) continue;
    ++placed;
    const bool mapped = state.block->mapped();
    THERMOCLINE_CHECK(mapped == (state.place != Place::kAway), "the list away holds the blocks without pages");
    THERMOCLINE_CHECK((state.copy == HostCopy::kNone) == (state.host == nullptr), "a host copy has host memory");
    THERMOCLINE_CHECK(mapped || !state.defined || state.copy == HostCopy::kCurrent, "defined contents are somewhere");
    THERMOCLINE_CHECK(mapped || state.pins == 0, "a pinned block is on the device");
    if (mapped) {
      THERMOCLINE_CHECK((state.place == Place::kClean) == (state.host != nullptr),
                        "the list clean holds the blocks with a host copy");
      resident += state.block->bytes();
    }
    if (state.place == Place::kClean) clean += state.block->bytes();
  }
  THERMOCLINE_CHECK(placed == dirty_.size() + clean_.size() + away_.size(), "every live block is in one list");
  THERMOCLINE_CHECK(resident == resident_bytes_, "resident bytes are the pages behind live blocks");
  THERMOCLINE_CHECK(clean == clean_bytes_, "clean bytes are the pages behind blocks with a host copy");
}

}  // namespace thermocline
