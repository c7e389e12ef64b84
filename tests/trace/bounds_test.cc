// SPDX-License-Identifier: Apache-2.0
// The closed-form bounds, worked out by hand and against the yardstick's figures for the recorded workloads.
#include "trace/bounds.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "simulator/profile.h"
#include "tests/trace/trace_file.h"

namespace thermocline::test {
namespace {

constexpr DeviceRates kReference{.flops_per_second = 40e12,
                                 .memory_bytes_per_second = 3500e9,
                                 .link_bytes_per_second = 50e9,
                                 .launch_seconds = 4e-6};

Trace recorded(const std::string& name) {
  Trace trace;
  TraceError error;
  EXPECT_TRUE(read_trace(std::string(THERMOCLINE_TRACES) + "/" + name + ".jsonl.gz", &trace, &error)) << error.text();
  return trace;
}

TEST(Bounds, AgreeWithTheYardstickOnEveryRecordedWorkload) {
  std::ifstream file(std::string(THERMOCLINE_TRACES) + "/bounds.json");
  ASSERT_TRUE(file.good());
  const nlohmann::json yardstick = nlohmann::json::parse(file);
  EXPECT_EQ(yardstick.size(), 6u);
  for (const auto& [name, workload] : yardstick.items()) {
    const SteadyStep step = steady_step(recorded(name), kReference);
    for (const auto& row : workload["rows"]) {
      SCOPED_TRACE(name + " " + row["budget"].dump());
      const Bounds bounds = swap_bounds(step, row["budget_bytes"], kReference);
      EXPECT_NEAR(bounds.compute_ms, workload["compute_ms"], 1e-3 * bounds.compute_ms);
      EXPECT_EQ(bounds.is_feasible, row["feasible"].get<bool>());
      if (bounds.is_feasible) {
        EXPECT_NEAR(bounds.pinch_ms, row["pinch_ms"], 1e-3 * bounds.pinch_ms);
      }
    }
  }
}

TEST(Bounds, TheReferenceProfileIsTheYardsticksDevice) {
  const simulator::Profile* profile = simulator::find_profile("reference");
  ASSERT_NE(profile, nullptr);
  EXPECT_EQ(profile->fp32_flops.value, kReference.flops_per_second);
  EXPECT_EQ(profile->memory_bandwidth.value, kReference.memory_bytes_per_second);
  EXPECT_EQ(profile->link_to_host.value, kReference.link_bytes_per_second);
  EXPECT_DOUBLE_EQ(static_cast<double>(profile->launch.value) * 1e-9, kReference.launch_seconds);
}

// Four steps; in each, 100 MB are made, something else happens for 1 ms on each side of the peak, and the 100 MB are
// used again.
std::vector<std::string> pinched_steps() {
  constexpr int kBig = 100'000'000;
  std::vector<std::string> lines{kHeader, alloc(0, 8)};
  for (int i = 0; i < 4; ++i) {
    const int big = 10 * i + 1;
    const int peak = 10 * i + 2;
    for (const std::string& line :
         {alloc(big, kBig), op("make", {}, {big}, 1000), alloc(peak, kBig), op("peak", {0}, {peak}, 1000),
          release(peak), op("use", {big}, {0}, 1000), release(big), step(i)}) {
      lines.push_back(line);
    }
  }
  return lines;
}

TEST(Bounds, ThePinchIsTheWayOutBeforeThePeakAndTheWayBackAfterIt) {
  const SteadyStep step = steady_step(read_valid(TraceFile(pinched_steps())), kReference);
  EXPECT_EQ(step.outliving, 8u);
  // 100 MB must be away at the peak: 2 ms out against 1 ms of work, 2 ms back against 2 ms (the peak counts as after).
  const Bounds bounds = swap_bounds(step, 100'000'000, kReference);
  EXPECT_DOUBLE_EQ(bounds.compute_ms, 3.0);
  EXPECT_NEAR(bounds.pinch_ms, 2.0 + 2.0, 1e-9);
  EXPECT_TRUE(swap_bounds(step, 100'000'008, kReference).is_feasible);
  EXPECT_FALSE(swap_bounds(step, 100'000'007, kReference).is_feasible);
  EXPECT_DOUBLE_EQ(swap_bounds(step, 200'000'008, kReference).bound_ms(), 3.0);
}

TEST(Bounds, OperatorsOfSeveralStreamsMayOverlapSoOnlyTheBusiestCounts) {
  const Trace trace =
      read_valid(TraceFile({kHeader, alloc(0, 8), op("a", {}, {0}, 1000), op("b", {}, {0}, 3000, 1), step(0)}));
  const Bounds bounds = swap_bounds(steady_step(trace, kReference), kMiB, kReference);
  EXPECT_DOUBLE_EQ(bounds.compute_ms, 3.0);
  EXPECT_EQ(bounds.pinch_ms, 0.0);
}

}  // namespace
}  // namespace thermocline::test
