// SPDX-License-Identifier: Apache-2.0
// What the engine knows of a live block beyond the allocator: where its contents are, and who must wait for whom.
//
// A large block leaves and returns in units, so that it never needs all its room at once before its turn, and gives
// room back while the rest of it is still on its way out. An operation that is given a block's address accesses all of
// its units; one that names ranges (copies, sets) those that the ranges lie in.
//
// A unit that an operation overwrites whole need not have its old contents back. It is `hollow` from the time it gets
// its pages until the operation has been submitted: its host copy is its contents still, and comes back if the
// operation is not submitted after all.
//
// Invariants (Residency::validate recomputes them):
//   1. A unit without pages whose contents are defined has a current host copy (trusting: or one that is being made, on
//   pages that whoever has them next uses only behind it): contents are never only in memory that is gone.
//   2. copy == kNone exactly when it is neither on the host nor in the spill file. A stale copy is no copy: only a unit
//   with its pages has one. What is in the file, or on its way there or back, is kCurrent (file_copy.h).
//   3. A unit is in one list: kDirty or kClean while it has its pages and contents, else kEvicted; `state` says which.
//   4. kClean holds the units whose copy is kCopyingOut or kCurrent; an access that may write moves them to kDirty and
//   drops the copy, or lets it be stale where its digest may show later that nothing was written (clean_drop.cc).
//   5. pins > 0 implies all units have pages; those of one unit, that it has: what is pinned has been brought before.
//   6. The units of a block cover its pages in order, each once.
//   7. A hollow unit has a copy, on the host or in the file.
//   8. No unit of a dropped block has defined contents or a host copy, and no operation accesses it before it has been
//      recomputed.
#pragma once

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

namespace thermocline {

// kNone: the device (or nobody) has the contents. kCopyingOut: a copy out has been submitted, or one on the condition that
// something has changed. kCurrent: the copy out has
// passed and nothing can have written to the unit since. kStale: something may have; its digest is known or on its way.
enum class HostCopy : std::uint8_t { kNone, kCopyingOut, kCurrent, kStale };

// The list a unit is in. Each list is in order of last access, oldest first.
enum class ResidencyState : std::uint8_t { kUnmapped, kDirty, kClean, kEvicted };

struct BlockState;

// What digests say of a unit (clean_drop.cc).
struct Evidence {
  TakenDigest copied;  // of what the host copy holds; kNone: not known
  // How often it has been found changed, and how often no digest is taken of it for that.
  std::uint8_t changed = 0, skip = 0;
  bool proven = false;  // the digest of the copy has saved one
};

struct EvictionUnit : boost::intrusive::list_base_hook<> {
  BlockState* whole = nullptr;
  PageRange range;
  void* host = nullptr;  // pinned, host_bytes long; null also where the copy is in the spill file alone
  Bytes host_bytes = 0;
  std::unique_ptr<FileCopy> file;  // null: none
  HostCopy copy = HostCopy::kNone;
  ResidencyState state = ResidencyState::kUnmapped;
  bool mapped_to_host = false;  // its addresses lead to `host` while it is evicted (host_fallback.h)
  bool used_there = false;      // meanwhile by an operation that is known to (HostMappings::used_where_it_is)
  bool defined = false;         // accessed since its block was handed out: its contents must survive
  bool hollow = false;          // whatever its pages hold, its contents are its host copy
  bool prefetched = false;      // brought back, or kept, for a use to come, and not accessed since
  bool fetched_ahead = false;   // prefetched by a copy; implies prefetched
  bool stays_on_host = false;   // its host copy could not be written to the file since it was made
  bool asleep = false;          // evicted since its program was put to sleep (sleep.cc)
  // Why it was chosen to leave, until it has left, is fetched or accessed.
  std::optional<EvictReason> evict_reason;
  std::uint64_t digest = 0;  // of `host` when that began
  Use copy_out;              // the copy out, while kCopyingOut
  Evidence evidence;
  std::uint32_t pins = 0;  // ranges in it that are held on the device (held_ranges.cc)
  UseSet host_reads;       // copies of the program's that read `host`
  UseSet uses;             // of its pages, beside the block's: our copies, and former users of borrowed pages

