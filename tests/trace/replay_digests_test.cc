// SPDX-License-Identifier: Apache-2.0
// Replays with digests: the device finds out what was written, as in a program, where --exact tells it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "driver/page_size.h"
#include "tests/trace/checked_replay.h"
#include "tests/trace/trace_file.h"
#include "trace/replay.h"

namespace thermocline::test {
namespace {

constexpr Bytes kPage = kDefaultPageBytes;
constexpr int kLayers = 8, kSteps = 10;

enum class Knowledge { kExact, kDigests, kNeither };

// Layers of three pages that each step reads in order, and again from the last one on; `trains`: and then changes.
Trace layers(bool trains) {
  std::vector<std::string> lines{kHeader};
  const int input = kLayers;
  for (int layer = 0; layer < kLayers; ++layer) lines.push_back(alloc(layer, 3 * static_cast<long long>(kPage)));
  lines.push_back(alloc(input, static_cast<long long>(kPage)));
  for (int layer = 0; layer < kLayers; ++layer) lines.push_back(op("fill", {}, {layer}, 50));
  for (int step_number = 0; step_number < kSteps; ++step_number) {
    for (int layer = 0; layer < kLayers; ++layer) lines.push_back(op("forth", {layer, input}, {input}, 50));
    for (int layer = kLayers; layer-- > 0;) lines.push_back(op("back", {layer, input}, {input}, 50));
    for (int layer = 0; trains && layer < kLayers; ++layer) lines.push_back(op("descend", {layer}, {layer}, 50));
    lines.push_back(step(step_number));
  }
  return read_valid(TraceFile(lines));
}

ReplayResult run(const Trace& trace, Knowledge knowledge, std::optional<std::uint64_t> seed = {}) {
  ReplayOptions options;
  options.device.seed = seed;
  options.engine.budget_bytes = 16 * kPage;
  options.engine.policy = kLearnedPolicy;
  options.exact = knowledge == Knowledge::kExact;
  if (knowledge == Knowledge::kDigests) options.engine.digests = DigestUse::kAuto;
  ReplayResult result = checked_replay(trace, options);
  EXPECT_EQ(result.outcome, ReplayOutcome::kOk);
  return result;
}

Bytes traffic(const ReplayStep& step) { return step.evicted_bytes + step.restored_bytes; }

TEST(ReplayDigests, WhatIsOnlyReadIsNotCopiedOutAgain) {
  const Trace trace = layers(false);
  const ReplayResult exact = run(trace, Knowledge::kExact), digests = run(trace, Knowledge::kDigests),
                     neither = run(trace, Knowledge::kNeither);
  EXPECT_EQ(digests.checksum, exact.checksum);
  EXPECT_EQ(neither.checksum, exact.checksum);
  EXPECT_GT(digests.statistics.digests, 0u);
  EXPECT_EQ(digests.statistics.digests_unavailable, 0u);
  EXPECT_GT(neither.steps.back().evicted_bytes, 0u);
  EXPECT_EQ(exact.steps.back().evicted_bytes, 0u);
  EXPECT_EQ(digests.steps.back().evicted_bytes, 0u);
  EXPECT_LE(traffic(digests.steps.back()), traffic(exact.steps.back()) * 102 / 100);
}

TEST(ReplayDigests, WhatChangesInEachStepIsCopiedOutThen) {
  const Trace trace = layers(true);
  const ReplayResult exact = run(trace, Knowledge::kExact), neither = run(trace, Knowledge::kNeither);
  for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(1)}) {
    const ReplayResult digests = run(trace, Knowledge::kDigests, seed);
    EXPECT_EQ(digests.checksum, exact.checksum);
    EXPECT_GT(digests.statistics.changed_units, 0u);
    EXPECT_LE(digests.statistics.evicted_bytes, neither.statistics.evicted_bytes);
  }
}

}  // namespace
}  // namespace thermocline::test
