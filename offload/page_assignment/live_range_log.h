// SPDX-License-Identifier: Apache-2.0
// Records which blocks had pages during one iteration, and when, for page_assignment.h. Times are numbers of changes:
// pages change owners in that order, whatever the device does meanwhile.
//
// Guarded by the engine's lock.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "allocator/backing.h"
#include "allocator/block.h"
#include "offload/page_assignment/reserved_addresses.h"

namespace thermocline {

// An owner of pages that come and go together: a unit of a block; or a unit of all blocks that share a name.
struct PageOwner {
  bool named = false;
  std::uint64_t id = 0;     // the name (reserved_addresses.h), else the block's serial
  std::uint32_t block = 0;  // if it has no name: the block's index
  PageRange range;          // of the block
  struct Stay {
    // The live range: the number of changes up to and including the one that began it, and the one that ended it.
    // `from` 0: it began before the iteration.
    std::uint32_t from = 0, to = 0;
  };
  std::vector<Stay> stays;  // in order
};

struct LiveRangeChange {
  enum class Kind : std::uint8_t {
    kTakes,    // gets pages that will be written
    kReturns,  // is fetched
    kUses,     // the fetched contents are needed from here on
    kFrees,    // loses its pages; its contents are not needed any more
    kLeaves,   // is evicted with a copy
  };
  Kind kind = Kind::kTakes;
  std::uint32_t page_owner = 0;
  std::uint64_t nanoseconds = 0;  // total duration of the operations submitted before it
};

struct LiveRangeHistory {
  std::vector<PageOwner> page_owners;
  std::vector<LiveRangeChange> changes;
  // The `to` of live ranges that last beyond the iteration.
  std::uint32_t end() const { return static_cast<std::uint32_t>(changes.size()) + 1; }
};

class LiveRangeLog {
 public:
  using Kind = LiveRangeChange::Kind;

  // `reserved`: the names of the iteration that begins; must outlive it.
  void begin(const ReservedAddresses& reserved) { reservations_ = &reserved; }
  // The unit has pages at the beginning of the iteration.
  void begins_with(const Block& block, PageRange range);
  // Total duration of the operations that have been submitted so far.
  void at(std::uint64_t nanoseconds) { now_ = nanoseconds; }
  void changed(Kind kind, const Block& block, PageRange range);
  // The iteration has ended: returns its history.
  LiveRangeHistory take();

 private:
  struct Key {
    bool named;
    std::uint64_t id, first, count;
    friend auto operator<=>(const Key&, const Key&) = default;  // NOLINT(modernize-use-nullptr)
  };
  struct KnownUnit {
    std::uint32_t page_owner = 0;
    bool stays = false;
  };
  KnownUnit& known(const Block& block, PageRange range);

  const ReservedAddresses* reservations_ = nullptr;
  std::map<Key, KnownUnit> known_;
  LiveRangeHistory history_;
  std::uint64_t now_ = 0;
};

}  // namespace thermocline
