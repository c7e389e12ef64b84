// SPDX-License-Identifier: Apache-2.0
#include "offload/page_bytes.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

constexpr Bytes kSmallest = 2 * kMiB;

TEST(PageBytes, GrowWithTheBudget) {
  EXPECT_EQ(page_bytes_for(16 * kMiB, 0, kSmallest), 2 * kMiB);
  EXPECT_EQ(page_bytes_for(1023 * kMiB, 0, kSmallest), 2 * kMiB);
  EXPECT_EQ(page_bytes_for(1024 * kMiB, 0, kSmallest), 4 * kMiB);
  EXPECT_EQ(page_bytes_for(3500 * kMiB, 0, kSmallest), 8 * kMiB);
  EXPECT_EQ(page_bytes_for(5300 * kMiB, 0, kSmallest), 16 * kMiB);
  EXPECT_EQ(page_bytes_for(Bytes{80} << 30, 0, kSmallest), 16 * kMiB);
}

TEST(PageBytes, AreWhatTheDeviceCanHave) {
  EXPECT_EQ(page_bytes_for(64 * kMiB, 0, 32 * kMiB), 32 * kMiB);
  EXPECT_EQ(page_bytes_for(Bytes{80} << 30, kMiB, kSmallest), 2 * kMiB);
  EXPECT_EQ(page_bytes_for(Bytes{80} << 30, 12 * kMiB, kSmallest), 8 * kMiB);
  EXPECT_EQ(page_bytes_for(Bytes{80} << 30, 64 * kMiB, kSmallest), 32 * kMiB);
}

TEST(PageBytes, LeaveSeveralInABudget) { EXPECT_EQ(page_bytes_for(64 * kMiB, 64 * kMiB, kSmallest), 8 * kMiB); }

}  // namespace
}  // namespace thermocline
