// SPDX-License-Identifier: Apache-2.0
// What the engine knows of a live block beyond the allocator: where its contents are, and who must wait for whom.
//
// A large block leaves and returns in parts, so that it never needs all its room at once before its turn, and gives
// room back while the rest of it is still on its way out. An operation touches all parts of a block.
//
// Invariants (Residency::validate recomputes them):
//   1. A part without pages whose contents are defined has a current host copy (trusting: or one that is leaving, on
//   pages that whoever has them next uses only behind it): contents are never only in memory that is gone.
//   2. copy == kNone exactly when host == nullptr.
//   3. A part is in one list: kDirty or kClean while it has its pages and contents, else kAway; `place` says which.
//   4. kClean holds the parts whose copy is kLeaving or kCurrent; a touch that may write moves them to kDirty and drops
//   the copy.
//   5. pins > 0 implies all parts have pages, or are about to get them within the call that pinned the block.
//   6. The parts of a block cover its pages in order, each once.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <span>

#include "allocator/block.h"
#include "allocator/heap.h"
#include "allocator/stream_clock.h"

namespace thermocline {

// kNone: the device (or nobody) has the contents. kLeaving: a copy out has been submitted. kCurrent: the copy out has
// passed and nothing can have written to the part since.
enum class HostCopy : std::uint8_t { kNone, kLeaving, kCurrent };

// The list a part is in. Each list is in order of last touch, oldest first.
enum class Place : std::uint8_t { kNowhere, kDirty, kClean, kAway };

struct BlockState;

struct BlockPart : boost::intrusive::list_base_hook<> {
  BlockState* whole = nullptr;
  PageRange range;
  void* host = nullptr;  // pinned, host_bytes long
  Bytes host_bytes = 0;
  HostCopy copy = HostCopy::kNone;
  Place place = Place::kNowhere;
  bool covered = false;      // its addresses lead to `host` while it is away (safety_net.h)
  bool prefetched = false;   // brought back for a use to come, and not touched since
  std::uint64_t digest = 0;  // of `host` when that began
  Use leaving;               // the copy out, while kLeaving
  UseSet uses;               // of its pages, beside the block's: our copies, and former users of borrowed pages

  DeviceAddress begin() const;
  Bytes bytes() const;
  bool mapped() const { return place == Place::kDirty || place == Place::kClean; }
};

struct BlockState {
  Block* block = nullptr;
  bool defined = false;    // touched since it was handed out: its contents must survive
  bool may_write = false;  // scratch of the operation in preparation
  std::uint32_t pins = 0;
  std::uint32_t absent_parts = 0;
  UseSet wait_for;  // what any stream must wait for before its next touch: earlier tenants of the pages, our copies
  std::uint64_t operation = 0;  // the last operation that touched it, by the engine's count
  std::uint64_t held = 0;       // the preparation (Residency) that may not lose it
  std::uint64_t listed = 0;     // the resolution (Engine::State) that has it among its operands

  std::span<BlockPart> parts() { return {many ? many.get() : &one, count}; }
  std::span<const BlockPart> parts() const { return {many ? many.get() : &one, count}; }
  bool resident() const { return absent_parts == 0; }

  BlockPart one;                      // where it is the only part
  std::unique_ptr<BlockPart[]> many;  // where there are several
  std::size_t count = 0;
};

inline DeviceAddress BlockPart::begin() const {
  const Block& block = *whole->block;
  return block.begin() + range.first * block.page_bytes();
}
inline Bytes BlockPart::bytes() const { return range.count * whole->block->page_bytes(); }

using PartList = boost::intrusive::list<BlockPart, boost::intrusive::constant_time_size<true>>;

}  // namespace thermocline
