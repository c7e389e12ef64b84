// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/regions.h"

#include <gtest/gtest.h>

#include <vector>

namespace thermocline {
namespace {

// Three layers of four rows of 100 bytes, with gaps between rows and between layers.
constexpr Box kBox{.width = 100, .rows = 4, .layers = 3, .pitch = 128, .layer_rows = 6};
constexpr Bytes kSpan = (2 * 6 + 3) * 128 + 100;

// The whole box, in regions that end where a unit ends.
std::vector<Region> divide(const Box& box, Bytes unit) {
  std::vector<Region> regions;
  for (Region region{}; region.first_layer < box.layers; advance(box, &region)) {
    const Bytes at = begin_of({0, box}, region);
    extend_within(box, unit - at % unit, &region);
    regions.push_back(region);
  }
  return regions;
}

// Every byte of the box once and in order, none beyond the unit in which its region begins.
void expect_all(const std::vector<Region>& regions, const Box& box, Bytes unit) {
  std::vector<Bytes> seen, expected;
  for (Bytes layer = 0; layer < box.layers; ++layer) {
    for (Bytes row = 0; row < box.rows; ++row) {
      for (Bytes at = 0; at < box.width; ++at) expected.push_back((layer * box.layer_rows + row) * box.pitch + at);
    }
  }
  for (const Region& region : regions) {
    const Placed part = part_of({0, box}, region);
    EXPECT_EQ(part.at / unit, (part.at + span_of(part.box) - 1) / unit);
    for (Bytes layer = 0; layer < part.box.layers; ++layer) {
      for (Bytes row = 0; row < part.box.rows; ++row) {
        for (Bytes at = 0; at < part.box.width; ++at)
          seen.push_back(part.at + (layer * box.layer_rows + row) * box.pitch + at);
      }
    }
  }
  EXPECT_EQ(seen, expected) << "units of " << unit;
}

TEST(Regions, TogetherAreTheWholeBoxWhereverUnitsEnd) {
  for (Bytes unit = 1; unit <= kSpan + 1; ++unit) expect_all(divide(kBox, unit), kBox, unit);
}

TEST(Regions, AreAsLargeAsTheRoomAllows) {
  EXPECT_EQ(divide(kBox, kSpan).size(), 1u);
  // A layer and a part of the next.
  const std::vector<Region> regions = divide(kBox, 6 * 128 + 2 * 128);
  ASSERT_GE(regions.size(), 2u);
  EXPECT_EQ(regions[0].layers, 1u);
  EXPECT_EQ(regions[0].rows, 4u);
  EXPECT_EQ(regions[1].first_layer, 1u);
  EXPECT_EQ(regions[1].rows, 2u);
}

TEST(Regions, OfRegionsAreRegionsOfTheWhole) {
  const Region region = within({.first_layer = 1, .first_row = 2, .rows = 2}, {.first_row = 1});
  EXPECT_EQ(begin_of({1000, kBox}, region), 1000 + (6 + 3) * 128u);
}

}  // namespace
}  // namespace thermocline
