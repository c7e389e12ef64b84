// SPDX-License-Identifier: Apache-2.0
#include "allocator/pending_log.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

UseSet use_of(std::uint32_t stream, Ordinal ordinal) {
  UseSet uses;
  uses.add({StreamIndex{stream}, ordinal});
  return uses;
}

TEST(PendingLog, AnswersForEachTimeWhatWasPendingThen) {
  PendingLog log;
  const FreeTime first = log.add(use_of(1, 10)), second = log.add(use_of(2, 5));
  EXPECT_LT(first, second);
  EXPECT_EQ(log.at(first), use_of(1, 10));
  EXPECT_EQ(log.at(second), use_of(2, 5));
  EXPECT_TRUE(log.at(0).empty()) << "never freed";
}

TEST(PendingLog, WhatIsJoinedIsPendingAtLeastAsLong) {
  PendingLog log;
  constexpr std::size_t kTimes = 3 * PendingLog::kMost;
  std::vector<FreeTime> times;
  for (std::size_t i = 0; i < kTimes; ++i) times.push_back(log.add(use_of(static_cast<std::uint32_t>(i % 3), i + 1)));
  for (std::size_t i = 0; i < kTimes; ++i) {
    EXPECT_GE(log.at(times[i]).newest(StreamIndex{static_cast<std::uint32_t>(i % 3)}), i + 1);
  }
  EXPECT_EQ(log.at(times.back()), use_of((kTimes - 1) % 3, kTimes)) << "the newest are known exactly";
}

}  // namespace
}  // namespace thermocline
