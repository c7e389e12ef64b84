// SPDX-License-Identifier: Apache-2.0
// The sizes of memory that a program is told for each value of the setting `advertise`.
#include "hooks/entry/advertise.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

EngineStatistics holding(Bytes bytes) {
  EngineStatistics now;
  now.budget_bytes = 8 * kGiB;
  now.host_limit_bytes = 32 * kGiB;
  now.block_bytes = bytes;
  now.external_bytes = kGiB;
  return now;
}

TEST(Advertise, TheDeviceIsToldAsItIsAndWhatIsEvictedStillCounts) {
  const MemoryTold told = told_memory(Advertise::kDevice, 24 * kGiB, holding(12 * kGiB));
  EXPECT_EQ(told.total_bytes, 24 * kGiB);
  EXPECT_EQ(told.free_bytes, 11 * kGiB);
}

TEST(Advertise, DeviceAndHostTogetherAreBudgetAndHostLimit) {
  const MemoryTold told = told_memory(Advertise::kBudgetAndHost, 24 * kGiB, holding(12 * kGiB));
  EXPECT_EQ(told.total_bytes, 40 * kGiB);
  EXPECT_EQ(told.free_bytes, 27 * kGiB);
}

TEST(Advertise, NothingIsFreeBeyondWhatIsTold) {
  EXPECT_EQ(told_memory(Advertise::kBudget, 24 * kGiB, holding(12 * kGiB)).free_bytes, 0u);
  EXPECT_EQ(told_memory(Advertise::kDevice, 24 * kGiB, holding(40 * kGiB)).free_bytes, 0u);
  EXPECT_EQ(told_memory(Advertise::kDevice, 4 * kGiB, holding(0)).total_bytes, 8 * kGiB);
}

}  // namespace
}  // namespace thermocline
