// SPDX-License-Identifier: Apache-2.0
// Making room: which units give their pages, in the order that residency.h lists.
#include <algorithm>

#include "driver/check.h"
#include "offload/residency/residency.h"

namespace thermocline {

template <class Visit>
void Residency::for_each_victim(PartList& list, Visit visit) {
  if (victim_order_ == nullptr) [[likely]] {
    for (auto it = list.begin(); it != list.end();) {
      EvictionUnit& part = *it++;
      if (!visit(part)) return;
    }
    return;
  }
  std::vector<EvictionUnit*> candidates;
  for (EvictionUnit& part : list) {
    if (may_leave(part)) candidates.push_back(&part);
  }
  if (candidates.empty()) return;
  const ResidencyState state = candidates.front()->state;
  victim_order_->sort(candidates);
  // An order that names a unit twice evicts it once.
  for (EvictionUnit* const part : candidates) {
    if (part->state == state && !visit(*part)) return;
  }
}

bool Residency::write_behind() {
  bool begun = false;
  for_each_victim(dirty_, [&](EvictionUnit& part) {
    if (!may_leave(part) || !part.defined) return true;
    begun = begin_to_leave(part, EvictReason::kWriteBehind).ok();
    return false;
  });
  return begun;
}

Status Residency::make_room(EvictionUnit& part, bool* untouched) {
  Block& block = *part.whole->block;
  for (;;) {
    Status status = heap_.map(block, part.range, Wait::kBehind, &part.uses, untouched);
    if (!status.is_out_of_memory()) return status;
    const Bytes at_hand = heap_.available_bytes(Wait::kBehind);
    const bool enough_pending = heap_.available_bytes(Wait::kYes) >= part.bytes();
    bool progress = false;
    status = reclaim(part.bytes() - std::min(part.bytes() - 1, at_hand), enough_pending, &progress);
    if (!status.ok()) return status;
    if (progress) continue;
    status = heap_.map(block, part.range, Wait::kYes, &part.uses, untouched);
    if (!status.is_out_of_memory() || !enough_pending) return status;
    // The limit allows more than the device has, because others use it too.
    if (status = start_copies(part.bytes(), &progress); !status.ok()) return status;
    if (!progress) return Status::out_of_memory();
  }
}

Status Residency::reclaim(Bytes missing, bool enough_pending, bool* progress) {
  if (!options_.may_evict) return {};
  for (const Victims victims : {Victims::kPlanned, Victims::kOthers, Victims::kPrefetched}) {
    if (*progress = drop_clean(missing, victims); *progress) return {};
    if (Status status = drop_first_leaving(victims, progress); !status.ok() || *progress) return status;
  }
  if (Status status = drop_partial(progress); !status.ok() || *progress) return status;
  if (enough_pending) return {};
  return start_copies(missing, progress);
}

Residency::Victims Residency::victims_of(const EvictionUnit& part) {
  if (part.prefetched) return Victims::kPrefetched;
  return part.leaves_for == EvictReason::kPlanned ? Victims::kPlanned : Victims::kOthers;
}

// Oldest first, until `missing` bytes have become free. True if any has.
bool Residency::drop_clean(Bytes missing, Victims victims) {
  Bytes dropped = 0;
  for_each_victim(clean_, [&](EvictionUnit& part) {
    if (victims_of(part) != victims || !may_leave(part)) return true;
    if (!migration_.has_left(part) || !idle(part)) return true;
    if (trusting_) {
      give_up(part);
    } else if (!drop(part)) {
      return true;
    }
    dropped += part.bytes();
    return dropped < missing;
  });
  if (trusting_ && victims != Victims::kPrefetched)
    dropped += give_up_leaving(missing - std::min(missing, dropped), victims);
  return dropped > 0;
}

// What has been submitted to be copied out, oldest first.
Bytes Residency::give_up_leaving(Bytes missing, std::optional<Victims> victims) {
  Bytes dropped = 0;
  if (missing == 0) return dropped;
  for_each_victim(clean_, [&](EvictionUnit& part) {
    if (part.prefetched || (victims && victims_of(part) != *victims) || !may_leave(part)) return true;
    dropped += part.bytes();
    give_up(part);
    return dropped < missing;
  });
  return dropped;
}

// False where the driver did not unmap: the part keeps its pages and stays what it is. If it lost some of them it has
// left all the same, for its contents are on the host; drop_partial finds the others.
bool Residency::drop(EvictionUnit& part) {
  THERMOCLINE_CHECK(!part.defined || part.copy == HostCopy::kCurrent,
                    "contents leave the device only with a current host copy");
  THERMOCLINE_CHECK(idle(part), "pages that somebody uses are not given away");
  const Block& block = *part.whole->block;
  if (!heap_.unmap(*part.whole->block, part.range).ok()) {
    const auto pages = block.page_handles().subspan(part.range.first, part.range.count);
    if (std::find(pages.begin(), pages.end(), PageHandle{}) == pages.end()) return false;
  }
  part.uses.clear();
  leave_device(part);
  return true;
}

void Residency::give_up(EvictionUnit& part) {
  THERMOCLINE_CHECK(!part.defined || part.has_copy(),
                    "contents are given up only with a host copy, or with one on its way");
  UseSet pending = part.whole->block->uses;
  pending.join(part.uses);
  heap_.give_up(*part.whole->block, part.range, pending);
  leave_device(part);
}

void Residency::leave_device(EvictionUnit& part) {
  if (part.fetched_ahead) ++statistics_.wasted_prefetches;
  set_prefetched(part, false);
  resident_bytes_ -= part.bytes();
  set_state(part, ResidencyState::kEvicted);
  set_asleep(part, part.defined && makes_room_for_ == EvictReason::kSleep);
  count_eviction(part);
  if (net_.on() && !trusting_) net_.cover(part);
}

Status Residency::await(const EvictionUnit& part) {
  if (Status status = clock_.synchronize(part.whole->block->uses); !status.ok()) return status;
  return clock_.synchronize(part.uses);
}

// Waits for the copy out that began first, and for what still reads the part, and drops it.
Status Residency::drop_first_leaving(Victims victims, bool* progress) {
  Status status;
  for_each_victim(clean_, [&](EvictionUnit& part) {
    if (victims_of(part) != victims || !may_leave(part)) return true;
    status = migration_.finish(part);
    if (status.ok()) status = await(part);
    *progress = status.ok() && drop(part);
    return status.ok() && !*progress;
  });
  return status;
}

// An absent part may lie partly over mapped space (Heap::allocate); its pages are free for others until it is accessed.
Status Residency::drop_partial(bool* progress) {
  for (EvictionUnit& part : evicted_) {
    const BlockState& state = *part.whole;
    if (is_held(part) || clock_.is_blocked(state.block->uses) || clock_.is_blocked(part.uses)) continue;
    const auto pages = state.block->page_handles().subspan(part.range.first, part.range.count);
    if (std::all_of(pages.begin(), pages.end(), [](PageHandle page) { return page == PageHandle{}; })) continue;
    THERMOCLINE_CHECK(state.pins == 0 && part.pins == 0, "what is pinned is on the device");
    if (Status status = await(part); !status.ok()) return status;
    if (Status status = heap_.unmap(*state.block, part.range); !status.ok()) return status;
    *progress = true;
    return {};
  }
  return {};
}

// Begins to copy out the oldest parts until `missing` bytes are on their way. Parts without defined contents leave at
// once.
Status Residency::start_copies(Bytes missing, bool* progress) {
  Bytes started = 0;
  Status status;
  bool out_of_host_memory = false;
  for_each_victim(dirty_, [&](EvictionUnit& part) {
    if (!may_leave(part)) return true;
    if (part.defined) {
      status = begin_to_leave(part, makes_room_for_);
      out_of_host_memory = status.is_out_of_memory();
      if (!status.ok()) return false;
    } else if (trusting_) {
      give_up(part);
    } else {
      status = await(part);
      if (!status.ok()) return false;
      if (!drop(part)) return true;
    }
    started += part.bytes();
    *progress = true;
    return started < missing;
  });
  // What has been started may be enough.
  return out_of_host_memory ? Status() : status;
}

}  // namespace thermocline
