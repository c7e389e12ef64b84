// SPDX-License-Identifier: Apache-2.0
#include "hooks/pointers/uploads.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>

#include "hooks/interpose/own_memory.h"

namespace thermocline {
namespace {

TEST(OwnMemory, IsReadWhereItIsAndToldFromWhatIsGone) {
  constexpr std::size_t kBytes = 8192;
  void* const at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  std::memset(at, 7, kBytes);
  const auto address = reinterpret_cast<std::uint64_t>(at);
  for (const auto read : {read_own_memory, read_through_file}) {
    std::array<unsigned char, 64> bytes{};
    EXPECT_EQ(read(address + 100, bytes.data(), bytes.size()), Reading::kRead);
    EXPECT_EQ(bytes[0], 7);
    EXPECT_EQ(bytes[63], 7);
  }
  ASSERT_EQ(munmap(at, kBytes), 0);
  for (const auto read : {read_own_memory, read_through_file}) {
    unsigned char byte = 0;
    EXPECT_EQ(read(address, &byte, 1), Reading::kGone);
  }
}

}  // namespace
}  // namespace thermocline
