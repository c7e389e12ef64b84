// SPDX-License-Identifier: Apache-2.0
// Replays of a program that allocates its buffers once: plans drop what a step leaves in them between two uses, and behind
// the last one. The checksum is also of what nobody reads any more when the program ends.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trace/replay_terms.h"
#include "tests/trace/trace_file.h"
#include "trace/replay.h"

namespace thermocline::test {
namespace {

constexpr int kLayers = 8, kLoss = 1 + 2 * kLayers;
constexpr std::size_t kSteps = 12;
constexpr Bytes kActivation = 8 * kMiB, kWeights = 512 * kKiB;

// Which step reads what an earlier one has left; or none does.
enum class Reads { kOwn, kOfTheStepBefore, kOfTheStepBeforeSometimes };

// Activations forward, each made of the one before and of weights, and updated in place; backward each is read, and then
// its weights are updated in place.
Trace program(Reads reads, int streams) {
  const auto weights = [](int layer) { return 1 + layer; };
  const auto out = [](int layer) { return 1 + kLayers + layer; };
  std::vector<std::string> lines{kHeader, alloc(0, static_cast<long long>(kActivation)), op("init", {}, {0}, 10)};
  for (int layer = 0; layer < kLayers; ++layer) {
    lines.push_back(alloc(weights(layer), static_cast<long long>(kWeights)));
    lines.push_back(op("init", {}, {weights(layer)}, 10));
    lines.push_back(alloc(out(layer), static_cast<long long>(kActivation)));
    lines.push_back(op("init", {}, {out(layer)}, 10));
  }
  lines.push_back(alloc(kLoss, static_cast<long long>(kWeights)));
  for (int step = 0; step < static_cast<int>(kSteps); ++step) {
    const bool reads_left = reads == Reads::kOfTheStepBefore || (reads != Reads::kOwn && step % 4 == 3);
    if (reads_left) lines.push_back(op("again", {out(kLayers / 2)}, {kLoss}, 15));
    for (int layer = 0; layer < kLayers; ++layer) {
      const int before = layer == 0 ? 0 : out(layer - 1), stream = layer % streams;
      lines.push_back(op("make", {before, weights(layer)}, {out(layer)}, 15, stream));
      lines.push_back(op("relu_", {out(layer)}, {out(layer)}, 15, stream));
    }
    for (int i = 0; i < 20; ++i) lines.push_back(op("loss" + std::to_string(i), {out(kLayers - 1)}, {kLoss}, 15));
    for (int layer = kLayers - 1; layer >= 0; --layer) {
      lines.push_back(op("back", {out(layer), weights(layer), kLoss}, {kLoss}, 15, layer % streams));
      lines.push_back(op("descend", {weights(layer), kLoss}, {weights(layer)}, 15, layer % streams));
    }
    lines.push_back(test::step(step));
  }
  return read_valid(TraceFile(lines));
}

TEST(LastingContents, AreDroppedByPlansWithTheSameChecksum) {
  for (const Reads reads : {Reads::kOwn, Reads::kOfTheStepBefore, Reads::kOfTheStepBeforeSometimes}) {
    SCOPED_TRACE(static_cast<int>(reads));
    const Trace trace = program(reads, reads == Reads::kOwn ? 2 : 1);
    const Bytes budget = trace.peak_live_bytes / 2;
    const std::uint64_t expected = run(trace, {.policy = kNoPolicy, .recompute = Recompute::kOff}).checksum;
    for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), {1}}) {
      const ReplayResult result = run(trace, {.budget = budget, .seed = seed});
      EXPECT_EQ(result.checksum, expected);
      EXPECT_LE(result.peak_device_bytes, budget);
      EXPECT_GT(result.statistics.recomputed_buffers, 0u);
    }
  }
}

TEST(LastingContents, SaveMostCopiesAndMostOfTheirTime) {
  const Trace trace = program(Reads::kOwn, 1);
  const Bytes budget = trace.peak_live_bytes / 2;
  const ReplayStep copies = run(trace, {.budget = budget, .recompute = Recompute::kOff}).steps.back();
  const ReplayStep drops = run(trace, {.budget = budget}).steps.back();
  EXPECT_GT(drops.recomputed_operations, 0u);
  EXPECT_LT(drops.evicted_bytes, copies.evicted_bytes / 2);
  EXPECT_LT(drops.ms, 0.75 * copies.ms);
}

}  // namespace
}  // namespace thermocline::test
