// SPDX-License-Identifier: Apache-2.0
// Loops over equal layers whose weights alone exceed the budget, as in inference: live bytes never change, and every
// operation looks like the one a layer before. The plan fetches hardly more than Belady's rule would, while the device
// computes.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trace/trace_file.h"
#include "trace/replay.h"

namespace thermocline::test {
namespace {

constexpr Bytes kPart = 32 * kMiB;  // offload/residency/unit_size.h
constexpr std::size_t kSteps = 12;

// A model of equal layers; its activations alternate between two buffers.
struct Model {
  int first = 0;  // number of its first buffer
  int layers = 24;
  int parts = 10;  // eviction units of the weights of a layer
  Bytes part = kPart;
  double us = 14000, norm_us = 20;
  std::string kernel = "gemm";
  int weights(int layer) const { return first + layer; }
  int activations(int layer) const { return first + layers + layer % 2; }
};

constexpr int kWorkspace = 5000;
constexpr Bytes kActivations = 16 * kMiB;

class Loop {
 public:
  // `streams`: layers are distributed to them in turn, as far as their activations allow.
  explicit Loop(std::vector<Model> models, int streams = 1) : models_(std::move(models)), streams_(streams) {
    for (const Model& model : models_) {
      for (int i = 0; i < model.layers; ++i) born(model.weights(i), static_cast<Bytes>(model.parts) * model.part);
      for (int i = 0; i < 2; ++i) born(model.activations(i), kActivations);
    }
    born(kWorkspace, kActivations);
  }

  Loop& step() {
    for (const Model& model : models_) pass(model);
    return end();
  }
  Loop& end() {
    lines_.push_back(test::step(steps_++));
    return *this;
  }
  bool done() const { return steps_ == static_cast<int>(kSteps); }
  Loop& pass(const Model& model) {
    for (int i = 0; i < model.layers; ++i) {
      const int stream = i % streams_;
      lines_.push_back(op("norm", {model.activations(i)}, {model.activations(i)}, model.norm_us, stream));
      lines_.push_back(op(model.kernel, {model.activations(i), model.weights(i)},
                          {model.activations(i + 1), kWorkspace}, model.us, stream));
    }
    return *this;
  }
  Trace trace() {
    while (!done()) step();
    return read_valid(TraceFile(lines_));
  }

 private:
  void born(int buffer, Bytes bytes) {
    lines_.push_back(alloc(buffer, static_cast<long long>(bytes)));
    lines_.push_back(op("init", {}, {buffer}, 10));
  }

  std::vector<Model> models_;
  int streams_, steps_ = 0;
  std::vector<std::string> lines_{kHeader};
};

// The smallest average number of bytes to fetch for each turn through `layers` of `parts` units each, with room for a
// given number of units: the one that is needed again last is evicted (Belady 1966), unit by unit.
class Belady {
 public:
  Belady(std::vector<int> parts_of_layers, int room) : parts_(std::move(parts_of_layers)), room_(room) {}

  Bytes bytes_per_turn() {
    constexpr int kWarm = 8, kCounted = 16;
    std::uint64_t missed = 0;
    for (int turn = 0; turn < kWarm + kCounted; ++turn) {
      for (int layer = 0; layer < static_cast<int>(parts_.size()); ++layer) {
        const std::uint64_t now = use(layer);
        if (turn >= kWarm) missed += now;
      }
    }
    return missed * kPart / kCounted;
  }

 private:
  // Number of layers until this one is used again, when `at` is in use.
  int distance(int layer, int at) const {
    const int layers = static_cast<int>(parts_.size());
    return (layer - at + layers) % layers;
  }
  std::uint64_t use(int layer) {
    std::uint64_t missed = 0;
    for (int part = 0; part < parts_[static_cast<std::size_t>(layer)]; ++part) {
      if (!resident_.insert({layer, part}).second) continue;
      ++missed;
      if (static_cast<int>(resident_.size()) > room_) evict(layer);
    }
    return missed;
  }
  void evict(int at) {
    const auto last = std::max_element(resident_.begin(), resident_.end(), [&](const auto& a, const auto& b) {
      return std::pair(distance(a.first, at), a) < std::pair(distance(b.first, at), b);
    });
    resident_.erase(last);
  }

