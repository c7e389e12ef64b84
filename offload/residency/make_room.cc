// SPDX-License-Identifier: Apache-2.0
// Making room: which units give up their pages, in the order that residency.h lists.
#include <algorithm>

#include "driver/check.h"
#include "offload/residency/residency.h"

namespace thermocline {

template <class Visit>
void Residency::for_each_victim(UnitList& list, Visit visit) {
  if (victim_order_ == nullptr) [[likely]] {
    for (auto it = list.begin(); it != list.end();) {
      if (!visit(next_cut(list, &it))) return;
    }
    return;
  }
  std::vector<EvictionUnit*> candidates;
  for (auto it = list.begin(); it != list.end();) {
    EvictionUnit& unit = next_cut(list, &it);
    if (is_evictable(unit)) candidates.push_back(&unit);
  }
  if (candidates.empty()) return;
  const ResidencyState state = candidates.front()->state;
  victim_order_->sort(candidates);
  // An order that names a unit twice evicts it once.
  for (EvictionUnit* const unit : candidates) {
    if (unit->state == state && !visit(*unit)) return;
  }
}

bool Residency::write_behind() {
  bool begun = false;
  for_each_victim(dirty_.in_order(), [&](EvictionUnit& unit) {
    if (!is_evictable(unit) || !unit.defined) return true;
    begun = begin_eviction(unit, EvictReason::kWriteBehind).ok();
    return false;
  });
  return begun;
}

Status Residency::make_room(EvictionUnit& unit, bool* untouched) {
  Block& block = *unit.whole->block;
  for (;;) {
    Status status = heap_.map(block, unit.range, Wait::kBehind, &unit.uses, untouched);
    if (!status.is_out_of_memory()) return status;
    const Bytes at_hand = heap_.available_bytes(Wait::kBehind);
    const bool enough_pending = heap_.available_bytes(Wait::kYes) >= unit.bytes();
    bool progress = false;
    status = reclaim(unit.bytes() - std::min(unit.bytes() - 1, at_hand), enough_pending, &progress);
    if (!status.ok()) return status;
    if (progress) continue;
    status = heap_.map(block, unit.range, Wait::kYes, &unit.uses, untouched);
    if (!status.is_out_of_memory() || !enough_pending) return status;
    // The limit allows more than the device has, because others use it too.
    if (status = start_copies(unit.bytes(), &progress); !status.ok()) return status;
    if (!progress) return Status::out_of_memory();
  }
}

Status Residency::reclaim(Bytes missing, bool enough_pending, bool* progress) {
  if (!options_.may_evict) return {};
  for (const Victims victims : {Victims::kPlanned, Victims::kOthers, Victims::kPrefetched}) {
    if (*progress = evict_clean(missing, victims); *progress) return {};
    if (Status status = drop_first_leaving(victims, progress); !status.ok() || *progress) return status;
  }
  if (Status status = drop_partial(progress); !status.ok() || *progress) return status;
  if (enough_pending) return {};
  return start_copies(missing, progress);
}

Residency::Victims Residency::victims_of(const EvictionUnit& unit) {
  if (unit.prefetched) return Victims::kPrefetched;
  return unit.evict_reason && is_chosen(*unit.evict_reason) ? Victims::kPlanned : Victims::kOthers;
}

// Oldest first, until `missing` bytes have become free. True if any has.
bool Residency::evict_clean(Bytes missing, Victims victims) {
  Bytes dropped = 0;
  for_each_victim(clean_, [&](EvictionUnit& unit) {
    if (victims_of(unit) != victims || !is_evictable(unit)) return true;
    if (!migration_.has_left(unit) || !idle(unit)) return true;
    if (trusting_) {
      give_up(unit);
    } else if (!evict_unit(unit)) {
      return true;
    }
    dropped += unit.bytes();
    return dropped < missing;
  });
  if (trusting_ && victims != Victims::kPrefetched)
    dropped += give_up_leaving(missing - std::min(missing, dropped), victims);
  return dropped > 0;
}

// Gives up units whose copy out has been submitted, oldest first.
Bytes Residency::give_up_leaving(Bytes missing, std::optional<Victims> victims) {
  Bytes dropped = 0;
  if (missing == 0) return dropped;
  for_each_victim(clean_, [&](EvictionUnit& unit) {
    if (unit.prefetched || (victims && victims_of(unit) != *victims) || !is_evictable(unit)) return true;
    dropped += unit.bytes();
    give_up(unit);
    return dropped < missing;
  });
  return dropped;
}

// False: the driver did not unmap, and the unit keeps its pages and its state. If it lost some of them it counts as
// evicted all the same, because its contents are on the host; drop_partial finds the remaining pages.
bool Residency::evict_unit(EvictionUnit& unit) {
  THERMOCLINE_CHECK(!unit.defined || unit.copy == HostCopy::kCurrent,
                    "contents leave the device only with a current host copy");
  THERMOCLINE_CHECK(idle(unit), "pages that somebody uses are not given away");
  const Block& block = *unit.whole->block;
  if (!heap_.unmap(*unit.whole->block, unit.range).ok()) {
    const auto pages = block.page_handles().subspan(unit.range.first, unit.range.count);
    if (std::find(pages.begin(), pages.end(), PageHandle{}) == pages.end()) return false;
  }
  unit.uses.clear();
  evict_now(unit);
  return true;
}

void Residency::give_up(EvictionUnit& unit) {
  THERMOCLINE_CHECK(!unit.defined || unit.has_copy(),
                    "contents are given up only with a host copy, or with one on its way");
  UseSet pending = unit.whole->block->uses;
  pending.join(unit.uses);
  heap_.give_up(*unit.whole->block, unit.range, pending);
  evict_now(unit);
}

void Residency::evict_now(EvictionUnit& unit) {
  if (unit.fetched_ahead) ++statistics_.wasted_prefetches;
  set_prefetched(unit, false);
  resident_bytes_ -= unit.bytes();
  set_state(unit, ResidencyState::kEvicted);
  set_asleep(unit, unit.defined && makes_room_for_ == EvictReason::kSleep);
  count_eviction(unit);
  if (host_mappings_.on() && !trusting_) host_mappings_.map_to_host(unit);
}

Status Residency::await(const EvictionUnit& unit) {
  if (Status status = clock_.synchronize(unit.whole->block->uses); !status.ok()) return status;
  return clock_.synchronize(unit.uses);
}

// Waits for the copy out that began first, and for work that still reads the unit, and evicts it.
Status Residency::drop_first_leaving(Victims victims, bool* progress) {
  Status status;
  for_each_victim(clean_, [&](EvictionUnit& unit) {
    if (victims_of(unit) != victims || !is_evictable(unit)) return true;
    status = migration_.finish(unit);
    if (status.ok()) status = await(unit);
    *progress = status.ok() && evict_unit(unit);
    return status.ok() && !*progress;
  });
  return status;
}

// A non-resident unit may lie partly over mapped space (Heap::allocate); others may take its pages until an access.
Status Residency::drop_partial(bool* progress) {
  // Evicted units may be many thousands, and none may have a page.
  if (heap_.mapped_bytes() - heap_.free_mapped_bytes() == resident_bytes_) return {};
  for (EvictionUnit& unit : evicted_) {
    const BlockState& state = *unit.whole;
    if (is_held(unit) || clock_.is_blocked(state.block->uses) || clock_.is_blocked(unit.uses)) continue;
    const auto pages = state.block->page_handles().subspan(unit.range.first, unit.range.count);
    if (std::all_of(pages.begin(), pages.end(), [](PageHandle page) { return page == PageHandle{}; })) continue;
    THERMOCLINE_CHECK(state.pins == 0 && unit.pins == 0, "what is pinned is on the device");
    if (Status status = await(unit); !status.ok()) return status;
    if (Status status = heap_.unmap(*state.block, unit.range); !status.ok()) return status;
    *progress = true;
    return {};
  }
  return {};
}

// Begins to copy out the oldest units until `missing` bytes are being copied. Units without defined contents are
// evicted at once.
Status Residency::start_copies(Bytes missing, bool* progress) {
  Bytes started = 0;
  Status status;
  bool out_of_host_memory = false;
  for_each_victim(dirty_.in_order(), [&](EvictionUnit& unit) {
    if (!is_evictable(unit)) return true;
    if (unit.defined) {
      status = begin_eviction(unit, makes_room_for_);
      out_of_host_memory = status.is_out_of_memory();
      if (!status.ok()) return false;
    } else if (trusting_) {
      give_up(unit);
    } else {
      status = await(unit);
      if (!status.ok()) return false;
      if (!evict_unit(unit)) return true;
    }
    started += unit.bytes();
    *progress = true;
    return started < missing;
  });
  // The copies that were started may be enough.
  return out_of_host_memory ? Status() : status;
}

}  // namespace thermocline
