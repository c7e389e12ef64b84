// SPDX-License-Identifier: Apache-2.0
// The order of dirty units is that of a list in which each access moves its unit to the end.
#include "offload/residency/dirty_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace thermocline {
namespace {

TEST(DirtyUnits, AreReadInTheOrderOfTheirLastAccesses) {
  std::mt19937 random(1);
  std::array<EvictionUnit, 12> units;
  std::vector<EvictionUnit*> expected;
  DirtyUnits dirty;
  const auto leave = [&](EvictionUnit& unit) {
    dirty.remove(unit);
    unit.state = ResidencyState::kClean;
    std::erase(expected, &unit);
  };
  const auto check = [&] {
    std::vector<EvictionUnit*> found;
    for (EvictionUnit& unit : dirty.in_order()) found.push_back(&unit);
    ASSERT_EQ(found, expected);
  };
  for (int step = 0; step < 20'000; ++step) {
    EvictionUnit& unit = units[random() % units.size()];
    const bool is_there = std::ranges::find(expected, &unit) != expected.end();
    if (is_there && random() % 8 == 0) {
      leave(unit);
    } else {
      std::erase(expected, &unit);
      expected.push_back(&unit);
      unit.state = ResidencyState::kDirty;
      is_there ? dirty.access(unit) : dirty.add(unit);
    }
    dirty.validate();
    EXPECT_EQ(dirty.in_any_order().size(), expected.size());
    if (random() % 5 == 0) {
      check();
      ASSERT_FALSE(HasFatalFailure());
    }
  }
  while (!expected.empty()) leave(*expected.back());
}

TEST(DirtyUnits, PartsAreWhereTheUnitWasThatStoodForThem) {
  for (const bool is_moved : {false, true}) {
    std::array<EvictionUnit, 3> units;
    std::array<EvictionUnit, 2> parts;
    DirtyUnits dirty;
    for (EvictionUnit& unit : units) unit.state = ResidencyState::kDirty, dirty.add(unit);
    for (EvictionUnit& part : parts) part.state = ResidencyState::kDirty;
    dirty.in_order();
    dirty.access(units[0]);
    if (is_moved) dirty.access(units[1]), dirty.access(units[2]);
    dirty.replace(units[1], parts);
    dirty.validate();
    const auto found = [&] {
      std::vector<EvictionUnit*> all;
      for (EvictionUnit& unit : dirty.in_order()) all.push_back(&unit);
      return all;
    };
    using Units = std::vector<EvictionUnit*>;
    EXPECT_EQ(found(), is_moved ? (Units{&units[0], &parts[0], &parts[1], &units[2]})
                                : (Units{&parts[0], &parts[1], &units[2], &units[0]}));
    dirty.access(parts[0]);
    dirty.validate();
    EXPECT_EQ(found().back(), &parts[0]);
    for (EvictionUnit* const unit : found()) dirty.remove(*unit), unit->state = ResidencyState::kUnmapped;
  }
}

}  // namespace
}  // namespace thermocline
