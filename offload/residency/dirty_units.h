// SPDX-License-Identifier: Apache-2.0
// The units on the device that have no current host copy, in the order of their last accesses, oldest first.
//
// Every operation accesses some, and few operations ask for their order. So an access only notes when it was; the units
// that have been accessed since the list was read in order (`moved_`) are put behind all others when it is next read.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

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
    if (unit.moved.is_linked()) moved_.erase(moved_.iterator_to(unit));
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
  // Takes no memory: an operation that has been submitted is always noted.
  void access(EvictionUnit& unit) {
    unit.accessed = ++accesses_;
    if (!unit.moved.is_linked()) moved_.push_back(unit);
  }

  // Units may be removed while it is read; those that are added come last.
  UnitList& in_order() {
    if (moved_.empty()) return list_;
    moved_.sort([](const EvictionUnit& a, const EvictionUnit& b) { return a.accessed < b.accessed; });
    for (EvictionUnit& unit : moved_) list_.splice(list_.cend(), list_, list_.iterator_to(unit));
    moved_.clear();
    return list_;
  }
  const UnitList& in_any_order() const { return list_; }

  void validate() const {
    std::uint64_t newest = 0;
    std::size_t moved = 0;
    for (const EvictionUnit& unit : list_) {
      if (unit.moved.is_linked()) {
        ++moved;
        continue;
      }
      THERMOCLINE_CHECK(unit.accessed >= newest, "units that have not been accessed since are in order");
      newest = unit.accessed;
    }
    THERMOCLINE_CHECK(moved == moved_.size(), "what has been accessed since is in both lists");
    for (const EvictionUnit& unit : moved_)
      THERMOCLINE_CHECK(unit.state == ResidencyState::kDirty && unit.accessed > newest,
                        "what has been accessed since was accessed behind all others");
  }

 private:
  using Moved = boost::intrusive::list<
      EvictionUnit,
      boost::intrusive::member_hook<EvictionUnit, boost::intrusive::list_member_hook<>, &EvictionUnit::moved>,
      boost::intrusive::constant_time_size<false>>;

  // Invariants: units in moved_ are in list_, too. The others in list_ ascend by `accessed` (parts of one have the same),
  // and are all below those in moved_.
  UnitList list_;
  Moved moved_;
  std::uint64_t accesses_ = 0;
};

}  // namespace thermocline