  std::vector<int> parts_;
  int room_;
  std::set<std::pair<int, int>> resident_;
};

ReplayResult run(const Trace& trace, const PolicyEntry* policy, Bytes budget, bool exact) {
  StepProgram program;
  std::string reason;
  EXPECT_TRUE(plan_steps(trace, kSteps, &program, &reason)) << reason;
  ReplayOptions options;
  options.device.library = THERMOCLINE_SIMULATED_CUDA;
  options.device.profile = "reference";
  options.device.check = true;
  options.exact = exact;
  options.engine.policy = policy;
  options.engine.budget_bytes = budget;
  ReplayResult result;
  EXPECT_TRUE(replay(trace, program, options, &result, &reason)) << reason;
  EXPECT_EQ(result.outcome, ReplayOutcome::kOk) << result.report;
  EXPECT_EQ(result.races, 0u);
  return result;
}

struct Measured {
  ReplayResult planned;
  double ms = 0, unlimited_ms = 0;
};

// `exact`: the engine is told that weights are only read.
Measured measure(const Trace& trace, Bytes budget, bool exact = false) {
  const ReplayResult unlimited = run(trace, kNoPolicy, 0, exact);
  Measured measured{.planned = run(trace, kLearnedPolicy, budget, exact)};
  EXPECT_EQ(measured.planned.checksum, unlimited.checksum);
  EXPECT_LE(measured.planned.peak_device_bytes, budget);
  const auto learned = learned_after_steps(measured.planned.steps);
  EXPECT_TRUE(learned.has_value());
  measured.ms = SteadySteps{learned}.ms(measured.planned.steps);
  measured.unlimited_ms = SteadySteps{}.ms(unlimited.steps);
  return measured;
}

TEST(EqualLayers, ComeInHardlyMoreOftenThanTheyMustAndWhileTheDeviceComputes) {
  const Model model;
  const Trace trace = Loop({model}).trace();
  for (const int percent : {80, 60, 40}) {
    const Bytes budget = trace.peak_live_bytes / 100 * static_cast<Bytes>(percent);
    const Measured measured = measure(trace, budget);
    const auto room = static_cast<int>((budget - 3 * kActivations) / kPart);
    const Bytes least =
        Belady(std::vector<int>(static_cast<std::size_t>(model.layers), model.parts), room).bytes_per_turn();
    const Bytes came = measured.planned.steps.back().restored_bytes;
    EXPECT_LE(static_cast<double>(came), 1.05 * static_cast<double>(least)) << percent;
    EXPECT_LE(measured.ms, 1.02 * measured.unlimited_ms) << percent;
  }
}

TEST(EqualLayers, OfSeveralModelsInTurnAreOneIteration) {
  const Model small;
  const Model large{.first = 100, .layers = 10, .parts = 15, .us = 20000, .kernel = "conv"};
  const Trace trace = Loop({small, large}).trace();
  const Bytes budget = trace.peak_live_bytes / 10 * 6;
  const Measured measured = measure(trace, budget);
  std::vector<int> parts(static_cast<std::size_t>(small.layers), small.parts);
  parts.insert(parts.end(), static_cast<std::size_t>(large.layers), large.parts);
  const Bytes least = Belady(parts, static_cast<int>((budget - 5 * kActivations) / kPart)).bytes_per_turn();
  EXPECT_LE(static_cast<double>(measured.planned.steps.back().restored_bytes), 1.05 * static_cast<double>(least));
  EXPECT_LE(measured.ms, 1.02 * measured.unlimited_ms);
}

TEST(EqualLayers, OnSeveralStreams) {
  const Trace trace = Loop({Model{}}, 3).trace();
  const Measured measured = measure(trace, trace.peak_live_bytes / 10 * 6);
  EXPECT_LE(measured.ms, 1.02 * measured.unlimited_ms);
}

// The device computes for a moment, so the link is all that counts. Nothing goes out, a fixed share stays, and the rest
// comes in without a pause: the room of two layers is for the one in use and the one that arrives.
TEST(EqualLayers, ThatAreOnlyReadComeInAsFastAsTheLinkAllows) {
  constexpr double kLinkBytesPerMs = 50e6;  // of the yardstick, each way (simulator/profile.cc)
  for (const Bytes part : {8 * kMiB, kPart}) {
    const Model model{.layers = 16, .parts = 1, .part = part, .us = 5, .norm_us = 1};
    const Trace trace = Loop({model}).trace();
    for (const int room : {12, 8, 5}) {
      SCOPED_TRACE(std::to_string(part / kMiB) + " MiB, room for " + std::to_string(room));
      const Bytes budget = static_cast<Bytes>(room) * part + 3 * kActivations;
      const Measured measured = measure(trace, budget, true);
      const ReplayStep& last = measured.planned.steps.back();
      EXPECT_EQ(last.evicted_bytes, 0u);
      const Bytes turning = static_cast<Bytes>(model.layers - (room - 2)) * part;
      EXPECT_LE(last.restored_bytes, turning);
      EXPECT_LE(measured.ms, 1.02 * static_cast<double>(turning) / kLinkBytesPerMs);
    }
  }
}

// A layer computes for longer than its weights take to come in, so none of that shows. The plan keeps room for those that are on
// their way, although smaller reserves lead to a choice that has been tried.
TEST(EqualLayers, ThatAreOnlyReadComeInWhileTheDeviceComputes) {
  for (const int parts : {4, 3, 2}) {
    const Model model{.parts = parts, .us = 500.0 * parts};
    const Trace trace = Loop({model}).trace();
    for (const int percent : {60, 40}) {
      SCOPED_TRACE(std::to_string(parts) + " parts, " + std::to_string(percent) + " %");
      const Measured measured = measure(trace, trace.peak_live_bytes / 100 * static_cast<Bytes>(percent), true);
      // With two parts a layer, and room for 18 of 48, the room is too small to hide all of it.
      EXPECT_LE(measured.ms, (parts == 2 ? 1.1 : 1.02) * measured.unlimited_ms);
    }
  }
}

// As above, in room for five layers of 24: a reserve of less than a layer does not help, and one of a layer hides all.
TEST(EqualLayers, ComeInWhileTheDeviceComputesInRoomForFewOfThem) {
  for (const int parts : {4, 8}) {
    const Model model{.parts = parts, .us = 750.0 * parts};
    const Trace trace = Loop({model}).trace();
    for (const bool only_read : {true, false}) {
      for (const int percent : {30, 25, 20}) {
        SCOPED_TRACE(std::to_string(parts) + " parts, " + std::to_string(percent) + " %");
        const Measured measured = measure(trace, trace.peak_live_bytes / 100 * static_cast<Bytes>(percent), only_read);
        EXPECT_LE(measured.ms, 1.02 * measured.unlimited_ms) << only_read;
      }
    }
  }
}

// More layers than the period detector compares distances.
TEST(EqualLayers, OfWhichThereAreMany) {
  const Model model{.layers = 200, .parts = 1, .us = 1500};
  const Trace trace = Loop({model}).trace();
  const Measured measured = measure(trace, trace.peak_live_bytes / 10 * 6);
  EXPECT_LE(measured.ms, 1.02 * measured.unlimited_ms);
}

// The other model's weights are not used while one runs: they are evicted first, and do not count as memory in use.
TEST(EqualLayers, OfAModelThatRunsWhileAnotherRests) {
  const Model first;
  const Model second{.first = 100, .layers = 20, .parts = 12, .us = 16000, .kernel = "conv"};
  Loop loop({first, second});
  while (!loop.done()) loop.pass(first).end();
  const Trace trace = loop.trace();
  const Measured measured = measure(trace, trace.peak_live_bytes / 10 * 3);
  EXPECT_LE(measured.ms, 1.02 * measured.unlimited_ms);
}

}  // namespace
}  // namespace thermocline::test
