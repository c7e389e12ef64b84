// SPDX-License-Identifier: Apache-2.0
// When host copies are written to the spill file, and read back.
//
//   ahead of need    while the host fills up, the copies whose next use is farthest are written in the background; they
//                    stay on the host as well
//   no host memory   frees host memory of copies that are also in the file; then of copies of units on the device; then
//                    waits for a write
//   others want it   moves copies to the file, with waits, as far as other devices need the host memory
//   wanted           reads into host memory, and from there to the device: ahead of need for a prefetch; otherwise the
//                    operation waits
//
// A copy in the file is kept until the contents change or are freed, so that read-only contents are written once.
#include <algorithm>
#include <utility>

#include "driver/check.h"
#include "offload/residency/residency.h"

namespace thermocline {
namespace {

// Writes under way: one with the disk, one behind it.
constexpr std::size_t kMostWriting = 4;
// The share of the host limit that is to be free, or free at once, before somebody needs it.
constexpr Bytes kReservePart = 4;

}  // namespace

// Sorts units by their next use, as the policy knows it, the farthest first.
void Residency::sort_for_spill(std::vector<EvictionUnit*>* units) const {
  std::ranges::stable_sort(*units, [](const EvictionUnit* a, const EvictionUnit* b) {
    if (a->whole->operation != b->whole->operation) return a->whole->operation < b->whole->operation;
    return a->begin() < b->begin();
  });
  if (spill_order_ != nullptr && !units->empty()) spill_order_->sort(*units);
}

bool Residency::is_needed_on_host(const EvictionUnit& unit) const {
  return &unit == needed_on_host_ || migration_.is_kept(unit);
}

Bytes Residency::free_host_of_written(Bytes bytes) {
  const FileCopies& files = *migration_.files();
  if (files.on_both_bytes() == 0) return 0;
  std::vector<EvictionUnit*> units;
  for (UnitList* const list : {&clean_, &evicted_}) {
    for (EvictionUnit& unit : *list) {
      const bool is_written = unit.file != nullptr && unit.file->state == FileCopyState::kWritten;
      if (is_written && unit.host != nullptr && !is_needed_on_host(unit)) units.push_back(&unit);
    }
  }
  sort_for_spill(&units);
  // A unit on the device needs its host copy least; one that is about to be fetched needs it most.
  std::ranges::stable_partition(units, [this](const EvictionUnit* unit) { return !is_held(*unit) || unit->mapped(); });
  std::ranges::stable_partition(units, [](const EvictionUnit* unit) { return unit->mapped(); });
  Bytes freed = 0;
  for (EvictionUnit* const unit : units) {
    if (freed >= bytes) break;
    freed += unit->host_bytes;
    migration_.free_host_of(*unit);
  }
  return freed;
}

// Dropped copies are made again when the units are evicted: the link is faster than a disk.
bool Residency::drop_copies_of_resident(bool in_file) {
  for (EvictionUnit& unit : clean_) {
    const bool leaves = unit.evict_reason.has_value() && !is_held(unit);
    const bool is_wanted = in_file ? unit.file != nullptr : unit.file == nullptr;
    if (!is_wanted || leaves || unit.hollow || unit.copy != HostCopy::kCurrent || is_needed_on_host(unit)) continue;
    drop_host_copy(unit);
    unit.evict_reason.reset();
    set_state(unit, ResidencyState::kDirty);
    return true;
  }
  return false;
}

bool Residency::may_spill(const EvictionUnit& unit) const {
  const bool leaves = !unit.mapped() || unit.evict_reason.has_value();
  return leaves && unit.has_copy() && unit.host != nullptr && unit.file == nullptr && !unit.stays_on_host &&
         !is_needed_on_host(unit);
}

bool Residency::begin_spilling(Bytes bytes, std::size_t most) {
  // Units that are still on the device may yet be used there.
  return begin_spilling_of(evicted_, bytes, most) || (waits_for_file_ && begin_spilling_of(clean_, bytes, most));
}

bool Residency::begin_spilling_of(UnitList& list, Bytes bytes, std::size_t most) {
  FileCopies& files = *migration_.files();
  std::vector<EvictionUnit*> units;
  for (EvictionUnit& unit : list) {
    if (may_spill(unit) && migration_.has_left(unit)) units.push_back(&unit);
  }
  sort_for_spill(&units);
  bool begun = false;
  for (EvictionUnit* const unit : units) {
    if (bytes == 0 || files.writing() >= most) break;
    bool begins = files.begin_write(*unit);
    while (!begins && waits_for_file_ && drop_copies_of_resident(true)) begins = files.begin_write(*unit);
    if (!begins && waits_for_file_) files.was_full();
    if (!begins) break;
    if (options_.observer != nullptr) options_.observer->spilling(moved_unit(*unit, unit->host_bytes));
    begun = true;
    bytes -= std::min(bytes, unit->host_bytes);
  }
  files.note_completed();
  return begun;
}

// Makes copies whose write has failed eligible again. False: there were none.
bool Residency::forget_failed_writes() {
  bool any = false;
  for (UnitList* const list : {&evicted_, &clean_}) {
    for (EvictionUnit& unit : *list) any |= std::exchange(unit.stays_on_host, false);
  }
  return any;
}

// Host and file are full, but the device is not: fetches a unit, so that its host copy need not stay.
bool Residency::fetch_one() {
  for (EvictionUnit& unit : evicted_) {
    if (unit.host == nullptr || unit.file != nullptr || unit.whole->dropped || is_needed_on_host(unit)) continue;
    if (unit.copy != HostCopy::kCurrent || !is_free_to_come(unit) || !fetch(unit)) continue;
    set_prefetched(unit, false);
    return true;
  }
  return false;
}

// Waits for a copy out after which a unit may be written. False: there is none, or it is waited for elsewhere.
bool Residency::await_what_may_spill() {
  for (UnitList* const list : {&evicted_, &clean_}) {
    const auto copying = std::ranges::find_if(*list, [this](const EvictionUnit& unit) {
      return unit.copy == HostCopy::kCopyingOut && may_spill(unit) && !clock_.is_blocked(unit.uses);
    });
    if (copying != list->end()) return migration_.finish(*copying).ok();
  }
  return false;
}

// True: some host memory is free, or will be when copies that use it have passed.
bool Residency::make_host_room(Bytes bytes, bool reads) {
  FileCopies& files = *migration_.files();
  for (bool tries_again = waits_for_file_;;) {
    files.note_completed();
    if (free_host_of_written(bytes) > 0) return true;
    // Not ahead of need: two copies would take each other's memory in turn.
    if (waits_for_file_ && drop_copies_of_resident(false)) return true;
    const bool begun = begin_spilling(bytes, kMostWriting);
    if (files.on_both_bytes() > 0 && free_host_of_written(bytes) > 0) return true;
    const std::shared_ptr<SpillTransfer> transfer = files.next_to_end();
    if (transfer == nullptr) {
      // The write was carried out at once, and failed: try the next unit.
      if (begun || (waits_for_file_ && await_what_may_spill())) continue;
      // A disk that was full may have room again.
      if (std::exchange(tries_again, false) && forget_failed_writes()) continue;
      if (!waits_for_file_ || !reads || !fetch_one()) return false;
      continue;
    }
    if (!waits_for_file_ || !migration_.wait_for(transfer).ok()) return false;
    // A transfer without owner has ended: its memory is free.
    if (files.has_ended()) return true;
  }
}

bool Residency::make_host_room_again(Bytes bytes, bool reads) {
  return migration_.files() != nullptr && !migration_.wants_trim() && !clock_.has_deferred() &&
         make_host_room(bytes, reads);
}

void Residency::spill_behind() {
  FileCopies& files = *migration_.files();
  files.note_completed();
  const Bytes limit = migration_.host_limit();
  if (limit == 0) return;
  const Bytes used = std::min(limit, migration_.host_live_bytes());
  const Bytes at_hand = limit - used + files.on_both_bytes() + files.writing_bytes();
  const Bytes reserve = limit / kReservePart;
  if (at_hand >= reserve || files.writing() >= kMostWriting / 2) return;
  // A former search found nothing, and nothing has been evicted since.
  if (statistics_.evictions == nothing_to_spill_at_) return;
  if (!begin_spilling(reserve - at_hand, kMostWriting / 2)) nothing_to_spill_at_ = statistics_.evictions;
}

void Residency::drop_spare_copies() {
  if (host_mappings_.full()) return;
  while (drop_a_stale_copy() || drop_copies_of_resident(false)) {
  }
}

Status Residency::leave_host(Bytes most) {
  const WaitsForFile waits_for_file(*this);
  for (;;) {
    if (Status status = migration_.await_retired(); !status.ok()) return status;
    const Bytes live = migration_.host_live_bytes();
    if (live <= most) return {};
    if (drop_a_stale_copy()) continue;
    if (!make_host_room(live - most, false)) return not_ready_if_put_off(Status::out_of_memory(), false);
  }
}

// False: there is no host memory for the unit now, or it cannot be read.
bool Residency::begin_to_read(EvictionUnit& unit, bool makes_room) {
  FileCopies& files = *migration_.files();
  files.note_completed();
  if (!unit.in_file_only() || unit.file->state == FileCopyState::kReading) return true;
  if (unit.file->state == FileCopyState::kUnreadable) return false;
  void* memory = migration_.allocate_for(unit);
  while (memory == nullptr && makes_room && make_host_room_again(unit.host_bytes, true))
    memory = migration_.allocate_for(unit);
  const bool is_last_way = memory == nullptr && makes_room && waits_for_file_;
  if (is_last_way) memory = migration_.allocate_pageable_for(unit);
  if (memory == nullptr) return false;
  unit.is_pageable = is_last_way;
  if (options_.observer != nullptr) options_.observer->reading_spilled(moved_unit(unit, unit.host_bytes));
  files.begin_read(unit, memory);
  files.note_completed();
  return true;
}

Status Residency::read_to_host(EvictionUnit& unit) {
  needed_on_host_ = &unit;
  if (!unit.in_file_only()) return {};
  if (unit.file->state == FileCopyState::kUnreadable) unit.file->state = FileCopyState::kWritten;
  if (!begin_to_read(unit, true)) {
    if (unit.file->state != FileCopyState::kUnreadable) return Status::out_of_memory();
  } else if (unit.in_file_only() && unit.file->state == FileCopyState::kReading) {
    if (Status status = migration_.wait_for(unit.file->transfer); !status.ok()) return status;
    migration_.files()->note_completed();
  }
  // The contents count as present unless a read failed: the next access reads again.
  return unit.in_file_only() ? Status::operating_system() : Status();
}

// Begins to read all units that the operation needs, at once, as far as there is host memory.
void Residency::begin_to_read_wanted(BlockState& state) {
  for (EvictionUnit& unit : state.units()) {
    if (!state.wants(unit) || state.overwrites(unit) || !unit.in_file_only()) continue;
    if (unit.file->state == FileCopyState::kWritten && !begin_to_read(unit, false)) return;
  }
}

// A prefetch does not wait: false until the unit has been read.
bool Residency::is_on_host(EvictionUnit& unit) {
  if (!unit.in_file_only()) return true;
  return begin_to_read(unit, true) && !unit.in_file_only();
}

}  // namespace thermocline
