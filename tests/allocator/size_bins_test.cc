// SPDX-License-Identifier: Apache-2.0
// The structures used in place of trees: bins of sizes, with and without an order, and a table of addresses.
#include "allocator/size_bins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "allocator/size_order.h"
#include "allocator/slab_table.h"
#include "tests/support/seeds.h"

namespace thermocline {
namespace {

struct Piece : BinHook<Piece>, SizeHook {
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

TEST(SizeOrder, IsInOrderOfSizeAndOffset) {
  for (const std::uint64_t seed : test_seeds(10)) {
    std::mt19937_64 random(seed);
    std::deque<Piece> pieces;
    std::map<std::pair<std::uint64_t, std::uint64_t>, Piece*> model;
    std::vector<Piece*> in;
    SizeOrder<Piece> order;
    // Few sizes, so that bins get long.
    const std::uint64_t sizes = seed % 2 == 0 ? 4 : 200;
    // Also offsets as addresses of host memory have them.
    const unsigned shift = seed % 4 < 2 ? 20 : 26;
    for (int turn = 0; turn < 2000; ++turn) {
      if (random() % 5 < 3 || in.empty()) {
        const std::uint64_t offset = (random() % 1000 << shift) + pieces.size();
        Piece* const piece = &pieces.emplace_back(offset, 1 + random() % sizes);
        in.push_back(piece);
        order.put(*piece);
        model[{piece->size(), piece->offset()}] = piece;
      } else {
        std::swap(in[random() % in.size()], in.back());
        ASSERT_TRUE(order.has(*in.back()));
        order.remove(*in.back());
        ASSERT_FALSE(order.has(*in.back()));
        model.erase({in.back()->size(), in.back()->offset()});
        in.pop_back();
      }
      const std::uint64_t size = 1 + random() % (sizes + 2);
      const auto best = model.lower_bound({size, 0});
      ASSERT_EQ(order.fit(size), best == model.end() ? nullptr : best->second);
      if (turn % 50 != 0) continue;
      std::vector<Piece*> all, of_size, falling;
      order.each([&](Piece& piece) { all.push_back(&piece); });
      order.each_of(size, [&](Piece& piece) {
        of_size.push_back(&piece);
        return of_size.size() < 5;
      });
      order.each_from_largest([&](Piece& piece) {
        falling.push_back(&piece);
        return falling.size() < 5;
      });
      std::vector<Piece*> expected, expected_of_size;
      for (const auto& [key, piece] : model) {
        expected.push_back(piece);
        if (key.first == size && expected_of_size.size() < 5) expected_of_size.push_back(piece);
      }
      ASSERT_EQ(all, expected);
      ASSERT_EQ(of_size, expected_of_size);
      std::reverse(expected.begin(), expected.end());
      expected.resize(std::min<std::size_t>(expected.size(), 5));
      ASSERT_EQ(falling, expected);
    }
    ASSERT_EQ(order.check(), model.size());
    order.clear();
    ASSERT_EQ(order.check(), 0u);
    ASSERT_EQ(order.fit(1), nullptr);
  }
}

struct TableChunk {
  DeviceAddress address_;
  bool is_hole_ = true;
  TableChunk* right_ = nullptr;
};

// A slab full of chunks of `spacing`.
template <Windows kWindows>
void compare_table_with_map(std::uint64_t seed, Bytes slab, Bytes spacing) {
  constexpr DeviceAddress kBegin{(std::uint64_t{1} << 40) + 512};
  std::mt19937_64 random(seed);
  TableMemory memory;
  SlabTable<TableChunk> table;
  ASSERT_EQ(table.find(kBegin), nullptr);
  for (const Windows one : {Windows::kNarrow, Windows::kWide}) {
    table.open(kBegin, slab, one, memory);
    table.close(memory);
  }
  table.open(kBegin, slab, kWindows, memory);
  std::vector<TableChunk> chunks(slab / spacing);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    chunks[i].address_ = kBegin + i * spacing;
    chunks[i].right_ = i + 1 < chunks.size() ? &chunks[i + 1] : nullptr;
  }
  std::map<std::uint64_t, TableChunk*> model;
  for (int turn = 0; turn < 20'000; ++turn) {
    // In the second half chunks in use are rare, so that many windows have none.
    TableChunk& chunk = chunks[random() % chunks.size()];
    const std::uint64_t address = chunk.address_.value;
    const auto known = model.find(address);
    std::uint64_t window = 0;
    ASSERT_EQ(table.find(chunk.address_, &window), known == model.end() ? nullptr : known->second);
    if (known != model.end()) {
      table.template remove<kWindows>(&chunk, window);
      chunk.is_hole_ = true;
      model.erase(known);
    } else if (turn < 10'000 || random() % 64 == 0) {
      chunk.is_hole_ = false;
      table.template put<kWindows>(&chunk);
      model[address] = &chunk;
    }
    const std::uint64_t to = kBegin.value + random() % slab;
    const auto behind = model.upper_bound(to);
    ASSERT_EQ(table.last_until(DeviceAddress{to}), behind != model.begin() ? std::prev(behind)->second : nullptr);
    ASSERT_EQ(table.find(DeviceAddress{address + 1}), nullptr);
    ASSERT_EQ(table.find(DeviceAddress{address - 1}), nullptr);
    if (turn % 500 == 0) table.validate();
  }
  for (const std::uint64_t outside : {std::uint64_t{0}, kBegin.value - 512, kBegin.value + slab})
    ASSERT_EQ(table.find(DeviceAddress{outside}), nullptr);
  for (const auto& [address, chunk] : model) {
    std::uint64_t window = 0;
    ASSERT_EQ(table.find(chunk->address_, &window), chunk);
    table.template remove<kWindows>(chunk, window);
    chunk->is_hole_ = true;
  }
  table.close(memory);
  memory.validate();
  ASSERT_EQ(table.find(kBegin), nullptr);
}

TEST(SlabTable, SaysWhatAMapSays) {
  for (const std::uint64_t seed : test_seeds(5)) {
    // Eight chunks in a window; one in some; one in most.
    compare_table_with_map<Windows::kNarrow>(seed, 2 * kMiB, 512);
    compare_table_with_map<Windows::kNarrow>(seed, 2 * kMiB, 4608);
    compare_table_with_map<Windows::kWide>(seed, 8 * kMiB, 33 * kKiB);
  }
}

}  // namespace
}  // namespace thermocline
