// SPDX-License-Identifier: Apache-2.0
// What the engine knows of a live block beyond the allocator: where its contents are, and who must wait for whom.
//
// Invariants (Residency::validate recomputes them):
//   1. A block without pages whose contents are defined has a current host copy: contents are never only in memory that
//   is gone.
//   2. copy == kNone exactly when host == nullptr.
//   3. A block is in one list: kDirty or kClean while it has pages, kAway while it has none; `place` says which.
//   4. kClean holds the blocks whose copy is kLeaving or kCurrent; a touch that may write moves the block to kDirty and
//   drops the copy.
//   5. pins > 0 implies the block has pages, or is about to get them within the call that pinned it.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "allocator/block.h"
#include "allocator/stream_clock.h"

namespace thermocline {

// kNone: the device (or nobody) has the contents. kLeaving: a copy out has been submitted. kCurrent: the copy out has
// passed and nothing can have written to the block since.
enum class HostCopy : std::uint8_t { kNone, kLeaving, kCurrent };

// The list a block is in. Each list is in order of last touch, oldest first.
enum class Place : std::uint8_t { kNowhere, kDirty, kClean, kAway };

struct BlockState : boost::intrusive::list_base_hook<> {
  Block* block = nullptr;
  void* host = nullptr;  // pinned, contents_end bytes at the time of the copy
  Bytes host_bytes = 0;
  HostCopy copy = HostCopy::kNone;
  Place place = Place::kNowhere;
  bool defined = false;     // touched since it was handed out: its contents must survive
  bool prefetched = false;  // brought back on a guess, and not touched since
  std::uint32_t pins = 0;
  Use leaving;      // the copy out, while kLeaving
  UseSet wait_for;  // what any stream must wait for before its first touch: earlier tenants of the pages, our copies
  std::uint64_t operation = 0;  // the last operation that touched it, by the engine's count
  std::uint64_t held = 0;       // the preparation (Residency) that may not lose it
  std::uint64_t listed = 0;     // the resolution (Engine::State) that has it among its operands
  bool may_write = false;       // scratch of the operation in preparation
};

using BlockList = boost::intrusive::list<BlockState, boost::intrusive::constant_time_size<true>>;

}  // namespace thermocline
