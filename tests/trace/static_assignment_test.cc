// SPDX-License-Identifier: Apache-2.0
// With trusting safety and a plan, addresses keep their own pages: a steady step makes no mapping calls, and computes
// the same as before, in any order of the device, also when something else comes in between.
#include <array>
#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "driver/page_size.h"
#include "tests/trace/checked_replay.h"
#include "tests/trace/trace_file.h"
#include "trace/read.h"
#include "trace/replay.h"

namespace thermocline::test {
namespace {

constexpr Bytes kPage = kDefaultPageBytes;
constexpr int kLayers = 24;

// A training step as frameworks do it: what each layer keeps is allocated in the forward pass and freed in the backward
// pass, in addition to weights that stay. Sizes differ, so that pages change between owners of different sizes.
class Steps {
 public:
  explicit Steps(int weight_pages = 2) {
    for (int layer = 0; layer < kLayers; ++layer) lines_.push_back(alloc(layer, bytes(weight_pages)));
  }

  Steps& train() {
    const int kept = next_;
    next_ += kLayers;
    for (int layer = 0; layer < kLayers; ++layer) {
      lines_.push_back(alloc(kept + layer, bytes(3 + layer % 5)));
      const int before = layer > 0 ? kept + layer - 1 : layer;
      lines_.push_back(op("conv", {before, layer}, {kept + layer}, 2000));
    }
    for (int layer = kLayers - 1; layer >= 0; --layer) {
      const int scratch = next_++;
      lines_.push_back(alloc(scratch, bytes(1 + layer % 3)));
      lines_.push_back(op("conv_backward", {kept + layer, layer}, {scratch}, 2000));
      lines_.push_back(op("sgd", {scratch, layer}, {layer}, 300));
      lines_.push_back(release(scratch));
      lines_.push_back(release(kept + layer));
    }
    return end();
  }
  // Only the forward pass, with other sizes.
  Steps& validate() {
    for (int layer = 0; layer < kLayers; ++layer) {
      const int kept = next_++;
      lines_.push_back(alloc(kept, bytes(2 + layer % 4)));
      lines_.push_back(op("conv", {layer}, {kept}, 1000));
      lines_.push_back(release(kept));
    }
    return end();
  }

  Trace trace() {
    std::vector<std::string> all{kHeader};
    all.insert(all.end(), lines_.begin(), lines_.end());
    return read_valid(TraceFile(all));
  }

 private:
  static long long bytes(int pages) { return static_cast<long long>(pages) * static_cast<long long>(kPage); }
  Steps& end() {
    lines_.push_back(step(steps_++));
    return *this;
  }

  std::vector<std::string> lines_;
  int next_ = 1000, steps_ = 0;
};

struct Terms {
  Safety safety = Safety::kTrusting;
  const PolicyEntry* policy = kLearnedPolicy;
  Bytes budget = 100 * kPage;
  std::optional<std::uint64_t> seed = {};
  std::size_t steps = 0;
};

ReplayResult run(const Trace& trace, const Terms& terms) {
  ReplayOptions options;
  options.device.seed = terms.seed;
  options.engine.budget_bytes = terms.budget;
  options.engine.policy = terms.policy;
  options.engine.safety = terms.safety;
  const ReplayResult result = checked_replay(trace, options, terms.steps);
  EXPECT_EQ(result.outcome, ReplayOutcome::kOk) << result.report;
  return result;
}

std::uint64_t unlimited_checksum(const Trace& trace, std::size_t steps = 0) {
  return run(trace, {.policy = kNoPolicy, .budget = 0, .steps = steps}).checksum;
}

TEST(StaticAssignment, ASteadyStepMakesNoMappingCalls) {
  const Trace trace = Steps().train().train().trace();
  const ReplayResult result = run(trace, {.steps = 20});
  EXPECT_EQ(result.checksum, unlimited_checksum(trace, 20));
  ASSERT_EQ(result.steps.size(), 20u);
  EXPECT_GT(result.steps[5].maps, 0u) << "first pages change hands by calls";
  for (std::size_t i = 15; i < 20; ++i) {
    EXPECT_GT(result.steps[i].evicted_bytes, 0u);
    EXPECT_EQ(result.steps[i].maps, 0u) << "step " << i;
    EXPECT_EQ(result.steps[i].unmaps, 0u) << "step " << i;
    EXPECT_LE(result.steps[i].ms, result.steps[5].ms * 1.006) << "step " << i << " of simulated time";
  }
}

TEST(StaticAssignment, InEveryOrderTheResultsAreTheSame) {
  const Trace trace = Steps().train().train().trace();
  const std::uint64_t expected = unlimited_checksum(trace, 16);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ(run(trace, {.seed = seed, .steps = 16}).checksum, expected);
  }
}

TEST(StaticAssignment, WhereAccessesAreNotTrustedAddressesAreRemapped) {
  const Trace trace = Steps().train().train().trace();
  const ReplayResult result = run(trace, {.safety = Safety::kStrict, .steps = 20});
  EXPECT_EQ(result.checksum, unlimited_checksum(trace, 20));
  EXPECT_GT(result.steps.back().maps, 0u);
}

TEST(StaticAssignment, SomethingElseBetweenStepsLosesNothing) {
  Steps steps;
  for (int i = 0; i < 14; ++i) steps.train();
  steps.validate();
  for (int i = 0; i < 5; ++i) steps.train();
  steps.validate().validate();
  for (int i = 0; i < 3; ++i) steps.train();
  const Trace trace = steps.trace();
  const std::uint64_t expected = unlimited_checksum(trace);
  EXPECT_EQ(run(trace, {}).checksum, expected);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ(run(trace, {.seed = seed}).checksum, expected);
  }
}

