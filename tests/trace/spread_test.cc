// SPDX-License-Identifier: Apache-2.0
// A recorded program on another number of streams: the same results, whatever the policy, the budget and the order.
#include "trace/spread.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/trace/trace_file.h"
#include "trace/replay.h"

namespace thermocline::test {
namespace {

constexpr DeviceRates kRates{.flops_per_second = 1e12,
                             .memory_bytes_per_second = 1e12,
                             .link_to_device_bytes_per_second = 1e10,
                             .link_to_host_bytes_per_second = 1e10,
                             .launch_seconds = 1e-6};

std::vector<std::uint32_t> streams_of(const Trace& trace, EventKind kind) {
  std::vector<std::uint32_t> streams;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == kind) streams.push_back(event.stream);
  }
  return streams;
}

Trace spread(const std::vector<std::string>& lines, std::uint32_t streams, std::optional<std::uint64_t> seed = {}) {
  Trace trace = read_valid(TraceFile(lines));
  spread_over_streams(streams, kRates, seed, &trace);
  EXPECT_EQ(trace.streams.size(), streams);
  return trace;
}

using Streams = std::vector<std::uint32_t>;

TEST(Spread, AChainStaysInItsStream) {
  const Trace trace = spread({kHeader, alloc(0, 64), alloc(1, 64), alloc(2, 64), op("a", {}, {0}, 5),
                              op("b", {0}, {1}, 5), op("c", {1}, {2}, 5), step(0)},
                             4);
  EXPECT_EQ(streams_of(trace, EventKind::kOperator), Streams({0, 0, 0}));
}

TEST(Spread, WhatDoesNotWaitGoesWhereNothingRuns) {
  const Trace trace =
      spread({kHeader, alloc(0, 64), alloc(1, 64), alloc(2, 64), op("a", {}, {0}, 5), op("b", {}, {1}, 5),
              op("a", {0}, {0}, 5), op("b", {1}, {1}, 5), op("join", {0, 1}, {2}, 5), release(0), step(0)},
             2);
  EXPECT_EQ(streams_of(trace, EventKind::kOperator), Streams({0, 1, 0, 1, 0}));
  // On the stream of the first use, and of the last.
  EXPECT_EQ(streams_of(trace, EventKind::kAllocate), Streams({0, 1, 0}));
  EXPECT_EQ(streams_of(trace, EventKind::kFree), Streams({0}));
}

TEST(Spread, AWriterWaitsForReadersToo) {
  const Trace trace = spread({kHeader, alloc(0, 64), alloc(1, 64), alloc(2, 64), op("make", {}, {0}, 5),
                              op("read", {0}, {1}, 50), op("short", {0}, {2}, 5), op("write", {}, {0}, 5), step(0)},
                             2);
  // "write" can begin on neither stream before "read" has ended, so it goes to the stream of that.
  EXPECT_EQ(streams_of(trace, EventKind::kOperator), Streams({0, 0, 1, 0}));
}

std::vector<std::string> random_steps(int steps) {
  std::vector<std::string> lines{kHeader};
  for (int b = 0; b < 8; ++b) lines.push_back(alloc(b, 4096));
  for (int i = 0; i < steps; ++i) {
    for (int o = 0; o < 40; ++o) lines.push_back(op("mix", {o * 7 % 8}, {(o * 5 + 3) % 8}, 1 + o % 3));
    lines.push_back(step(i));
  }
  return lines;
}

TEST(Spread, EqualStepsAreDealtOutEquallyAndSeedsDiffer) {
  std::set<Streams> ways;
  for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), {1}, {2}, {3}}) {
    const Streams all = streams_of(spread(random_steps(3), 3, seed), EventKind::kOperator);
    const Streams first(all.begin(), all.begin() + 40);
    EXPECT_EQ(Streams(all.begin() + 40, all.begin() + 80), first);
    EXPECT_EQ(Streams(all.begin() + 80, all.end()), first);
    EXPECT_GE(std::set<std::uint32_t>(first.begin(), first.end()).size(), seed ? 3u : 2u);
    ways.insert(first);
  }
  EXPECT_EQ(ways.size(), 4u);
}

// --- Through the library ---

ReplayResult replayed(const Trace& trace, std::size_t steps, Bytes budget, const PolicyEntry* policy,
                      std::optional<std::uint64_t> seed) {
  StepProgram program;
  std::string reason;
  EXPECT_TRUE(plan_steps(trace, steps, &program, &reason)) << reason;
  ReplayOptions options;
  options.device.library = THERMOCLINE_SIMULATED_CUDA;
  options.device.seed = seed;
  options.device.check = true;
  options.engine.budget_bytes = budget;
  options.engine.policy = policy;
  options.rates = kRates;
  ReplayResult result;
  EXPECT_TRUE(replay(trace, program, options, &result, &reason)) << reason;
  EXPECT_EQ(result.outcome, ReplayOutcome::kOk) << result.report;
  EXPECT_EQ(result.races, 0u);
  if (budget != 0) {
    EXPECT_LE(result.peak_device_bytes, budget);
  }
  return result;
}

// The first operator to use it clears it, which is a write like any other.
TEST(Spread, MemoryThatNobodyWroteCanBeReadInTwoStreams) {
  const Trace trace = read_valid(TraceFile({kHeader, alloc(0, 4 << 20, 0), alloc(1, 4 << 20, 0), alloc(2, 4 << 20, 1),
                                            op("a", {0}, {1}, 5, 0), op("b", {0}, {2}, 5, 1), step(0)}));
  const std::uint64_t expected = replayed(trace, 0, 0, kNoPolicy, {}).checksum;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    EXPECT_EQ(replayed(trace, 0, 0, kNoPolicy, seed).checksum, expected);
  }
}

void expect_same_results(const std::string& file, std::size_t steps) {
  Trace recorded;
  TraceError error;
  ASSERT_TRUE(read_trace(file, &recorded, &error)) << error.text();
  const std::uint64_t expected = replayed(recorded, steps, 0, kNoPolicy, {}).checksum;
  const Bytes budget = recorded.peak_live_bytes / 10 * 7;
  for (const auto& [streams, seed] :
       {std::pair(2u, std::optional<std::uint64_t>()), std::pair(5u, std::optional<std::uint64_t>(5))}) {
    Trace trace = recorded;
    spread_over_streams(streams, kRates, seed, &trace);
    EXPECT_EQ(replayed(trace, steps, 0, kNoPolicy, seed).checksum, expected);
    EXPECT_EQ(replayed(trace, steps, budget, kReactivePolicy, seed).checksum, expected);
    const ReplayResult learned = replayed(trace, steps, budget, kLearnedPolicy, seed);
    EXPECT_EQ(learned.checksum, expected);
    EXPECT_GT(learned.statistics.evicted_bytes, 0u);
    if (!seed) {
      EXPECT_GT(learned.statistics.plans, 0u) << "the steps of " << streams << " streams are recognized";
    }
  }
}

TEST(Spread, ConvolutionsGiveTheSameResultsOnAnyNumberOfStreams) {
  expect_same_results(THERMOCLINE_TRACES "/resnet50_b64.jsonl.gz", 5);
}

TEST(Spread, RecurrentNetworksDoSo) { expect_same_results(THERMOCLINE_TRACES "/nmt_b128_t50.jsonl.gz", 4); }

}  // namespace
}  // namespace thermocline::test
