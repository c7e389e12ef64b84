// SPDX-License-Identifier: Apache-2.0
// The engine's knowledge of a live block beyond the allocator: where its contents are, and who must wait for whom.
//
// A large block is evicted and fetched in units. So it never needs all its room before its turn, and it gives room
// back while the rest of it is still being copied out. An operation that is given a block's address accesses all of
// its units; one that names ranges (copies, sets) accesses the units that the ranges lie in.
//
// A unit that an operation overwrites completely does not need its old contents. It is `hollow` from the time it gets
// its pages until the operation has been submitted: its contents are still its host copy, which is copied back if the
// operation is not submitted after all.
//
// A block that is never evicted, and whose operations name no ranges of it, needs no units. So a block that has all its
// pages when it is handed out is not cut before its units are asked for: until then one unit stands for all of them.
//
// Invariants (Residency::validate recomputes them):
//   1. A unit without pages whose contents are defined has a current host copy (trusting: or one in progress, which the
//      next user of its pages waits for on the device): contents are never only in memory that is gone.
//   2. copy == kNone exactly if there is a copy neither on the host nor in the spill file. A stale copy counts as none:
//      only a unit with pages has one. A copy in the file, or in transfer, is kCurrent (file_copy.h).
//   3. A unit is in one list: kDirty or kClean while it has pages and contents, else kEvicted; `state` says which.
//   4. kClean holds the units whose copy is kCopyingOut or kCurrent. An access that may write moves them to kDirty and
//      drops the copy, or makes it stale if a digest may show later that nothing was written (clean_drop.cc).
//   5. pins > 0 implies that all units (for pins of a unit: the unit) have pages: memory is fetched, then pinned.
//   6. The units of a block cover its pages in order, each once. There are as many as units_of says; or one, which has
//      been moved nowhere and is in kDirty, in an uncut block.
//   7. A hollow unit has a copy, on the host or in the file.
//   8. No unit of a dropped block has defined contents or a host copy, and no operation accesses it before it is
//      recomputed.
#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "allocator/block.h"
#include "allocator/heap.h"
#include "allocator/stream_clock.h"
#include "offload/digest/digests.h"
#include "offload/movement.h"
#include "offload/residency/file_copy.h"
#include "offload/residency/unit_size.h"

namespace thermocline {

// kNone: only the device (or nobody) has the contents. kCopyingOut: a copy out, or one that depends on a digest, has
// been submitted. kCurrent: the copy out is complete, and nothing can have written to the unit since. kStale: something
// may have written; the unit's digest is known or in flight.
enum class HostCopy : std::uint8_t { kNone, kCopyingOut, kCurrent, kStale };

// The list that a unit is in. Each list is in order of last access, oldest first (kDirty: dirty_units.h).
enum class ResidencyState : std::uint8_t { kUnmapped, kDirty, kClean, kEvicted };

struct BlockState;
class DirtyUnits;

// The results of a unit's digests (clean_drop.cc).
struct Evidence {
  TakenDigest copied;  // of the contents of the host copy; kNone: not known
  // How often it was found changed; how many of its next copies get no digest because of that.
  std::uint8_t changed = 0, skip = 0;
  bool proven = false;  // a comparison with this digest has saved a copy
  // It is written to now and then: after a change, so many comparisons have to be equal before it counts as only read.
  std::uint8_t equal_to_come = 2;
};

struct EvictionUnit : boost::intrusive::list_base_hook<> {
  BlockState* whole = nullptr;
  PageRange range;
  void* host = nullptr;  // pinned, host_bytes long; null also if the copy is only in the spill file
  Bytes host_bytes = 0;
  std::unique_ptr<FileCopy> file;  // null: none
  HostCopy copy = HostCopy::kNone;
  ResidencyState state = ResidencyState::kUnmapped;
  bool mapped_to_host = false;  // while evicted, its addresses map to `host` (host_fallback.h)
  bool used_there = false;      // an operation known to the engine used that mapping (HostMappings::used_where_it_is)
  bool defined = false;         // accessed since its block was handed out, so its contents must survive
  bool hollow = false;          // its contents are its host copy, whatever its pages contain
  bool prefetched = false;      // fetched or kept for a future use, and not accessed since
  bool fetched_ahead = false;   // prefetched by a copy; implies prefetched
  bool is_pageable = false;     // its host memory is not pinned: the device can not access it
  bool stays_on_host = false;   // since its host copy was made, writing it to the file has failed
  bool asleep = false;          // evicted since its program was put to sleep (sleep.cc)
  bool uploaded = false;        // its host copy is that of an upload, and has saved no copy out yet (upload_copies.cc)
  bool is_input = false;        // filled again before such a copy had saved anything
  // Why it was chosen for eviction, until it has been evicted, fetched or accessed.
  std::optional<EvictReason> evict_reason;
  std::uint64_t digest = 0;  // digest of `host` when the mapping began
  Use copy_out;              // the copy out, while kCopyingOut
  Evidence evidence;
  std::uint32_t pins = 0;  // ranges in it that are held on the device (held_ranges.cc)
  // While kDirty (dirty_units.h): when it was accessed; linked if that was since the list was read in order.
  std::uint64_t accessed = 0;
  boost::intrusive::list_member_hook<> moved;
  UseSet host_reads;  // copies by the program that read `host`
  UseSet uses;        // uses of its pages beside the block's: our copies, and earlier users of borrowed pages

