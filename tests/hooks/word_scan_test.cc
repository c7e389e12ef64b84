// SPDX-License-Identifier: Apache-2.0
#include "hooks/pointers/word_scan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace thermocline {
namespace {

using Found = std::vector<std::pair<Bytes, std::uint64_t>>;

Found scan(const std::vector<unsigned char>& bytes, std::uint64_t to, OwnRange owns, std::size_t skip = 0) {
  Found found;
  const WordScan words(owns);
  words(bytes.data() + skip, bytes.size() - skip, to,
        [&](Bytes offset, std::uint64_t word) { found.emplace_back(offset, word); });
  return found;
}

// The reference, directly from the definition.
Found slow_scan(const std::vector<unsigned char>& bytes, std::uint64_t to, OwnRange owns, std::size_t skip) {
  Found found;
  for (std::size_t offset = 0; skip + offset + 8 <= bytes.size(); ++offset) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + skip + offset, 8);
    if ((to + offset) % 4 == 0 && owns(DeviceAddress{word})) found.emplace_back(offset, word);
  }
  return found;
}

TEST(WordScan, FindsTheFirstAndTheLastWordAndNoneBeyond) {
  constexpr OwnRange owns{0x7000'0000'0000, Bytes{1} << 40};
  std::vector<unsigned char> bytes(200);
  const std::uint64_t first = owns.begin, last = owns.begin + owns.bytes - 1;
  std::memcpy(bytes.data(), &first, 8);
  std::memcpy(bytes.data() + 192, &last, 8);
  EXPECT_EQ(scan(bytes, 0, owns), (Found{{0, first}, {192, last}}));
  bytes.pop_back();
  EXPECT_EQ(scan(bytes, 0, owns), (Found{{0, first}}));
  EXPECT_EQ(scan(bytes, 2, owns), Found()) << "no device reads there";
}

TEST(WordScan, ShortBytesHoldNone) {
  constexpr OwnRange owns{0, ~Bytes{0}};
  for (std::size_t bytes = 0; bytes < 8; ++bytes) {
    EXPECT_TRUE(scan(std::vector<unsigned char>(bytes), 0, owns).empty());
  }
}

TEST(WordScan, FindsWhatIsThereInRandomBytes) {
  std::mt19937_64 random(7);
  // Ranges at any position, across a multiple of 2^32 and at both ends of the address space.
  const OwnRange ranges[] = {{0x7000'0000'0000, Bytes{1} << 40},
                             {0x12'FFFF'F000, 0x2000},
                             {0x0FFF'0000'0000, Bytes{1} << 41},
                             {Bytes{1} << 63, Bytes{1} << 40},
                             {~Bytes{0} - (Bytes{1} << 40), Bytes{1} << 40}};
  for (const OwnRange owns : ranges) {
    for (int turn = 0; turn < 200; ++turn) {
      std::vector<unsigned char> bytes(random() % 700);
      for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
      for (std::size_t at = 0; at + 8 <= bytes.size(); at += 1 + random() % 40) {
        // In the range, or just outside.
        const std::uint64_t word = owns.begin - 8 + random() % (owns.bytes + 16);
        std::memcpy(bytes.data() + at, &word, 8);
      }
      const std::uint64_t to = random() % 8;
      const std::size_t skip = bytes.empty() ? 0 : random() % std::min<std::size_t>(bytes.size(), 16);
      ASSERT_EQ(scan(bytes, to, owns, skip), slow_scan(bytes, to, owns, skip));
    }
  }
}

}  // namespace
}  // namespace thermocline