  // Scratch of the operation in preparation, which has the block among its operands by ranges (BlockState::listed).
  std::uint64_t named = 0;   // the resolution that named a range in it
  bool may_write = false;    // that is not only read
  bool overwritten = false;  // all of it is written, and nothing is read

  DeviceAddress begin() const;
  Bytes bytes() const;
  bool mapped() const { return state == ResidencyState::kDirty || state == ResidencyState::kClean; }
  // Its contents are on the host, or on their way there.
  bool has_copy() const { return copy == HostCopy::kCopyingOut || copy == HostCopy::kCurrent; }
  // They are in the spill file, or on their way from there, and not on the host.
  bool in_file_only() const { return file != nullptr && host == nullptr; }
  // Or is about to be: what an access changes beside its place among the others.
  bool has_been_moved() const { return copy != HostCopy::kNone || hollow || prefetched || evict_reason.has_value(); }
};

struct BlockState {
  Block* block = nullptr;
  bool dropped = false;  // it has no contents anywhere: they can be recomputed (recompute/versions.h)
  // Scratch of the operation in preparation.
  bool whole = false;      // all units are accessed; else those that `named` says
  bool may_write = false;  // where they are
  std::uint32_t pins = 0;
  std::uint32_t nonresident_units = 0;
  std::uint32_t hollow_units = 0;
  // What any stream must wait for before its next access: earlier page owners of the pages, our copies; and in a slab,
  // what used the bytes of its buffers before. Each buffer's own share of the latter is in Buffer::former.
  UseSet wait_for;
  UseSet former;
  std::uint64_t operation = 0;  // the last operation that accessed it, by the engine's count
  std::uint64_t held = 0;       // the preparation (Residency) that may not lose it
  std::uint64_t listed = 0;     // the resolution (Engine::State) that has it among its operands

  std::span<EvictionUnit> units() { return {many ? many.get() : &one, count}; }
  std::span<const EvictionUnit> units() const { return {many ? many.get() : &one, count}; }
  bool resident() const { return nonresident_units == 0 && hollow_units == 0; }
  bool defined() const;
  // Of the operation in preparation:
  bool wants(const EvictionUnit& unit) const { return whole || unit.named == listed; }
  bool overwrites(const EvictionUnit& unit) const { return !whole && unit.named == listed && unit.overwritten; }
  bool writes(const EvictionUnit& unit) const { return whole ? may_write : unit.may_write; }
  bool only_reads() const;
  // It has been found equal to its host copy since that was made, whatever was submitted that may write (clean_drop.cc).
  bool was_found_unchanged() const;
  bool has_wanted() const;  // on the device, as far as the operation needs it
  Bytes wanted_bytes() const;

  EvictionUnit one;                      // where it is the only unit
  std::unique_ptr<EvictionUnit[]> many;  // where there are several
  std::size_t count = 0;
};

inline DeviceAddress EvictionUnit::begin() const {
  const Block& block = *whole->block;
  return block.begin() + range.first * block.page_bytes();
}
inline Bytes EvictionUnit::bytes() const { return range.count * whole->block->page_bytes(); }

inline bool BlockState::defined() const {
  for (const EvictionUnit& unit : units()) {
    if (unit.defined) return true;
  }
  return false;
}
inline bool BlockState::has_wanted() const {
  if (resident()) return true;
  if (whole) return false;
  for (const EvictionUnit& unit : units()) {
    if (wants(unit) && (!unit.mapped() || (unit.hollow && !overwrites(unit)))) return false;
  }
  return true;
}
inline bool BlockState::only_reads() const {
  if (whole) return !may_write;
  for (const EvictionUnit& unit : units()) {
    if (wants(unit) && writes(unit)) return false;
  }
  return true;
}
inline bool BlockState::was_found_unchanged() const {
  return std::ranges::all_of(units(), [](const EvictionUnit& unit) {
    return unit.evidence.proven || unit.evidence.copied.outcome == TakenDigest::Outcome::kEqual;
  });
}
inline Bytes BlockState::wanted_bytes() const {
  if (whole) return block->bytes();
  Bytes bytes = 0;
  for (const EvictionUnit& unit : units()) bytes += wants(unit) ? unit.bytes() : 0;
  return bytes;
}

using UnitList = boost::intrusive::list<EvictionUnit, boost::intrusive::constant_time_size<true>>;

}  // namespace thermocline