  // State of the operation in preparation, if it accesses the block by ranges (BlockState::listed).
  std::uint64_t named = 0;   // the resolution that named a range in it
  bool may_write = false;    // the operation does not only read it
  bool overwritten = false;  // the operation writes all of it, and reads nothing

  // As a new one, in no list, that has no copy.
  void reset();

  DeviceAddress begin() const;
  Bytes bytes() const;
  bool mapped() const { return state == ResidencyState::kDirty || state == ResidencyState::kClean; }
  // Its contents are on the host, or are being copied there.
  bool has_copy() const { return copy == HostCopy::kCopyingOut || copy == HostCopy::kCurrent; }
  // Its contents are in the spill file, or are being read from there, and are not on the host.
  bool in_file_only() const { return file != nullptr && host == nullptr; }
  // Has a copy, or a pending movement: an access then changes more than its position in the list.
  bool has_been_moved() const { return copy != HostCopy::kNone || hollow || prefetched || evict_reason.has_value(); }
};

using UnitList = boost::intrusive::list<EvictionUnit, boost::intrusive::constant_time_size<true>>;

struct BlockState {
  Block* block = nullptr;
  std::uint64_t tag = 0;  // of its buffer, if that has the block to itself (Engine::tag); 0: none
  bool dropped = false;   // it has no contents anywhere, but they can be recomputed (recompute/versions.h)
  // Scratch of the operation in preparation.
  bool whole = false;      // all units are accessed; else those marked by `named`
  bool may_write = false;  // where they are
  std::uint32_t pins = 0;
  std::uint32_t nonresident_units = 0;
  std::uint32_t hollow_units = 0;
  // wait_for: what a stream must wait for before its next access: earlier owners of the pages, our copies. former: in a
  // slab, earlier users of the bytes of its buffers (each buffer's own share: Buffer::former).
  UseSet wait_for;
  UseSet former;
  std::uint64_t operation = 0;  // the last operation that accessed it, by the engine's count
  std::uint64_t held = 0;       // the preparation (Residency) during which it must not be evicted
  std::uint64_t listed = 0;     // the resolution (Engine::State) that lists it as an operand

