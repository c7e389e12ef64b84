// SPDX-License-Identifier: Apache-2.0
#include "allocator/use_set.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace thermocline {
namespace {

Use use(std::uint32_t stream, Ordinal ordinal) { return {StreamIndex{stream}, ordinal}; }

TEST(UseSet, KeepsTheNewestUseOfEachStream) {
  UseSet set;
  set.add(use(3, 5));
  set.add(use(1, 2));
  set.add(use(3, 4));
  set.add(use(1, 9));
  set.validate();
  EXPECT_EQ(set.size(), 2u);
  EXPECT_EQ(set.newest(StreamIndex{3}), 5u);
  EXPECT_EQ(set.newest(StreamIndex{1}), 9u);
  EXPECT_EQ(set.newest(StreamIndex{2}), 0u);
}

TEST(UseSet, KnowsWhetherAllIsOfOneStream) {
  UseSet uses;
  EXPECT_TRUE(uses.is_of_none_but(StreamIndex{0}));
  uses.add({StreamIndex{3}, 7});
  EXPECT_TRUE(uses.is_of_none_but(StreamIndex{3}));
  EXPECT_FALSE(uses.is_of_none_but(StreamIndex{0}));
  uses.add({StreamIndex{1}, 1});
  uses.add({StreamIndex{9}, 1});
  for (const std::uint32_t stream : {1u, 3u, 9u}) EXPECT_FALSE(uses.is_of_none_but(StreamIndex{stream}));
}

TEST(UseSet, DoesNotKeepWhatWasNeverSubmitted) {
  UseSet set;
  set.add(use(0, 0));
  EXPECT_TRUE(set.empty());
}

TEST(UseSet, AgreesWithAMapForRandomUses) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    UseSet a, b;
    std::map<std::uint32_t, Ordinal> reference;
    for (int i = 0; i < 30; ++i) {
      const auto stream = static_cast<std::uint32_t>(random() % 10);
      const Ordinal ordinal = random() % 20;
      (i % 2 == 0 ? a : b).add(use(stream, ordinal));
      reference[stream] = std::max(reference[stream], ordinal);
    }
    a.join(b);
    a.validate();
    for (const auto& [stream, ordinal] : reference) {
      EXPECT_EQ(a.newest(StreamIndex{stream}), ordinal);
    }
  }
}

TEST(UseSet, DoesAtOnceWhatItDoesOtherwise) {
  std::mt19937_64 random(7);
  int joined = 0, assigned = 0;
  for (int round = 0; round < 2'000; ++round) {
    UseSet a, b;
    for (std::uint64_t i = random() % 4; i > 0; --i) a.add(use(static_cast<std::uint32_t>(random() % 3), random() % 4));
    for (std::uint64_t i = random() % 4; i > 0; --i) b.add(use(static_cast<std::uint32_t>(random() % 3), random() % 4));
    UseSet expected = a, found = a;
    expected.join(b);
    if (a.can_join_at_once(b)) {
      ++joined;
      found.join_at_once(b);
      found.validate();
      EXPECT_EQ(found, expected);
    }
    if (!a.is_inline() || !b.is_inline()) continue;
    ++assigned;
    found.assign_at_once(b);
    found.validate();
    EXPECT_EQ(found, b);
  }
  EXPECT_GT(joined, 500);
  EXPECT_GT(assigned, 500);
}

}  // namespace
}  // namespace thermocline