// By then some pages have changed their owners permanently.
TEST(StaticAssignment, AfterwardsStepsMakeHardlyAnyMappingCallsAgain) {
  Steps steps;
  for (int i = 0; i < 14; ++i) steps.train();
  steps.validate();
  for (int i = 0; i < 6; ++i) steps.train();
  const ReplayResult result = run(steps.trace(), {});
  EXPECT_EQ(result.steps[13].maps, 0u);
  EXPECT_LE(result.steps.back().maps * 20, result.steps[5].maps);
}

// A few wrong addresses are left until the assignment is made again.
TEST(StaticAssignment, AfterwardsItIsMadeAgainOnce) {
  Steps steps;
  for (int i = 0; i < 18; ++i) steps.train();
  steps.validate();
  for (int i = 0; i < 12; ++i) steps.train();
  const ReplayResult result = run(steps.trace(), {});
  ASSERT_EQ(result.steps.size(), 31u);
  EXPECT_EQ(result.steps[17].maps, 0u);
  EXPECT_GT(result.steps[21].maps, 0u) << "pages have changed their owners";
  EXPECT_EQ(result.steps[30].maps, 0u);
}

// Reserved addresses of vacant blocks are released before an allocation is refused for lack of addresses.
TEST(StaticAssignment, AddressesThatAreKeptAreGivenUpWhenTheyRunShort) {
  for (const int weight_pages : {6, 12}) {
    SCOPED_TRACE(weight_pages);
    const Trace trace = Steps(weight_pages).train().train().trace();
    const std::uint64_t expected = unlimited_checksum(trace, 20);
    const Bytes budget = static_cast<Bytes>(60 + kLayers * weight_pages) * kPage;
    // 512 pages of addresses: little more than is alive at once.
    ASSERT_EQ(setenv("THERMOCLINE_SIMULATE_FAULTS", "address-bits 30", 1), 0);
    const ReplayResult reactive = run(trace, {.policy = kReactivePolicy, .budget = budget, .steps = 20});
    const ReplayResult learned = run(trace, {.budget = budget, .steps = 20});
    unsetenv("THERMOCLINE_SIMULATE_FAULTS");
    EXPECT_EQ(reactive.checksum, expected);
    EXPECT_EQ(learned.checksum, expected);
  }
}

ReplayResult run_recomputing(const char* name, unsigned percent, std::size_t steps) {
  Trace trace;
  TraceError error;
  EXPECT_TRUE(read_trace(std::string(THERMOCLINE_TRACES "/") + name, &trace, &error)) << error.text();
  ReplayOptions options;
  options.engine.budget_bytes = trace.peak_live_bytes / 100 * percent;
  options.engine.policy = kLearnedPolicy;
  options.engine.recompute = Recompute::kAuto;
  options.exact = true;
  ReplayResult result = checked_replay(trace, options, steps);
  EXPECT_EQ(result.outcome, ReplayOutcome::kOk) << result.report;
  return result;
}

// VGG-16 gets no assignment with 60 % of its memory, but its steps are faster where what leaves gives up its pages at once.
TEST(StaticAssignment, PagesGoOnBeingGivenUpAtOnceWhereThatWasFaster) {
  const ReplayResult result = run_recomputing("vgg16_b32.jsonl.gz", 60, 14);
  ASSERT_EQ(result.steps.size(), 14u);
  EXPECT_GT(result.steps[9].maps, 0u) << "an assignment";
  EXPECT_LT(result.steps[13].ms, 0.97 * result.steps[9].ms) << "of simulated time";
}

// ResNet-1001's small buffers are in other slabs once its buffers have addresses of their own.
TEST(StaticAssignment, AnAssignmentThatDoesNotFitIsMadeAgain) {
  const ReplayResult result = run_recomputing("cifar_resnet1001_b64.jsonl.gz", 90, 20);
  ASSERT_EQ(result.steps.size(), 20u);
  EXPECT_GT(result.steps[12].maps, 0u) << "the first assignment fits";
  EXPECT_GT(result.steps[19].evicted_bytes, 0u);
  EXPECT_EQ(result.steps[19].maps, 0u);
  EXPECT_LT(result.steps[19].ms, 0.92 * result.steps[12].ms) << "of simulated time";
}

}  // namespace
}  // namespace thermocline::test
