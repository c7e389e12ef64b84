// SPDX-License-Identifier: Apache-2.0
// The tag store against a model that has a tag for every 512 bytes; and hashes of bytes.
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "simulator/core/hash.h"
#include "simulator/core/memory/tag_store.h"

namespace simulator {
namespace {

constexpr Bytes kGrain = 512;
constexpr Bytes kGrains = kPageBytes / kGrain;

struct Cell {
  Tag tag = 0;
  Bytes offset = 0;
};

std::vector<Piece> pieces_of(const std::vector<Cell>& cells, Bytes first, Bytes last) {
  std::vector<Piece> pieces;
  for (Bytes i = first; i < last; ++i) append(pieces, {kGrain, cells[i].tag, cells[i].offset});
  return pieces;
}

void expect_equal(const std::vector<Piece>& found, const std::vector<Piece>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].length, expected[i].length);
    EXPECT_EQ(found[i].tag, expected[i].tag);
    EXPECT_EQ(found[i].offset, expected[i].offset);
  }
}

TEST(TagStoreTest, ReadsWhatAModelReadsAfterRandomWrites) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    TagStore store;
    std::vector<Cell> model(kGrains);
    const auto range = [&](Bytes& first, Bytes& last) {
      const Bytes reach = random() % 8 == 0 ? kGrains : 16;
      first = random() % kGrains;
      last = std::min(kGrains, first + 1 + random() % reach);
      if (random() % 50 == 0) first = 0, last = kGrains;
    };
    for (int step = 0; step < 2000; ++step) {
      Bytes first = 0, last = 0;
      range(first, last);
      const Tag tag = random() % 12;  // some zero, some constant, some with offsets
      const Bytes offset = kGrain * (random() % 3 == 0 ? first : random() % 4);
      store.write(3, first * kGrain, last * kGrain, tag, offset);
      for (Bytes i = first; i < last; ++i) model[i] = {tag, is_constant(tag) ? 0 : offset + (i - first) * kGrain};
      range(first, last);
      std::vector<Piece> found;
      store.read(3, first * kGrain, last * kGrain, found);
      expect_equal(found, pieces_of(model, first, last));
      if (HasFatalFailure()) return;
    }
    store.clear(3);
    std::vector<Piece> found;
    store.read(3, 0, kPageBytes, found);
    expect_equal(found, {{kPageBytes, 0, 0}});
  }
}

TEST(HashTest, EveryBitCounts) {
  std::vector<unsigned char> data(1000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i * 7);
  for (const std::size_t bytes : {1u, 7u, 8u, 63u, 64u, 65u, 1000u}) {
    const std::uint64_t before = hash_bytes(data.data(), bytes, 1);
    for (std::size_t bit = 0; bit < bytes * 8; ++bit) {
      data[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
      EXPECT_NE(hash_bytes(data.data(), bytes, 1), before) << bytes << " bytes, bit " << bit;
      data[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
    }
  }
}

TEST(HashTest, TwoFlippedSignsDoNotCancel) {
  std::vector<double> data(64, 1.5);
  const std::uint64_t before = hash_bytes(data.data(), data.size() * 8, 0);
  for (std::size_t i = 0; i < data.size(); ++i) {
    for (std::size_t j = i + 1; j < data.size(); ++j) {
      data[i] = -data[i], data[j] = -data[j];
      EXPECT_NE(hash_bytes(data.data(), data.size() * 8, 0), before) << i << " " << j;
      data[i] = -data[i], data[j] = -data[j];
    }
  }
}

TEST(HashTest, SwappedWordsAndLengthsCount) {
  const std::uint64_t ab[] = {1, 2, 0}, ba[] = {2, 1, 0};
  EXPECT_NE(hash_bytes(ab, 16, 0), hash_bytes(ba, 16, 0));
  EXPECT_NE(hash_bytes(ab, 16, 0), hash_bytes(ab, 24, 0));
}

}  // namespace
}  // namespace simulator
