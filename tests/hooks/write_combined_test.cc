// SPDX-License-Identifier: Apache-2.0
#include "hooks/pointers/write_combined.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace thermocline {
namespace {

// For any beginning and any length: every byte, and no other.
TEST(WriteCombined, IsReadToTheByte) {
  std::vector<unsigned char> from(1024);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 37 + 11);
  for (std::size_t begin = 0; begin < 130; ++begin) {
    for (const std::size_t bytes : {0, 1, 15, 16, 63, 64, 65, 127, 128, 200, 511, 800}) {
      std::vector<unsigned char> to(bytes + 2, 0xEE);
      read_write_combined(to.data() + 1, from.data() + begin, bytes);
      ASSERT_EQ(std::memcmp(to.data() + 1, from.data() + begin, bytes), 0) << begin << " " << bytes;
      ASSERT_EQ(to.front(), 0xEE);
      ASSERT_EQ(to.back(), 0xEE);
    }
  }
}

}  // namespace
}  // namespace thermocline
