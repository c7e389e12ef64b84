// SPDX-License-Identifier: Apache-2.0
#include "hooks/operands/host_allocations.h"

#include <gtest/gtest.h>

namespace thermocline::test {
namespace {

constexpr Bytes kLarge = 2 * HostAllocations::kSmallBytes;

TEST(HostAllocations, AreFoundByEachOfTheirAddressesAndNoOther) {
  HostAllocations all;
  EXPECT_EQ(all.hull().bytes, 0u);
  all.added(0x5000, 0x1000, HostMemory::kManaged);
  all.added(0x1000, 0x800, HostMemory::kPinned);
  all.added(0x9000, 0, HostMemory::kPinned);
  EXPECT_EQ(all.hull().begin, 0x1000u);
  EXPECT_EQ(all.hull().bytes, 0x5000u);
  for (const std::uint64_t outside : {0xfffu, 0x1800u, 0x4fffu, 0x6000u, 0x9000u})
    EXPECT_FALSE(all.find(outside).has_value()) << outside;
  for (const std::uint64_t inside : {0x1000u, 0x17ffu}) {
    const auto found = all.find(inside);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->begin, 0x1000u);
    EXPECT_EQ(found->bytes, 0x800u);
    EXPECT_EQ(found->memory, HostMemory::kPinned);
  }
  EXPECT_EQ(all.find(0x5fff)->memory, HostMemory::kManaged);
  all.removed(0x1001);
  EXPECT_TRUE(all.find(0x1000).has_value()) << "only the beginning names an allocation";
  all.removed(0x1000);
  EXPECT_FALSE(all.find(0x1000).has_value());
}

TEST(HostAllocations, ReplaceWhatWasAtTheirAddresses) {
  HostAllocations all;
  all.added(0x1000, 0x1000, HostMemory::kManaged);
  all.added(0x2000, 0x1000, HostMemory::kManaged);
  all.added(0x3000, 0x1000, HostMemory::kManaged);
  all.added(0x1800, 0x1000, HostMemory::kPinned);
  EXPECT_FALSE(all.find(0x1000).has_value());
  EXPECT_EQ(all.find(0x1800)->begin, 0x1800u);
  EXPECT_FALSE(all.find(0x2800).has_value());
  EXPECT_EQ(all.find(0x3000)->memory, HostMemory::kManaged);
}

TEST(HostAllocations, OnlyLargeManagedOnesWithoutAddressesAreReadEverMoreRarely) {
  HostAllocations all;
  constexpr std::uint64_t kPinned = 0x100000, kSmall = 0x200000, kData = 0x300000, kTable = 0x400000;
  all.added(kPinned, kLarge, HostMemory::kPinned);
  all.added(kSmall, HostAllocations::kSmallBytes, HostMemory::kManaged);
  all.added(kData, kLarge, HostMemory::kManaged);
  all.added(kTable, kLarge, HostMemory::kManaged);
  all.holds_addresses(kTable);
  std::uint64_t reads = 0;
  for (std::uint64_t operation = 1; operation <= 1024; ++operation) {
    for (const std::uint64_t always : {kPinned, kSmall, kTable}) EXPECT_TRUE(all.is_due(always));
    reads += all.is_due(kData) ? 1 : 0;
  }
  EXPECT_EQ(reads, HostAllocations::kFirstReads + 5) << "the 64th, 128th, 256th, 512th, 1024th";
}

}  // namespace
}  // namespace thermocline::test
