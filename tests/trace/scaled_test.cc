// SPDX-License-Identifier: Apache-2.0
// A recorded program at another batch size.
#include "trace/scaled.h"

#include <gtest/gtest.h>

#include "tests/trace/trace_file.h"

namespace thermocline::test {
namespace {

// A parameter of 1000 bytes, an activation of 64 bytes per sample, an operator of 3 us per sample plus 10 us.
Trace at_batch(int batch, const std::string& last = "b") {
  return read_valid(TraceFile({kHeader, alloc(0, 1000), alloc(1, 64 * batch), op("a", {0}, {1}, 10 + 3 * batch),
                               op(last, {1}, {0}, 5), release(1), step(0)}));
}

TEST(Scaled, BetweenTwoRecordingsEverythingIsOnTheStraightLine) {
  const Trace a = at_batch(8), b = at_batch(32), expected = at_batch(20);
  Trace scaled;
  std::string reason;
  ASSERT_TRUE(scale_trace({&a, 8}, {&b, 32}, 20, &scaled, &reason)) << reason;
  scaled.validate();
  EXPECT_EQ(scaled.buffers[0].bytes, 1000u);
  EXPECT_EQ(scaled.buffers[1].bytes, 64u * 20);
  EXPECT_EQ(scaled.peak_live_bytes, expected.peak_live_bytes);
  EXPECT_DOUBLE_EQ(scaled.operators[0].microseconds, expected.operators[0].microseconds);
  EXPECT_DOUBLE_EQ(scaled.operators[1].microseconds, 5);
}

TEST(Scaled, BeyondTheRecordingsTheLineGoesOnAndNothingBecomesNegative) {
  const Trace a = at_batch(8), b = at_batch(32), expected = at_batch(100);
  Trace scaled;
  std::string reason;
  ASSERT_TRUE(scale_trace({&a, 8}, {&b, 32}, 100, &scaled, &reason)) << reason;
  EXPECT_EQ(scaled.peak_live_bytes, expected.peak_live_bytes);
  ASSERT_TRUE(scale_trace({&a, 8}, {&b, 32}, -100, &scaled, &reason)) << reason;
  EXPECT_EQ(scaled.buffers[1].bytes, 0u);
  EXPECT_DOUBLE_EQ(scaled.operators[0].microseconds, 0);
}

// Another batch size has other slices.
TEST(Scaled, MarksDoNotHoldAtAnotherSize) {
  const auto marked = [](int batch) {
    std::string line = op("a", {}, {0}, 5);
    line.insert(line.size() - 1, ",\"slices\":" + std::to_string(batch) + ",\"split\":[0]");
    return read_valid(TraceFile({kHeader, alloc(0, 64 * batch), line, release(0), step(0)}));
  };
  const Trace a = marked(7), b = marked(14);
  a.validate();
  Trace scaled;
  std::string reason;
  ASSERT_TRUE(scale_trace({&a, 7}, {&b, 14}, 9, &scaled, &reason)) << reason;
  scaled.validate();
  EXPECT_EQ(scaled.operators[0].mark, TraceOperator::kNoMark);
}

TEST(Scaled, TwoProgramsAreNotOneAtTwoSizes) {
  const Trace a = at_batch(8), b = at_batch(32, "c");
  Trace scaled;
  std::string reason;
  EXPECT_FALSE(scale_trace({&a, 8}, {&b, 32}, 20, &scaled, &reason));
  EXPECT_NE(reason.find("operator 1 is 'b'"), std::string::npos) << reason;
  const Trace shorter = read_valid(TraceFile({kHeader, alloc(0, 1000), op("a", {}, {0}, 3), step(0)}));
  EXPECT_FALSE(scale_trace({&a, 8}, {&shorter, 32}, 20, &scaled, &reason));
  EXPECT_NE(reason.find("has 1 on 1"), std::string::npos) << reason;
}

}  // namespace
}  // namespace thermocline::test
