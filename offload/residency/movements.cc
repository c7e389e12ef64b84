// SPDX-License-Identifier: Apache-2.0
// Copies out, copies in and evictions, each with its reason (offload/movement.h).
#include "offload/residency/residency.h"

namespace thermocline {

Status Residency::copy_out(EvictionUnit& unit, EvictReason reason) {
  const Bytes before = migration_.statistics().evicted_bytes;
  Status status = migration_.copy_out(unit, false);
  while (status.is_out_of_memory() && !migration_.wants_trim() && drop_a_stale_copy())
    status = migration_.copy_out(unit, false);
  while (status.is_out_of_memory() && make_host_room_again(migration_.contents_of(unit), false))
    status = migration_.copy_out(unit, false);
  // Ahead of need nobody waits. With a file, only after all was tried to make room with it.
  const bool may_wait =
      reason == EvictReason::kPressure || reason == EvictReason::kLimitLowered || reason == EvictReason::kSleep;
  const bool is_last_way = migration_.files() == nullptr || waits_for_file_;
  if (status.is_out_of_memory() && may_wait && is_last_way) status = migration_.copy_out(unit, true);
  if (!status.ok()) return status;
  // A copy that the device can reach while the unit is evicted may have changed when the unit is fetched.
  if (!host_mappings_.on() || reason == EvictReason::kWriteBehind) take_digest_of_copy(unit);
  const Bytes copied = migration_.statistics().evicted_bytes - before;
  statistics_.by_reason.of(reason).copied_bytes += copied;
  unit.evict_reason = reason;
  if (options_.observer != nullptr) options_.observer->copying_out(moved_unit(unit, copied), reason);
  return {};
}

Status Residency::copy_in(EvictionUnit& unit) {
  const Bytes before = migration_.statistics().restored_bytes;
  if (Status status = migration_.copy_in(unit); !status.ok()) return status;
  take_digest_of_copy(unit);
  const Bytes copied = migration_.statistics().restored_bytes - before;
  set_hollow(unit, false);
  ++statistics_.restores;
  statistics_.by_reason.of(fetches_for_) += {1, copied};
  if (options_.observer != nullptr) options_.observer->fetching(moved_unit(unit, copied), fetches_for_);
  return {};
}

MovedUnit Residency::moved_unit(const EvictionUnit& unit, Bytes bytes) const {
  const Block& block = *unit.whole->block;
  return {unit.begin(), bytes, block.begin(), block.bytes(), block.is_slab()};
}

// The unit has just lost its pages.
void Residency::count_eviction(EvictionUnit& unit) {
  const EvictReason reason = unit.evict_reason.value_or(makes_room_for_);
  unit.evict_reason.reset();
  unit.uploaded = false;
  ++statistics_.evictions;
  ++statistics_.by_reason.of(reason).units;
  if (reason != EvictReason::kSleep) statistics_.given_up_bytes += unit.bytes();
  if (reason == EvictReason::kWriteBehind) statistics_.written_behind_bytes += unit.bytes();
  if (options_.observer != nullptr) options_.observer->evicted(moved_unit(unit, unit.bytes()), reason);
}

}  // namespace thermocline
