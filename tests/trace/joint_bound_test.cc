// SPDX-License-Identifier: Apache-2.0
// Joint bounds computed by hand, and those of recorded workloads against an independent computation
// (bench/traces/joint_bounds.json).
#include "trace/joint_bound.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

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
// So many slots that every operator of these steps is an edge.
constexpr std::size_t kEverywhere = 24;

template <typename Lines>
Trace steps_of(Lines lines) {
  std::vector<std::string> all{kHeader, alloc(0, 8)};
  for (int i = 0; i < 4; ++i) {
    for (const std::string& line : lines(100 * (i + 1))) all.push_back(line);
    all.push_back(step(i));
  }
  return read_valid(TraceFile(all));
}

double joint_ms(const Trace& trace, Bytes budget) {
  JointBounds bounds(steady_step(trace, kReference), kReference, kEverywhere);
  return bounds.under(budget).bound_ms.value();
}

// 100 MB are written, then another buffer of that size, and then the 100 MB are used again.
Trace made_in(double microseconds) {
  return steps_of([=](int n) {
    return std::vector<std::string>{
        alloc(n, kBig), op("make", {}, {n}, microseconds), alloc(n + 1, kBig), op("peak", {0}, {n + 1}, 1000),
        release(n + 1), op("use", {n}, {0}, 1000),         release(n)};
  });
}

TEST(JointBound, WhatIsCheapIsMadeAgainInPart) {
  // Half of it is evicted while it is written, at no cost, and fetched after the beginning of the peak, at no cost.
  // Recomputing the other half takes 0.5 ms.
  EXPECT_NEAR(joint_ms(made_in(1000), kBig + 8), 3.5, 1e-5);
}

