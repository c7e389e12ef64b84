// SPDX-License-Identifier: Apache-2.0
#include "hooks/pointers/samples.h"

#include <gtest/gtest.h>

#include <vector>

namespace thermocline {
namespace {

// Which bytes of an upload are looked at.
std::vector<bool> looked_at(Bytes bytes) {
  std::vector<bool> seen(bytes);
  EXPECT_FALSE(any_sample(bytes, [&](Bytes at, Bytes part) {
    for (Bytes i = at; i < at + part; ++i) seen.at(i) = true;
    return false;
  }));
  return seen;
}

TEST(Samples, AreBothEndsAndPartsBetweenWithoutLongGaps) {
  for (const Bytes bytes : {kLeastSampledBytes, kLeastSampledBytes + 12345, 9 * kMiB + 7}) {
    const std::vector<bool> seen = looked_at(bytes);
    Bytes gap = 0, longest = 0, total = 0;
    for (const bool one : seen) {
      gap = one ? 0 : gap + 1;
      longest = std::max(longest, gap);
      total += one ? 1 : 0;
    }
    EXPECT_TRUE(seen[0] && seen[kSampleEvery - 1] && seen[bytes - kSampleEvery] && seen[bytes - 1]);
    EXPECT_EQ(longest, kSampleEvery - kSampleBytes);
    EXPECT_LT(total, bytes / 8);
  }
}

TEST(Samples, EndAtTheFirstThatHoldsSomething) {
  int looks = 0;
  EXPECT_TRUE(any_sample(kLeastSampledBytes, [&](Bytes, Bytes) { return ++looks == 3; }));
  EXPECT_EQ(looks, 3);
}

}  // namespace
}  // namespace thermocline
