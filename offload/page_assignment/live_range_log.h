// SPDX-License-Identifier: Apache-2.0
// Who had pages when, in the course of one iteration: what page_homes.h needs to know. Times are counted in changes,
// since pages change hands in that order whatever the device does meanwhile.
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
#include "offload/page_assignment/berths.h"

namespace thermocline {

// Pages that come and go together: a part of a block, or of all that bear one name.
struct PageOwner {
  bool named = false;
  std::uint64_t id = 0;     // its name (berths.h), else the block's serial
  std::uint32_t block = 0;  // of what has no name: the block's index
  PageRange range;          // of the block
  struct Stay {
    // How many changes had been made, with the one that began or ended it. From 0: since before the iteration.
    std::uint32_t from = 0, to = 0;
  };
  std::vector<Stay> stays;  // in order
};

struct LiveRangeChange {
  enum class Kind : std::uint8_t {
    kTakes,    // to be written
    kReturns,  // with a copy
    kUses,     // what has returned is needed from here on
    kFrees,    // its contents are not needed any more
    kLeaves,   // with a copy
  };
  Kind kind = Kind::kTakes;
  std::uint32_t page_owner = 0;
  std::uint64_t nanoseconds = 0;  // what operations take that were submitted before it
};

struct LiveRangeHistory {
  std::vector<PageOwner> page_owners;
  std::vector<LiveRangeChange> changes;
  // Of stays that last beyond the iteration.
  std::uint32_t end() const { return static_cast<std::uint32_t>(changes.size()) + 1; }
};

class LiveRangeLog {
 public:
  using Kind = LiveRangeChange::Kind;

  // `berths`: of the iteration that begins; must stay.
  void begin(const Berths& berths) { berths_ = &berths; }
  // At the beginning of the iteration: it has pages.
  void begins_with(const Block& block, PageRange range);
  // What operations take that have been submitted by now.
  void at(std::uint64_t nanoseconds) { now_ = nanoseconds; }
  void changed(Kind kind, const Block& block, PageRange range);
  // The iteration is over.
  LiveRangeHistory take();

 private:
  struct Key {
    bool named;
    std::uint64_t id, first, count;
    friend auto operator<=>(const Key&, const Key&) = default;  // NOLINT(modernize-use-nullptr)
  };
  struct Known {
    std::uint32_t page_owner = 0;
    bool stays = false;
  };
  Known& known(const Block& block, PageRange range);

  const Berths* berths_ = nullptr;
  std::map<Key, Known> known_;
  LiveRangeHistory history_;
  std::uint64_t now_ = 0;
};

}  // namespace thermocline
