// SPDX-License-Identifier: Apache-2.0
// The two structures used in place of trees: bins of sizes, and a table of addresses.
#include "allocator/size_bins.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

#include "allocator/address_table.h"
#include "tests/support/seeds.h"

namespace thermocline {
namespace {

struct Piece : BinHook<Piece> {
  Piece(std::uint64_t offset, std::uint64_t bytes) : offset_(offset), bytes_(bytes) {}
  std::uint64_t offset() const { return offset_; }
  std::uint64_t size() const { return bytes_; }

 private:
  std::uint64_t offset_, bytes_;
};
using Bins = SizeBins<Piece>;

TEST(SizeBins, ASizeIsInABinOfNoneButItsOwnKind) {
  unsigned last = 0;
  for (std::uint64_t size = 1; size < 1'000'000; ++size) {
    const unsigned bin = Bins::bin_of(size);
    ASSERT_TRUE(bin == last || bin == last + 1) << size;
    ASSERT_LT(bin, Bins::kBins);
    last = bin;
  }
  EXPECT_EQ(Bins::bin_of(~std::uint64_t{0}), Bins::kBins - 1);
}

TEST(SizeBins, FindsAFitWhereThereIsOneAndWastesLittle) {
  for (const std::uint64_t seed : test_seeds(20)) {
    std::mt19937_64 random(seed);
    std::deque<Piece> pieces;
    std::multiset<std::uint64_t> sizes;
    std::vector<Piece*> in;
    Bins bins;
    for (int turn = 0; turn < 4000; ++turn) {
      const std::uint64_t size = 1 + random() % (std::uint64_t{1} << (1 + random() % 20));
      if (random() % 2 == 0 || in.empty()) {
        in.push_back(&pieces.emplace_back(pieces.size(), size));
        bins.put(*in.back());
        sizes.insert(size);
      } else {
        std::swap(in[random() % in.size()], in.back());
        ASSERT_TRUE(bins.has(*in.back()));
        bins.remove(*in.back());
        sizes.erase(sizes.find(in.back()->size()));
        in.pop_back();
      }
      Piece* const found = bins.fit(size);
      // A chunk in the bin of the requested size may be missed; a chunk of the next bin may not.
      const auto best = sizes.lower_bound(size);
      const auto sure = sizes.lower_bound(size + size / Bins::kParts + 1);
      if (sure != sizes.end()) {
        ASSERT_NE(found, nullptr);
      }
      if (best == sizes.end()) {
        ASSERT_EQ(found, nullptr);
      }
      if (found == nullptr) continue;
      ASSERT_GE(found->size(), size);
      if (sure != sizes.end()) {
        ASSERT_LE(found->size(), *sure + *sure / Bins::kParts);
      }
    }
    ASSERT_EQ(bins.check(), sizes.size());
  }
}

TEST(SizeBins, TakesTheLowestOfThoseItLooksAt) {
  Bins bins;
  Piece high(300, 10), low(100, 10), middle(200, 10);
  for (Piece* piece : {&high, &low, &middle}) bins.put(*piece);
  EXPECT_EQ(bins.fit(10), &low);
  EXPECT_EQ(bins.fit(7), &low);
}

TEST(ExactBins, FindsTheSmallestFit) {
  for (const std::uint64_t seed : test_seeds(5)) {
    std::mt19937_64 random(seed);
    std::deque<Piece> pieces;
    std::multiset<std::uint64_t> sizes;
    std::vector<Piece*> in;
    ExactBins<Piece> bins;
    for (int turn = 0; turn < 4000; ++turn) {
      if (random() % 2 == 0 || in.empty()) {
        in.push_back(&pieces.emplace_back(pieces.size(), 1 + random() % 80));
        bins.put(*in.back());
        sizes.insert(in.back()->size());
      } else {
        std::swap(in[random() % in.size()], in.back());
        ASSERT_TRUE(bins.has(*in.back()));
        bins.remove(*in.back());
        sizes.erase(sizes.find(in.back()->size()));
        in.pop_back();
      }
      const std::uint64_t size = 1 + random() % ExactBins<Piece>::kLargest;
      const auto best = sizes.lower_bound(size);
      const Piece* const found = bins.fit(size);
      ASSERT_EQ(found == nullptr, best == sizes.end());
      if (found == nullptr) continue;
      // The last bin has all that are at least as large as the largest size.
      ASSERT_GE(found->size(), size);
      if (*best < ExactBins<Piece>::kLargest) {
        ASSERT_EQ(found->size(), *best);
      }
    }
    ASSERT_EQ(bins.check(), sizes.size());
  }
}

TEST(AddressTable, SaysWhatAMapSays) {
  for (const std::uint64_t seed : test_seeds(5)) {
    std::mt19937_64 random(seed);
    std::map<std::uint64_t, int*> model;
    AddressTable<int> table;
    std::vector<int> values(600);
    for (int turn = 0; turn < 20'000; ++turn) {
      const std::size_t which = random() % values.size();
      const std::uint64_t address = (std::uint64_t{1} << 40) + 512 * which;
      const auto known = model.find(address);
      ASSERT_EQ(table.find(DeviceAddress{address}), known == model.end() ? nullptr : known->second);
      ASSERT_EQ(table.find(DeviceAddress{}), nullptr);
      if (known == model.end()) {
        table.put(DeviceAddress{address}, &values[which]);
        model[address] = &values[which];
      } else {
        table.remove(DeviceAddress{address});
        model.erase(known);
      }
      ASSERT_EQ(table.size(), model.size());
      if (turn % 500 == 0) table.validate();
    }
  }
}

}  // namespace
}  // namespace thermocline
