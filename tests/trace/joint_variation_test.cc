// SPDX-License-Identifier: Apache-2.0
// Replays with recomputation and copies planned together where steps are not all alike: operators take up to a quarter more
// or less time than learned, several streams, layers and sizes that differ from step to step.
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trace/replay_terms.h"
#include "tests/trace/trace_file.h"
#include "trace/replay.h"

namespace thermocline::test {
namespace {

constexpr int kMostLayers = 8, kSteps = 18;
constexpr Bytes kWeights = 512 * kKiB, kInput = 8 * kMiB;
constexpr const char* kFaults = "THERMOCLINE_SIMULATE_FAULTS";

enum class Shapes { kSame, kTwoLengthsInTurn, kTwoSizesInTurn, kAny };

struct Shape {
  int layers = kMostLayers;
  Bytes activation = 8 * kMiB;
};

Shape shape_of(Shapes shapes, int step, std::mt19937& random) {
  switch (shapes) {
    case Shapes::kSame:
      break;
    case Shapes::kTwoLengthsInTurn:
      return {.layers = step % 2 == 0 ? kMostLayers : kMostLayers - 3};
    case Shapes::kTwoSizesInTurn:
      return {.activation = step % 2 == 0 ? 8 * kMiB : 6 * kMiB};
    case Shapes::kAny:
      return {.layers = 4 + static_cast<int>(random() % (kMostLayers - 3)), .activation = (3 + random() % 6) * kMiB};
  }
  return {};
}

// Each layer makes an activation of the one before and of its weights, and one of that that is as cheap; backward both are
// read, and the weights are updated in place. Activations are allocated before they are made, and freed when they have been
// read.
Trace program(Shapes shapes, int streams) {
  std::mt19937 random(1);
  constexpr int kLoss = 1 + kMostLayers;
  std::vector<std::string> lines{kHeader, alloc(0, static_cast<long long>(kInput)), op("init", {}, {0}, 10)};
  for (int layer = 0; layer < kMostLayers; ++layer) {
    lines.push_back(alloc(1 + layer, static_cast<long long>(kWeights)));
    lines.push_back(op("init", {}, {1 + layer}, 10));
  }
  lines.push_back(alloc(kLoss, static_cast<long long>(kWeights)));
  int next = kLoss + 1;
  for (int step = 0; step < kSteps; ++step) {
    const Shape shape = shape_of(shapes, step, random);
    const auto bytes = static_cast<long long>(shape.activation);
    const int first = next;
    const auto made = [first](int layer) { return first + 2 * layer; };
    for (int layer = 0; layer < shape.layers; ++layer) {
      const int before = layer == 0 ? 0 : made(layer - 1) + 1, stream = layer % streams;
      lines.push_back(alloc(made(layer), bytes, stream));
      lines.push_back(op("make", {before, 1 + layer}, {made(layer)}, 400, stream));
      lines.push_back(alloc(made(layer) + 1, bytes, stream));
      lines.push_back(op("cheap", {made(layer)}, {made(layer) + 1}, 15, stream));
    }
    next = made(shape.layers);
    lines.push_back(op("loss", {next - 1}, {kLoss}, 15));
    for (int layer = shape.layers - 1; layer >= 0; --layer) {
      const int stream = layer % streams;
      lines.push_back(op("back", {made(layer), made(layer) + 1, 1 + layer, kLoss}, {kLoss}, 30, stream));
      lines.push_back(op("descend", {1 + layer, kLoss}, {1 + layer}, 15, stream));
      for (const int one : {made(layer) + 1, made(layer)}) lines.push_back(release(one, stream));
    }
    lines.push_back(test::step(step));
  }
  return read_valid(TraceFile(lines));
}

class JointVariation : public testing::TestWithParam<Shapes> {
 protected:
  void TearDown() override { unsetenv(kFaults); }
};

TEST_P(JointVariation, GivesTheSameResultsWithinTheBudget) {
  for (const int streams : {1, 3}) {
    unsetenv(kFaults);
    const Trace trace = program(GetParam(), streams);
    const Bytes budget = trace.peak_live_bytes / 2;
    const std::uint64_t expected = run(trace, {.policy = kNoPolicy, .recompute = Recompute::kOff}).checksum;
    for (const std::string faults : {"", "jitter 25%; seed 1"}) {
      setenv(kFaults, faults.c_str(), 1);
      for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), {1}}) {
        SCOPED_TRACE(std::to_string(streams) + " streams, " + faults + (seed ? ", in another order" : ""));
        const ReplayResult result = run(trace, {.budget = budget, .seed = seed});
        EXPECT_EQ(result.checksum, expected);
        EXPECT_LE(result.peak_device_bytes, budget);
        if (GetParam() != Shapes::kAny) {
          EXPECT_GT(result.statistics.recomputed_buffers, 0u);
        }
      }
    }
  }
}

// Times of the simulated device: the same in each run.
TEST_P(JointVariation, IsNoSlowerThanCopiesAlone) {
  for (const int streams : {1, 3}) {
    const Trace trace = program(GetParam(), streams);
    const Bytes budget = trace.peak_live_bytes / 2;
    for (const std::string faults : {"", "jitter 25%; seed 1"}) {
      setenv(kFaults, faults.c_str(), 1);
      SCOPED_TRACE(std::to_string(streams) + " streams, " + faults);
      const auto last_half = [&](Recompute recompute) {
        const ReplayResult result = run(trace, {.budget = budget, .recompute = recompute});
        double ms = 0;
        for (std::size_t i = result.steps.size() / 2; i < result.steps.size(); ++i) ms += result.steps[i].ms;
        return ms;
      };
      const double copies = last_half(Recompute::kOff), joint = last_half(Recompute::kAuto);
      EXPECT_LE(joint, 1.03 * copies);
      if (GetParam() == Shapes::kSame) {
        EXPECT_LT(joint, 0.9 * copies);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, JointVariation,
                         testing::Values(Shapes::kSame, Shapes::kTwoLengthsInTurn, Shapes::kTwoSizesInTurn,
                                         Shapes::kAny));

}  // namespace
}  // namespace thermocline::test
