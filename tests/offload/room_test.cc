// SPDX-License-Identifier: Apache-2.0
// Compares the tree with a search through all places.
#include "offload/planning/room.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace thermocline {
namespace {

std::size_t walk(const std::vector<double>& places, double amount, std::size_t end) {
  std::size_t first = end;
  while (first > 0 && places[first - 1] >= amount) --first;
  return first;
}

TEST(Room, AnswersAsAWalkOverAllPlacesDoes) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const std::size_t count = 1 + random() % 70;
    std::vector<double> places(count);
    for (double& place : places) place = static_cast<double>(random() % 100);
    Room room(places);
    for (int step = 0; step < 200; ++step) {
      const std::size_t end = random() % (count + 1);
      const auto amount = static_cast<double>(random() % 60);
      const std::size_t first = room.first_with(amount, end);
      ASSERT_EQ(first, walk(places, amount, end)) << "seed " << seed << " step " << step;
      // Sometimes more than there is: slack may be negative.
      const std::size_t begin = random() % 4 == 0 ? random() % (end + 1) : first;
      room.take(begin, end, amount);
      for (std::size_t i = begin; i < end; ++i) places[i] -= amount;
    }
  }
}

TEST(Room, OfNoPlacesIsEmpty) {
  Room room({});
  EXPECT_EQ(room.first_with(1, 0), 0u);
  room.take(0, 0, 1);
}

}  // namespace
}  // namespace thermocline