TEST(JointBound, WhatIsExpensiveIsFetched) {
  // All of it is evicted while it is written. During the peak a fraction y is recomputed and the rest fetched: 1 + 10 y
  // = 2 (1 - y).
  EXPECT_NEAR(joint_ms(made_in(10'000), kBig + 8), 10 + 1 + 10.0 / 12 + 1, 1e-5);
}

TEST(JointBound, WhatFitsTakesWhatItsOperatorsTake) { EXPECT_NEAR(joint_ms(made_in(1000), 2 * kBig + 8), 3.0, 1e-9); }

TEST(JointBound, InputsThatAreGoneHaveToBeMadeAgainToo) {
  const Trace trace = steps_of([](int n) {
    return std::vector<std::string>{alloc(n, kBig),
                                    op("a", {}, {n}, 1000),
                                    alloc(n + 1, kBig),
                                    op("b", {n}, {n + 1}, 100),
                                    release(n),
                                    alloc(n + 2, 2 * kBig),
                                    op("peak", {0}, {n + 2}, 1000),
                                    release(n + 2),
                                    op("use", {n + 1}, {0}, 1000),
                                    release(n + 1)};
  });
  // Before the peak the link transfers half of a, and a twentieth of b, and fetches both during it. The rest of a is
  // recomputed, 0.45 ms, apart from what b does not need of it; and the rest of b, 0.095 ms.
  EXPECT_NEAR(joint_ms(trace, 2 * kBig + 8), 1.1 + 1 + 0.45 + 0.095 + 1, 1e-5);
}

TEST(JointBound, WhatAnOperatorNamesHasToFit) {
  JointBounds bounds(steady_step(made_in(1000), kReference), kReference);
  EXPECT_TRUE(bounds.under(kBig + 8).is_feasible);
  const JointBound none = bounds.under(kBig - 1);
  EXPECT_FALSE(none.is_feasible);
  EXPECT_FALSE(none.bound_ms.has_value());
}

TEST(JointBound, OperatorsOfSeveralStreamsHaveNone) {
  const Trace trace =
      read_valid(TraceFile({kHeader, alloc(0, 8), op("a", {}, {0}, 1000), op("b", {}, {0}, 3000, 1), step(0)}));
  EXPECT_FALSE(JointBounds(steady_step(trace, kReference), kReference).under(kMiB).bound_ms.has_value());
}

TEST(JointBound, VersionsBeginWithWritesAndAreWantedForWhatIsMadeFromThem) {
  const Trace trace = steps_of([](int n) {
    return std::vector<std::string>{alloc(n, kBig),
                                    op("make", {}, {n}, 1),
                                    op("update", {n}, {n}, 1),
                                    alloc(n + 1, kBig),
                                    op("next", {n}, {n + 1}, 1),
                                    release(n),
                                    op("use", {n + 1}, {0}, 1),
                                    release(n + 1)};
  });
  const JointStep step(steady_step(trace, kReference), kMiB);
  ASSERT_EQ(step.versions.size(), 3u);
  EXPECT_EQ(step.versions[0].producer, 0);
  EXPECT_EQ(step.versions[0].readers, std::vector<std::uint32_t>{1});
  EXPECT_EQ(step.versions[1].producer, 1);
  EXPECT_EQ(step.versions[1].buffer, step.versions[0].buffer);
  EXPECT_EQ(step.versions[2].producer, 2);
  for (const StepVersion& version : step.versions) EXPECT_EQ(version.wanted_until, 3);
  EXPECT_EQ(step.operators[1].reads, std::vector<std::uint32_t>{0});
  EXPECT_EQ(step.operators[1].writes, std::vector<std::uint32_t>{1});
}

nlohmann::json yardstick() {
  std::ifstream file(std::string(THERMOCLINE_TRACES) + "/joint_bounds.json");
  EXPECT_TRUE(file.good());
  return nlohmann::json::parse(file);
}

void expect_agreement(const std::string& name, const DeviceRates& rates, const std::string& key) {
  Trace trace;
  TraceError error;
  ASSERT_TRUE(read_trace(std::string(THERMOCLINE_TRACES) + "/" + name + ".jsonl.gz", &trace, &error)) << error.text();
  JointBounds bounds(steady_step(trace, rates), rates);
  const nlohmann::json all = yardstick();
  int compared = 0;
  for (const auto& row : all[key]["rows"]) {
    SCOPED_TRACE(key + " " + row["budget"].dump());
    const JointBound found = bounds.under(row["budget_bytes"]);
    EXPECT_EQ(found.is_feasible, row["feasible"].get<bool>());
    if (!found.is_feasible || !row["feasible"].get<bool>()) continue;
    EXPECT_NEAR(found.bound_ms.value(), row["bound_ms"], 5e-3 * row["bound_ms"].get<double>());
    EXPECT_GE(*found.bound_ms, found.compute_ms);
    ++compared;
  }
  EXPECT_GE(compared, 3);
}

TEST(JointBound, AgreesWithTheYardstickOnResNet50) { expect_agreement("resnet50_b64", kReference, "resnet50_b64"); }

TEST(JointBound, AgreesWithTheYardstickOnUnet) { expect_agreement("unet3d_b1_128", kReference, "unet3d_b1_128"); }

TEST(JointBound, ShortStepsAreCutFinelyEnough) {
  Trace trace;
  TraceError error;
  ASSERT_TRUE(read_trace(std::string(THERMOCLINE_TRACES) + "/vgg16_b32.jsonl.gz", &trace, &error)) << error.text();
  const auto bound_ms = [&](std::optional<std::size_t> slots) {
    return JointBounds(steady_step(trace, kReference), kReference, slots).under(2'000'000'000).bound_ms.value();
  };
  EXPECT_GT(bound_ms({}), 1.05 * bound_ms(16));
  EXPECT_NEAR(bound_ms({}), bound_ms(32), 5e-3 * bound_ms(32));
}

TEST(JointBound, AgreesWithTheYardstickOnAnotherDevice) {
  const DeviceRates rates{.flops_per_second = 9.5e12,
                          .memory_bytes_per_second = 732e9,
                          .link_to_device_bytes_per_second = 12e9,
                          .link_to_host_bytes_per_second = 12e9,
                          .launch_seconds = 4e-6};
  expect_agreement("resnet50_b64", rates, "resnet50_b64 on a P100-like device");
}

}  // namespace
}  // namespace thermocline::test
