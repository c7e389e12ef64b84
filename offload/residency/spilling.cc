// SPDX-License-Identifier: Apache-2.0
// When host copies go to the spill file, and come back.
//
//   ahead of need    while the host fills up, the copies whose next use is farthest are written behind the program; they
//                    stay on the host as well
//   no host memory   host memory goes of copies that are in the file as well; then of copies of what is on the device;
//                    else somebody waits for a write
//   wanted           read into host memory, and from there to the device: ahead where a prefetch asks for it, else
//                    whoever needs it waits
//
// A copy in the file is kept until the contents change or go, so that what is only read is written once.
#include <algorithm>
#include <utility>

#include "driver/check.h"
#include "offload/residency/residency.h"

namespace thermocline {
namespace {

// Writes under way: one with the disk, one behind it.
constexpr std::size_t kMostWriting = 4;
// The part of the host limit that is to be free, or free at once, before somebody needs it.
constexpr Bytes kReservePart = 4;

}  // namespace

// Those first whose next use is farthest, as the policy knows it.
void Residency::sort_for_spill(std::vector<EvictionUnit*>* parts) const {
  std::ranges::stable_sort(*parts, [](const EvictionUnit* a, const EvictionUnit* b) {
    if (a->whole->operation != b->whole->operation) return a->whole->operation < b->whole->operation;
    return a->begin() < b->begin();
  });
  if (spill_order_ != nullptr && !parts->empty()) spill_order_->sort(*parts);
}

bool Residency::is_needed_on_host(const EvictionUnit& part) const {
  return &part == needed_on_host_ || migration_.is_kept(part);
}

Bytes Residency::free_host_of_written(Bytes bytes) {
  const FileCopies& files = *migration_.files();
  if (files.on_both_bytes() == 0) return 0;
  std::vector<EvictionUnit*> parts;
  for (PartList* const list : {&clean_, &evicted_}) {
    for (EvictionUnit& part : *list) {
      const bool is_written = part.file != nullptr && part.file->state == FileCopyState::kWritten;
      if (is_written && part.host != nullptr && !is_needed_on_host(part)) parts.push_back(&part);
    }
  }
  sort_for_spill(&parts);
  // What is on the device needs its copy there least; what is about to be brought there needs it most.
  std::ranges::stable_partition(parts, [this](const EvictionUnit* part) { return !is_held(*part) || part->mapped(); });
  std::ranges::stable_partition(parts, [](const EvictionUnit* part) { return part->mapped(); });
  Bytes freed = 0;
  for (EvictionUnit* const part : parts) {
    if (freed >= bytes) break;
    freed += part->host_bytes;
    migration_.free_host_of(*part);
  }
  return freed;
}

// They are copied out again when they leave: the link is faster than a disk.
bool Residency::drop_copies_of_resident(bool in_file) {
  for (EvictionUnit& part : clean_) {
    const bool leaves = part.leaves_for.has_value() && !is_held(part);
    const bool is_wanted = in_file ? part.file != nullptr : part.file == nullptr;
    if (!is_wanted || leaves || part.hollow || part.copy != HostCopy::kCurrent || is_needed_on_host(part)) continue;
    drop_host_copy(part);
    part.leaves_for.reset();
    set_state(part, ResidencyState::kDirty);
    return true;
  }
  return false;
}

bool Residency::may_spill(const EvictionUnit& part) const {
  const bool leaves = !part.mapped() || part.leaves_for.has_value();
  return leaves && part.has_copy() && part.host != nullptr && part.file == nullptr && !part.stays_on_host &&
         !is_needed_on_host(part);
}

bool Residency::begin_spilling(Bytes bytes, std::size_t most) {
  // What is still on the device may yet be used there.
  return begin_spilling_of(evicted_, bytes, most) || (waits_for_file_ && begin_spilling_of(clean_, bytes, most));
}

bool Residency::begin_spilling_of(PartList& list, Bytes bytes, std::size_t most) {
  FileCopies& files = *migration_.files();
  std::vector<EvictionUnit*> parts;
  for (EvictionUnit& part : list) {
    if (may_spill(part) && migration_.has_left(part)) parts.push_back(&part);
  }
  sort_for_spill(&parts);
  bool begun = false;
  for (EvictionUnit* const part : parts) {
    if (bytes == 0 || files.writing() >= most) break;
    bool begins = files.begin_write(*part);
    while (!begins && waits_for_file_ && drop_copies_of_resident(true)) begins = files.begin_write(*part);
    if (!begins && waits_for_file_) files.was_full();
    if (!begins) break;
    if (options_.observer != nullptr) options_.observer->spilling(moved_unit(*part, part->host_bytes));
    begun = true;
    bytes -= std::min(bytes, part->host_bytes);
  }
  files.note_completed();
  return begun;
}

// False: there were none.
bool Residency::forget_failed_writes() {
  bool any = false;
  for (PartList* const list : {&evicted_, &clean_}) {
    for (EvictionUnit& part : *list) any |= std::exchange(part.stays_on_host, false);
  }
  return any;
}

// Host and file are full, and the device is not: what is on the host goes there, so that its copy need not stay.
bool Residency::bring_one_back() {
  for (EvictionUnit& part : evicted_) {
    if (part.host == nullptr || part.file != nullptr || part.whole->dropped || is_needed_on_host(part)) continue;
    if (part.copy != HostCopy::kCurrent || !is_free_to_come(part) || !fetch(part)) continue;
    set_prefetched(part, false);
    return true;
  }
  return false;
}

// Waits for what is on its way to the host and may be written then. False: nothing is, or it is waited for elsewhere.
bool Residency::await_what_may_spill() {
  for (PartList* const list : {&evicted_, &clean_}) {
    const auto leaving = std::ranges::find_if(*list, [this](const EvictionUnit& part) {
      return part.copy == HostCopy::kLeaving && may_spill(part) && !clock_.is_blocked(part.uses);
    });
    if (leaving != list->end()) return migration_.finish(*leaving).ok();
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
      // Carried out at once, and failed: the next one.
      if (begun || (waits_for_file_ && await_what_may_spill())) continue;
      // A disk that was full may have room again.
      if (std::exchange(tries_again, false) && forget_failed_writes()) continue;
      if (!waits_for_file_ || !reads || !bring_one_back()) return false;
      continue;
    }
    if (!waits_for_file_ || !migration_.wait_for(transfer).ok()) return false;
    // What nobody has any more has ended: its memory is free.
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
  // Looked through in vain, and nothing has left since.
  if (statistics_.evictions == nothing_to_spill_at_) return;
  if (!begin_spilling(reserve - at_hand, kMostWriting / 2)) nothing_to_spill_at_ = statistics_.evictions;
}

// False: there is no host memory for it now, or it can not be read.
bool Residency::begin_to_read(EvictionUnit& part, bool makes_room) {
  FileCopies& files = *migration_.files();
  files.note_completed();
  if (!part.in_file_only() || part.file->state == FileCopyState::kReading) return true;
  if (part.file->state == FileCopyState::kUnreadable) return false;
  void* memory = migration_.allocate_for(part);
  while (memory == nullptr && makes_room && make_host_room_again(part.host_bytes, true))
    memory = migration_.allocate_for(part);
  if (memory == nullptr) return false;
  if (options_.observer != nullptr) options_.observer->reading_spilled(moved_unit(part, part.host_bytes));
  files.begin_read(part, memory);
  files.note_completed();
  return true;
}

Status Residency::bring_to_host(EvictionUnit& part) {
  needed_on_host_ = &part;
  if (!part.in_file_only()) return {};
  if (part.file->state == FileCopyState::kUnreadable) part.file->state = FileCopyState::kWritten;
  if (!begin_to_read(part, true)) {
    if (part.file->state != FileCopyState::kUnreadable) return Status::out_of_memory();
  } else if (part.in_file_only() && part.file->state == FileCopyState::kReading) {
    if (Status status = migration_.wait_for(part.file->transfer); !status.ok()) return status;
    migration_.files()->note_completed();
  }
  // It is there as long as nobody says that it is not: the next access reads again.
  return part.in_file_only() ? Status::operating_system() : Status();
}

// Those that the operation needs, at once, as far as there is host memory.
void Residency::begin_to_read_wanted(BlockState& state) {
  for (EvictionUnit& part : state.parts()) {
    if (!state.wants(part) || state.overwrites(part) || !part.in_file_only()) continue;
    if (part.file->state == FileCopyState::kWritten && !begin_to_read(part, false)) return;
  }
}

// A prefetch waits for nobody: false until it has been read.
bool Residency::is_on_host(EvictionUnit& part) {
  if (!part.in_file_only()) return true;
  return begin_to_read(part, true) && !part.in_file_only();
}

}  // namespace thermocline
