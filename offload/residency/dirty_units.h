// SPDX-License-Identifier: Apache-2.0
// The units on the device that have no current host copy, in the order of their last accesses, oldest first.
//
// Every operation accesses some, and few operations ask for their order. So an access only notes when it was; the units
// that have been accessed since the list was read in order (`moved_`) are put behind all others when it is next read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "driver/check.h"
#include "offload/residency/block_state.h"

namespace thermocline {

class DirtyUnits {
 public:
  // As one that is accessed now.
  void add(EvictionUnit& unit) {
    list_.push_back(unit);
    access(unit);
  }
  void remove(EvictionUnit& unit) {
    list_.erase(list_.iterator_to(unit));
    if (unit.moved == 0) return;
    EvictionUnit* const last = moved_.back();
    moved_[unit.moved - 1] = last;
    last->moved = unit.moved;
    moved_.pop_back();
    unit.moved = 0;
  }
  // Puts `parts`, which are in no list, in the place of the unit that stood for them.
  void replace(EvictionUnit& unit, std::span<EvictionUnit> parts) {
    in_order();
    const UnitList::iterator behind = list_.erase(list_.iterator_to(unit));
    for (EvictionUnit& each : parts) {
      each.accessed = unit.accessed;
      list_.insert(behind, each);
    }
  }
  void access(EvictionUnit& unit) {
    unit.accessed = ++accesses_;
    if (unit.moved == 0) note_move(unit);
  }

  // Units may be removed while it is read; those that are added come last.
  UnitList& in_order() {
    std::ranges::sort(moved_, {}, &EvictionUnit::accessed);
    for (EvictionUnit* const unit : moved_) {
      list_.splice(list_.cend(), list_, list_.iterator_to(*unit));
      unit->moved = 0;
    }
    moved_.clear();
    return list_;
  }
  const UnitList& in_any_order() const { return list_; }

  void validate() const {
    std::uint64_t newest = 0;
    for (const EvictionUnit& unit : list_) {
      const bool is_moved = unit.moved != 0;
      THERMOCLINE_CHECK(!is_moved || (unit.moved <= moved_.size() && moved_[unit.moved - 1] == &unit),
                        "a unit knows its place among those that have been accessed");
      if (is_moved) continue;
      THERMOCLINE_CHECK(unit.accessed >= newest, "units that have not been accessed since are in order");
      newest = unit.accessed;
    }
    for (const EvictionUnit* const unit : moved_)
      THERMOCLINE_CHECK(unit->state == ResidencyState::kDirty && unit->moved != 0 && unit->accessed > newest,
                        "what has been accessed since was accessed behind all others");
  }

 private:
  void note_move(EvictionUnit& unit) {
    moved_.push_back(&unit);
    unit.moved = static_cast<std::uint32_t>(moved_.size());
  }

  // Invariants: moved_[i]->moved == i + 1; `moved` is 0 for all other units. Those in list_ with moved == 0 ascend by
  // `accessed` (parts of one have the same), and are all below those in moved_.
  UnitList list_;
  std::vector<EvictionUnit*> moved_;
  std::uint64_t accesses_ = 0;
};

}  // namespace thermocline
