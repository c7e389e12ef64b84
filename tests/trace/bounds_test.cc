// SPDX-License-Identifier: Apache-2.0
// Bounds computed by hand, and those of the recorded workloads against figures of an independent computation
// (bench/traces/bounds.json). floor_test.cc compares them with replays.
#include "trace/bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "simulator/profile.h"
#include "tests/trace/trace_file.h"

namespace thermocline::test {
namespace {

constexpr DeviceRates kReference{.flops_per_second = 40e12,
                                 .memory_bytes_per_second = 3500e9,
                                 .link_to_device_bytes_per_second = 50e9,
                                 .link_to_host_bytes_per_second = 50e9,
                                 .launch_seconds = 4e-6};
// Two milliseconds on the link.
constexpr int kBig = 100'000'000;

Trace recorded(const std::string& name) {
  Trace trace;
  TraceError error;
  EXPECT_TRUE(read_trace(std::string(THERMOCLINE_TRACES) + "/" + name + ".jsonl.gz", &trace, &error)) << error.text();
  return trace;
}

nlohmann::json parsed(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return nlohmann::json::parse(file);
}

// A row of the independent computation's file with the library's results for its budget; computed once for all tests.
struct YardstickRow {
  std::string workload;
  int percent;
  double compute_ms;
  nlohmann::json row;
  Bounds found;
};

const std::vector<YardstickRow>& yardstick() {
  static const std::vector<YardstickRow> all = [] {
    std::vector<YardstickRow> rows;
    const nlohmann::json file = parsed(std::string(THERMOCLINE_TRACES) + "/bounds.json");
    for (const auto& [name, workload] : file.items()) {
      const SwapBounds bounds(recorded(name), kReference);
      for (const auto& row : workload["rows"])
        rows.push_back({name, static_cast<int>(std::lround(row["budget"].get<double>() * 100)), workload["compute_ms"],
                        row, bounds.under(row["budget_bytes"])});
    }
    return rows;
  }();
  return all;
}

TEST(Bounds, AgreeWithTheYardstickOnEveryRecordedWorkload) {
  EXPECT_EQ(yardstick().size(), 6u * 5);
  for (const auto& [name, percent, compute_ms, row, found] : yardstick()) {
    SCOPED_TRACE(name + " " + std::to_string(percent));
    EXPECT_NEAR(found.compute_ms, compute_ms, 1e-3 * compute_ms);
    EXPECT_EQ(found.is_feasible, row["feasible"].get<bool>());
    if (!found.is_feasible || !row["feasible"].get<bool>()) continue;
    EXPECT_NEAR(found.pinch_ms.value(), row["pinch_ms"], 1e-3 * *found.pinch_ms);
    EXPECT_NEAR(found.volume_ms.value(), row["volume_ms"], 1e-3 * *found.volume_ms);
    EXPECT_NEAR(static_cast<double>(found.restored_bytes.value()), row["restored_bytes"],
                1e-3 * static_cast<double>(*found.restored_bytes));
    // Tighter, because it knows that what is written has to be copied out again.
    EXPECT_GE(found.slotted_ms.value(), (1 - 1e-3) * row["slotted_ms"].get<double>());
  }
}

TEST(Bounds, TheReferenceProfileIsTheYardsticksDevice) {
  const simulator::Profile* profile = simulator::find_profile("reference");
  ASSERT_NE(profile, nullptr);
  EXPECT_EQ(profile->fp32_flops.value, kReference.flops_per_second);
  EXPECT_EQ(profile->memory_bandwidth.value, kReference.memory_bytes_per_second);
  EXPECT_EQ(profile->link_to_host.value, kReference.link_to_host_bytes_per_second);
  EXPECT_EQ(profile->link_to_device.value, kReference.link_to_device_bytes_per_second);
  EXPECT_DOUBLE_EQ(static_cast<double>(profile->launch.value) * 1e-9, kReference.launch_seconds);
}

// Four equal steps of these lines, after the allocation of what outlives them; `lines` is called with the number from
// which a step counts its buffers.
template <typename Lines>
Trace steps_of(std::vector<std::string> before, Lines lines) {
  before.insert(before.begin(), kHeader);
  for (int i = 0; i < 4; ++i) {
    for (const std::string& line : lines(100 * (i + 1))) before.push_back(line);
    before.push_back(step(i));
  }
  return read_valid(TraceFile(before));
}

// 100 MB are written, then another buffer of that size, and then the 100 MB are used again; a millisecond each.
Trace pinched_steps() {
  return steps_of({alloc(0, 8)}, [](int n) {
    return std::vector<std::string>{
        alloc(n, kBig), op("make", {}, {n}, 1000), alloc(n + 1, kBig), op("peak", {0}, {n + 1}, 1000),
        release(n + 1), op("use", {n}, {0}, 1000), release(n)};
  });
}

TEST(Bounds, ThePinchIsTheWayOutBeforeThePeakAndTheWayBackAfterIt) {
  const SwapBounds bounds(pinched_steps(), kReference);
  // At the peak 100 MB must be evicted: 2 ms out against 1 ms of work, 2 ms back against 2 ms (the peak counts as
  // after).
  const Bounds tight = bounds.under(kBig + 8);
  EXPECT_DOUBLE_EQ(tight.compute_ms, 3.0);
  EXPECT_NEAR(tight.pinch_ms.value(), 2.0 + 2.0, 1e-6);
  EXPECT_NEAR(tight.volume_ms.value(), 2.0, 1e-6);
  EXPECT_EQ(tight.restored_bytes, static_cast<Bytes>(kBig));
  EXPECT_DOUBLE_EQ(bounds.under(2 * kBig + 8).bound_ms, 3.0);
}

TEST(Bounds, SlotsKnowThatNothingComesBackBehindItsUse) {
  // Out while it is written and afterwards, 2 ms; back during the peak, 2 ms; then the use, 1 ms.
  EXPECT_NEAR(SwapBounds(pinched_steps(), kReference).under(kBig + 8).slotted_ms.value(), 5.0, 1e-6);
}

TEST(Bounds, AnOperatorNeedsItsBuffersUntilItEnds) {
  // Written, 1 ms; only then out, 2 ms; the peak, 1 ms; only then back, 2 ms; the use, 1 ms.
  EXPECT_NEAR(SwapBounds(pinched_steps(), kReference).under(kBig + 8).bound_ms, 7.0, 1e-6);
}

// 100 MB in two pages of 60 MB: 120 MB have to fit, 100 cross the link.
TEST(Bounds, OfWholePagesOnlyTheContentsCrossTheLink) {
  constexpr Bytes kPage = 60'000'000;
  const SwapBounds bounds(pinched_steps(), kReference, kDefaultSlots, kPage);
  EXPECT_EQ(bounds.least_budget(), 2 * kPage + 8);
  const Bounds tight = bounds.under(2 * kPage + 8);
  EXPECT_NEAR(tight.pinch_ms.value(), 2.0 + 2.0, 1e-6);
  EXPECT_NEAR(tight.slotted_ms.value(), 5.0, 1e-6);
  EXPECT_FALSE(tight.volume_ms.has_value());
  EXPECT_DOUBLE_EQ(bounds.under(4 * kPage + 8).bound_ms, 3.0);
}

TEST(Bounds, ABudgetBelowWhatAnOperatorUsesIsInfeasible) {
  const SwapBounds bounds(pinched_steps(), kReference);
  EXPECT_EQ(bounds.least_budget(), static_cast<Bytes>(kBig) + 8);
  EXPECT_TRUE(bounds.under(kBig + 8).is_feasible);
  const Bounds none = bounds.under(kBig + 7);
  EXPECT_FALSE(none.is_feasible);
  EXPECT_FALSE(none.pinch_ms || none.volume_ms || none.slotted_ms);
}

// State of 100 MB is used, and then another 100 MB are; a millisecond each.
Trace state_steps(const std::vector<int>& reads, const std::vector<int>& writes) {
  return steps_of({alloc(0, kBig), op("begin", {}, {0}, 1)}, [&](int n) {
    return std::vector<std::string>{op("update", reads, writes, 1000), alloc(n, kBig), op("peak", {}, {n}, 1000),
                                    release(n)};
  });
}

TEST(Bounds, StateThatIsWrittenHasToBeCopiedOutInEveryStep) {
  EXPECT_NEAR(SwapBounds(state_steps({0}, {0}), kReference).under(kBig).bound_ms, 2.0 + 4.0, 1e-6);
}

TEST(Bounds, StateThatIsOnlyReadLeavesForNothing) {
  EXPECT_NEAR(SwapBounds(state_steps({0}, {}), kReference).under(kBig).bound_ms, 2.0 + 2.0, 1e-6);
}

TEST(Bounds, StateThatIsOverwrittenUnreadNeitherLeavesNorReturns) {
  EXPECT_NEAR(SwapBounds(state_steps({}, {0}), kReference).under(kBig).bound_ms, 1.0 + 1.0, 1e-6);
}

// Written, evicted, used, evicted, used again.
Trace twice_away(bool is_written_between) {
  return steps_of({alloc(0, 8)}, [=](int n) {
    return std::vector<std::string>{
        alloc(n, kBig),     op("make", {}, {n}, 1000),
        alloc(n + 1, kBig), op("peak", {}, {n + 1}, 1000),
        release(n + 1),     is_written_between ? op("between", {n}, {n}, 1000) : op("between", {n}, {0}, 1000),
        alloc(n + 2, kBig), op("peak", {}, {n + 2}, 1000),
        release(n + 2),     op("use", {n}, {0}, 1000),
        release(n)};
  });
}

TEST(Bounds, AVersionIsCopiedOutOnceHoweverOftenItLeaves) {
  // Five operators, out 2, back 2, back 2; if it is written in between, 2 more for the second eviction. The eight bytes
  // that stay hide a millionth.
  EXPECT_NEAR(SwapBounds(twice_away(false), kReference).under(kBig + 8).bound_ms, 11.0, 1e-5);
  EXPECT_NEAR(SwapBounds(twice_away(true), kReference).under(kBig + 8).bound_ms, 13.0, 1e-5);
}

TEST(Bounds, SmallBuffersMayLeaveForTheBoundAndMayNotForTheYardstick) {
  constexpr int kCount = 200;
  constexpr int kSmall = kBig / kCount;
  static_assert(kSmall < static_cast<int>(kMiB));
  const Trace trace = steps_of({alloc(0, 8)}, [](int n) {
    std::vector<std::string> lines;
    std::vector<int> all;
    for (int i = 0; i < kCount; ++i) {
      all.push_back(1000 * n + i);
      lines.push_back(alloc(all.back(), kSmall));
    }
    for (const std::string& line :
         {op("make", {}, all, 1000), alloc(n, kBig), op("peak", {0}, {n}, 1000), release(n), op("use", all, {0}, 1000)})
      lines.push_back(line);
    for (const int b : all) lines.push_back(release(b));
    return lines;
  });
  const Bounds tight = SwapBounds(trace, kReference).under(kBig + 8);
  EXPECT_NEAR(tight.bound_ms, 7.0, 1e-6);
  EXPECT_FALSE(tight.slotted_ms.has_value());
  EXPECT_FALSE(tight.volume_ms.has_value());
}

TEST(Bounds, EachDirectionHasItsOwnSpeed) {
  DeviceRates rates = kReference;
  rates.link_to_host_bytes_per_second = 100e9;  // 1 ms out
  EXPECT_NEAR(SwapBounds(pinched_steps(), rates).under(kBig + 8).bound_ms, 6.0, 1e-6);
}

TEST(Bounds, OperatorsOfSeveralStreamsMayOverlapSoOnlyTheBusiestCounts) {
  const Trace trace =
      read_valid(TraceFile({kHeader, alloc(0, 8), op("a", {}, {0}, 1000), op("b", {}, {0}, 3000, 1), step(0)}));
  const Bounds bounds = SwapBounds(trace, kReference).under(kMiB);
  EXPECT_DOUBLE_EQ(bounds.bound_ms, 3.0);
  EXPECT_FALSE(bounds.pinch_ms.has_value());
}

}  // namespace
}  // namespace thermocline::test
