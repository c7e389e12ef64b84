// SPDX-License-Identifier: Apache-2.0
#include "hooks/statistics.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

TEST(Statistics, LineBeginsWithTheDocumentedFieldsInOrder) {
  EngineStatistics statistics;
  statistics.peak_live_bytes = 1;
  statistics.peak_device_bytes = 2;
  statistics.budget_bytes = 3;
  statistics.peak_host_bytes = 4;
  statistics.evicted_bytes = 5;
  statistics.restored_bytes = 6;
  statistics.allocations = 7;
  statistics.pinned_buffers = 8;
  EXPECT_TRUE(
      statistics_line(statistics)
          .starts_with(
              "peak_live_bytes=1 peak_device_bytes=2 budget_bytes=3 peak_host_bytes=4 evicted_bytes=5 restored_bytes=6 "
              "allocations=7 pinned_buffers=8 "));
}

TEST(Statistics, CountsAddUpAndPeaksDoNot) {
  EngineStatistics first;
  first.peak_device_bytes = 100;
  first.evicted_bytes = 10;
  first.live_bytes = 50;
  EngineStatistics second;
  second.peak_device_bytes = 70;
  second.evicted_bytes = 5;
  second.live_bytes = 20;
  const EngineStatistics all = merge(first, second);
  EXPECT_EQ(all.peak_device_bytes, 100u);
  EXPECT_EQ(all.evicted_bytes, 15u);
  EXPECT_EQ(all.live_bytes, 20u);
}

TEST(Statistics, OfAnEngineThatHasEndedNothingIsHeld) {
  EngineStatistics last;
  last.allocated_bytes = 100;
  last.freed_bytes = 30;
  last.live_bytes = 70;
  last.peak_live_bytes = 90;
  last.size_classes[2].live_bytes = 70;
  const EngineStatistics all = merge(EngineStatistics{}, ended(last));
  EXPECT_EQ(all.live_bytes, 0u);
  EXPECT_EQ(all.freed_bytes, 100u);
  EXPECT_EQ(all.peak_live_bytes, 90u);
  EXPECT_EQ(all.size_classes[2].live_bytes, 0u);
}

TEST(Statistics, OfTwoDevicesAddUpButForWhatIsTheProcesss) {
  EngineStatistics first;
  first.budget_bytes = 100;
  first.live_bytes = 40;
  first.peak_device_bytes = 90;
  first.evictions = 3;
  first.host_limit_bytes = 500;
  first.largest_allocation_bytes = 7;
  first.size_classes[1].buffers = 2;
  EngineStatistics second = first;
  second.live_bytes = 2;
  second.largest_allocation_bytes = 9;
  const EngineStatistics both = add(first, second);
  EXPECT_EQ(both.budget_bytes, 200u);
  EXPECT_EQ(both.live_bytes, 42u);
  EXPECT_EQ(both.peak_device_bytes, 180u);
  EXPECT_EQ(both.evictions, 6u);
  EXPECT_EQ(both.host_limit_bytes, 500u);
  EXPECT_EQ(both.largest_allocation_bytes, 9u);
  EXPECT_EQ(both.size_classes[1].buffers, 4u);
}

TEST(Statistics, OfTwoAuditsTheFirstFaultIsSaid) {
  AuditStatistics first, second, third;
  first.launches = 4;
  second.launches = 5;
  second.fault = 2;
  third.fault = 9;
  const AuditStatistics sum = add(add(first, second), third);
  EXPECT_EQ(sum.launches, 9u);
  EXPECT_EQ(sum.fault, 2u);
}

}  // namespace
}  // namespace thermocline