  // Cuts the block if that has not been done.
  std::span<EvictionUnit> units() {
    if (uncut != nullptr) [[unlikely]]
      cut();
    return parts();
  }
  // The units, or the one that stands for all of them: for what is asked of all, or done to all alike.
  std::span<EvictionUnit> parts() { return {count > 1 ? many.get() : &one, count}; }
  std::span<const EvictionUnit> parts() const { return {count > 1 ? many.get() : &one, count}; }
  bool resident() const { return nonresident_units == 0 && hollow_units == 0; }
  bool defined() const;
  // For the operation in preparation:
  bool wants(const EvictionUnit& unit) const { return whole || unit.named == listed; }
  bool overwrites(const EvictionUnit& unit) const { return !whole && unit.named == listed && unit.overwritten; }
  bool writes(const EvictionUnit& unit) const { return whole ? may_write : unit.may_write; }
  bool only_reads() const;
  // Found equal to its host copy since that was made, although something that may write was submitted (clean_drop.cc).
  bool was_found_unchanged() const;
  bool has_wanted() const;  // on the device, as far as the operation needs it
  Bytes wanted_bytes() const;

  // How many units the block has once it is cut.
  std::size_t number_of_units() const { return std::min(units_of(block->bytes()), block->pages()); }
  // Gives the block `number` units; those that it had have been reset.
  void set_count(std::size_t number);
  void place_units();
  // Puts the units where `one` is in its list.
  void cut();
  // As a new one, with the memory that it has. Its units have been reset.
  void reset();

  DirtyUnits* uncut = nullptr;           // the list with `one`, while that stands for several units
  EvictionUnit one;                      // if it is the only unit
  std::unique_ptr<EvictionUnit[]> many;  // if there are several
  std::size_t count = 0;
  std::size_t most = 0;  // the length of `many`, which later blocks of the same index use again
};

inline DeviceAddress EvictionUnit::begin() const {
  const Block& block = *whole->block;
  return block.begin() + range.first * block.page_bytes();
}
inline Bytes EvictionUnit::bytes() const { return range.count * whole->block->page_bytes(); }

inline void EvictionUnit::reset() {
  whole = nullptr;
  mapped_to_host = used_there = defined = hollow = prefetched = fetched_ahead = stays_on_host = asleep = false;
  is_pageable = false;
  uploaded = is_input = false;
  evict_reason.reset();
  digest = 0;
  copy_out = {};
  evidence = {};
  pins = 0;
  host_reads.clear();
  uses.clear();
  named = 0;
  may_write = overwritten = false;
}
inline void BlockState::set_count(std::size_t number) {
  if (number > 1 && number > most) {
    many = std::make_unique<EvictionUnit[]>(number);
    most = number;
  }
  count = number;
}
inline void BlockState::reset() {
  // Few blocks are so large, and an index is not kept for them.
  constexpr std::size_t kMostSpare = 64;
  if (most > kMostSpare) {
    many.reset();
    most = 0;
  }
  block = nullptr;
  tag = 0;
  dropped = whole = may_write = false;
  pins = nonresident_units = hollow_units = 0;
  wait_for.clear();
  former.clear();
  operation = held = listed = 0;
  uncut = nullptr;
  count = 0;
}

inline bool BlockState::defined() const {
  for (const EvictionUnit& unit : parts()) {
    if (unit.defined) return true;
  }
  return false;
}
inline bool BlockState::has_wanted() const {
  if (resident()) return true;
  if (whole) return false;
  for (const EvictionUnit& unit : parts()) {
    if (wants(unit) && (!unit.mapped() || (unit.hollow && !overwrites(unit)))) return false;
  }
  return true;
}
inline bool BlockState::only_reads() const {
  if (whole) return !may_write;
  for (const EvictionUnit& unit : parts()) {
    if (wants(unit) && writes(unit)) return false;
  }
  return true;
}
inline bool BlockState::was_found_unchanged() const {
  return std::ranges::all_of(parts(), [](const EvictionUnit& unit) {
    const Evidence& evidence = unit.evidence;
    return evidence.equal_to_come == 0 && (evidence.proven || evidence.copied.outcome == TakenDigest::Outcome::kEqual);
  });
}
inline Bytes BlockState::wanted_bytes() const {
  if (whole) return block->bytes();
  Bytes bytes = 0;
  for (const EvictionUnit& unit : parts()) bytes += wants(unit) ? unit.bytes() : 0;
  return bytes;
}

}  // namespace thermocline
