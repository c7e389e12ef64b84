// SPDX-License-Identifier: Apache-2.0
#include "allocator/bfc.h"

#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/seeds.h"

namespace thermocline {
namespace {

// A tag that uses everything a tag may do: shelves in order and one that is in none, merging only within one color, and a sum over merged chunks.
struct Colour {
  static constexpr unsigned kOrdered = 2, kShelves = 3;
  unsigned colour = 0;
  std::set<int> owners;

  unsigned shelf() const { return colour; }
  bool merges_with(const Colour& right) const { return colour == right.colour; }
  void join(const Colour& right) { owners.insert(right.owners.begin(), right.owners.end()); }
  void clear() {
    colour = 0;
    owners.clear();
  }
};
using Space = Bfc<Colour>;

TEST(Bfc, TakesTheSmallestThatFits) {
  Space space;
  space.add_range(0, 100, {});
  space.add_range(200, 10, {});
  space.add_range(300, 20, {});
  EXPECT_EQ(space.best_fit(0, 11)->offset(), 300u);
  EXPECT_EQ(space.best_fit(0, 5)->offset(), 200u);
  EXPECT_EQ(space.best_fit(0, 101), nullptr);
  EXPECT_EQ(space.best_fit(1, 1), nullptr);
}

TEST(Bfc, TakesTheLowestOfEquals) {
  Space space;
  space.add_range(500, 10, {});
  space.add_range(100, 10, {});
  EXPECT_EQ(space.best_fit(0, 10)->offset(), 100u);
}

TEST(Bfc, NeighboursBecomeOneAgain) {
  Space space;
  auto* first = space.add_range(0, 30, {});
  auto* a = space.take(first, 0, 10);
  auto* b = space.take(space.best_fit(0, 10), 10, 10);
  auto* c = space.take(space.best_fit(0, 10), 20, 10);
  EXPECT_EQ(space.best_fit(0, 1), nullptr);
  space.give(a);
  space.give(c);
  EXPECT_EQ(space.best_fit(0, 11), nullptr);
  space.give(b);
  space.validate();
  EXPECT_EQ(space.best_fit(0, 30), first) << "the chunk that begins a range stays";
  space.remove_range(first);
  space.validate();
}

TEST(Bfc, RangesSideBySideStayApart) {
  Space space;
  space.add_range(0, 10, {});
  space.add_range(10, 10, {});
  auto* a = space.take(space.best_fit(0, 10), 0, 10);
  space.give(a);
  space.validate();
  EXPECT_EQ(space.best_fit(0, 11), nullptr);
}

TEST(Bfc, ATakenRangeMayCrossFreeChunksOfAnyShelfAndCarriesTheirTags) {
  Space space;
  auto* left = space.take(space.add_range(0, 40, {}), 0, 20);
  left->tag.colour = 1;
  left->tag.owners = {7};
  space.give(left);
  space.validate();
  auto* across = space.take(left, 15, 10);
  EXPECT_EQ(across->size(), 10u);
  EXPECT_TRUE(across->tag.owners.contains(7));
  EXPECT_EQ(space.free_size(1), 15u);
  EXPECT_EQ(space.free_size(0), 15u);
  space.validate();
}

TEST(Bfc, TheLastShelfMayBeInNoOrder) {
  Space space;
  auto* left = space.take(space.add_range(0, 40, {}), 0, 10);
  auto* right = space.take(space.best_fit(0, 10), 10, 10);
  for (auto* chunk : {left, right}) {
    chunk->tag.colour = 2;
    chunk->tag.owners = {static_cast<int>(chunk->offset())};
  }
  space.give(left);
  const auto found = [&space] {
    std::set<std::uint64_t> offsets;
    space.for_each_on(2, [&](const auto& chunk) { offsets.insert(chunk.offset()); });
    return offsets;
  };
  EXPECT_EQ(found(), (std::set<std::uint64_t>{0}));
  EXPECT_EQ(space.give(right), left) << "they are merged as any others";
  EXPECT_EQ(space.free_size(2), 20u);
  space.validate();
  auto* middle = space.take(left, 5, 10);
  EXPECT_EQ(found(), (std::set<std::uint64_t>{0, 15}));
  space.validate();
  space.give(middle);
  EXPECT_EQ(found(), (std::set<std::uint64_t>{0}));
  space.validate();
}

// A simple model: the color of each free granule.
class Model {
 public:
  Model(std::uint64_t seed) : random_(seed), granules_(kSize, kFree) { first_ = space_.add_range(kBase, kSize, {}); }

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      switch (random_() % 4) {
        case 0:
        case 1:
          take();
          break;
        case 2:
          give();
          break;
        default:
          split();
          break;
      }
      check();
    }
    for (auto* chunk : used_) space_.give(chunk);
  }

 private:
  static constexpr std::uint64_t kBase = 1000;
  static constexpr std::uint64_t kSize = 64;
  static constexpr int kFree = 0;
  static constexpr int kUsed = 2;

  void take() {
    const unsigned shelf = static_cast<unsigned>(random_() % 2);
    const std::uint64_t size = 1 + random_() % 12;
    auto* fit = space_.best_fit(shelf, size);
    // The reference: the shortest maximal run of that color that is long enough; among equals the first.
    std::uint64_t best = kSize + 1, at = 0;
    for (std::uint64_t i = 0; i < kSize;) {
      std::uint64_t end = i;
      while (end < kSize && granules_[end] == granules_[i]) ++end;
      if (granules_[i] == static_cast<int>(shelf) && end - i >= size && end - i < best) {
        best = end - i;
        at = i;
      }
      i = end;
    }
    ASSERT_EQ(fit != nullptr, best <= kSize);
    if (fit == nullptr) return;
    ASSERT_EQ(fit->offset(), kBase + at);
    ASSERT_EQ(fit->size(), best);
    const std::uint64_t inside = random_() % (best - size + 1);
    auto* chunk = space_.take(fit, fit->offset() + inside, size);
    ASSERT_EQ(chunk->offset(), kBase + at + inside);
    std::fill_n(granules_.begin() + static_cast<long>(at + inside), size, kUsed);
    used_.push_back(chunk);
  }

  void give() {
    if (used_.empty()) return;
    const std::size_t which = random_() % used_.size();
    auto* chunk = used_[which];
    used_.erase(used_.begin() + static_cast<long>(which));
    chunk->tag.colour = static_cast<unsigned>(random_() % 2);
    std::fill_n(granules_.begin() + static_cast<long>(chunk->offset() - kBase), chunk->size(),
                static_cast<int>(chunk->tag.colour));
    auto* merged = space_.give(chunk);
    EXPECT_TRUE(merged->is_free());
  }

  void split() {
    if (used_.empty()) return;
    auto* chunk = used_[random_() % used_.size()];
    if (chunk->size() < 2) return;
    used_.push_back(space_.split(chunk, 1 + random_() % (chunk->size() - 1)));
  }

  void check() {
    space_.validate();
    std::uint64_t free[2] = {};
    for (const int granule : granules_) {
      if (granule != kUsed) ++free[granule];
    }
    EXPECT_EQ(space_.free_size(0), free[0]);
    EXPECT_EQ(space_.free_size(1), free[1]);
  }

  std::mt19937_64 random_;
  std::vector<int> granules_;
  Space space_;
  Space::Chunk* first_;
  std::vector<Space::Chunk*> used_;
};

TEST(Bfc, AgreesWithAnArrayOfGranulesForRandomOperations) {
  for (const std::uint64_t seed : test_seeds(2000)) {
    SCOPED_TRACE(seed);
    Model(seed).run(100);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace thermocline
