// SPDX-License-Identifier: Apache-2.0
// Programs on a device without virtual memory management: freed memory is cached, the budget refuses, and everything
// else is as without the library.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

const std::string kUnmappable = "THERMOCLINE_SIMULATE_DRIVER=virtual_memory=off";

ProcessResult run(std::vector<std::string> arguments, const std::string& budget, std::uint64_t order = 0,
                  const std::vector<std::string>& more = {}) {
  arguments[0] = "api_paths/" + arguments[0];
  Running running{.preload = {LIBRARY_FILE}, .budget = budget, .order = order, .environment = {kUnmappable}};
  running.environment.insert(running.environment.end(), more.begin(), more.end());
  return run_program(arguments, running);
}

ProcessResult plain(std::vector<std::string> arguments, const std::vector<std::string>& more = {}) {
  arguments[0] = "api_paths/" + arguments[0];
  Running running{.preload = {}, .budget = "", .order = 0, .environment = {kUnmappable}};
  running.environment.insert(running.environment.end(), more.begin(), more.end());
  return run_program(arguments, running);
}

bool says(const ProcessResult& result, const std::string& what) { return result.err.find(what) != std::string::npos; }

// None of these has a kernel mix memory that is reused: what it writes depends on the order in which the driver gave
// buffers.
class Unmappable : public testing::TestWithParam<const char*> {};

TEST_P(Unmappable, ProgramsGiveTheSameBits) {
  const ProcessResult without = plain({GetParam()});
  for (const std::uint64_t order : orders()) {
    const ProcessResult with = run({GetParam()}, "128MiB", order);
    expect_same(without, with);
    EXPECT_EQ(statistic(with, "evicted_bytes"), 0u);
    EXPECT_GE(statistic(with, "unmappable_devices"), 1u);
    EXPECT_GE(statistic(with, "peak_live_bytes"), 32 * kMiB);
    EXPECT_LE(statistic(with, "peak_device_bytes"), statistic(with, "budget_bytes"));
  }
}

INSTANTIATE_TEST_SUITE_P(Small, Unmappable,
                         testing::Values("contexts/address_range", "contexts/destroyed", "contexts/green",
                                         "contexts/memory_info", "contexts/pointer_attributes",
                                         "contexts/primary_beside", "contexts/primary_released",
                                         "contexts/primary_reset", "contexts/two", "contexts/two_while_recording",
                                         "copies/ranges", "copies/blocked", "copies/blocked_released", "copies/values",
                                         "graphs/captured", "graphs/captured_while_others_allocate",
                                         "graphs/captured_while_others_leave", "graphs/captured_with_a_fork",
                                         "graphs/host_nodes", "graphs/memory_in_capture", "graphs/memory_nodes",
                                         "graphs/memory_while_recording", "launches/host_functions", "launches/streams",
                                         "memory/arrays", "memory/freed_while_blocked", "memory/in_order",
                                         "memory/managed", "memory/pitched", "memory/pool_attributes", "memory/pools",
                                         "memory/shared_between_processes", "memory/shared_with_others",
                                         "process/calls_in_callbacks", "process/fork_and_end", "process/fork_before",
                                         "process/never_freed", "process/threads", "devices/loops", "devices/threads"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

TEST(UnmappableDevice, OneLineSaysWhatTheLibraryDoesThere) {
  const std::string line = "thermocline: device 0 has no virtual memory management: ";
  const ProcessResult result = run({"launches/streams"}, "");
  EXPECT_EQ(result.status, 0) << result.err;
  const std::size_t first = result.err.find(line);
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(line, first + 1), std::string::npos) << result.err;
  EXPECT_FALSE(says(result, "runs without the library")) << result.err;
  EXPECT_TRUE(says(result, "fallbacks: 1 device without virtual memory management")) << result.err;
}

TEST(UnmappableDevice, StrictRefusesIt) {
  const ProcessResult result = run({"launches/streams"}, "", 0, {"THERMOCLINE_STRICT=true"});
  EXPECT_NE(result.status, 0) << result.err;
  EXPECT_TRUE(says(result, "allocations fail, because strict is set")) << result.err;
}

// The program holds 40 MiB at most.
TEST(UnmappableDevice, TheBudgetRefuses) {
  const ProcessResult result = run({"memory/asked_again"}, "36MiB");
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_TRUE(says(result, "program: 2 from cuMemAlloc")) << result.err;
  EXPECT_TRUE(says(result, "thermocline: out of memory: an allocation of 8.0 MiB was refused")) << result.err;
  EXPECT_TRUE(says(result, "the device has no virtual memory management")) << result.err;
  EXPECT_EQ(statistic(result, "oom_reports"), 1u);
  EXPECT_EQ(statistic(result, "budget_bytes"), 36 * kMiB);
  EXPECT_EQ(statistic(result, "peak_device_bytes"), 32 * kMiB);
  expect_same(plain({"memory/asked_again"}), run({"memory/asked_again"}, "40MiB"));
}

// It is the driver's, and counts. The program holds eight buffers of 4 MiB, and gets more one at a time.
TEST(UnmappableDevice, TheBudgetRefusesMemoryInStreamOrder) {
  const ProcessResult result = run({"memory/in_order"}, "34MiB");
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_TRUE(says(result, "program: 2 from cuMemAllocAsync")) << result.err;
  EXPECT_TRUE(says(result, "thermocline: out of memory: ")) << result.err;
  const ProcessResult fits = run({"memory/in_order"}, "36MiB");
  EXPECT_EQ(fits.status, 0) << fits.err;
  EXPECT_EQ(statistic(fits, "peak_live_bytes"), 36 * kMiB);
}

TEST(UnmappableDevice, ProgramsAreToldTheBudget) {
  const ProcessResult result = run({"contexts/memory_told"}, "16MiB");
  EXPECT_EQ(result.out, "before: total 16, free 16\ntook 16\nthen: total 16, free 0\n") << result.err;
  EXPECT_EQ(result.status, 0) << result.err;
  const std::vector<std::string> small = {"THERMOCLINE_SIMULATE_MEMORY_BYTES=33554432"};
  expect_same(plain({"contexts/memory_told"}, small), run({"contexts/memory_told"}, "", 0, small));
}

// In each of four rounds eight buffers live, and a block of 8 MiB is freed behind kernels in one stream and used in
// another. With the race checker, in all orders.
TEST(UnmappableDevice, FreedMemoryIsReusedWhenItsUsersAreDone) {
  const ProcessResult without = plain({"memory/asked_again"});
  for (const std::uint64_t order : orders()) {
    const ProcessResult with = run({"memory/asked_again"}, "", order);
    expect_same(without, with);
    EXPECT_EQ(statistic(with, "allocations"), 12u);
    EXPECT_EQ(statistic(with, "creates"), 9u);
    EXPECT_EQ(statistic(with, "frees"), 12u);
  }
  // The tenth allocation of the driver fails, if there is one.
  const std::string tenth = "THERMOCLINE_SIMULATE_FAULTS=fail cuMemAlloc call 10 OUT_OF_MEMORY";
  EXPECT_TRUE(says(plain({"memory/asked_again"}, {tenth}), "simulated device: fault: "));
  const ProcessResult with = run({"memory/asked_again"}, "", 0, {tenth});
  EXPECT_FALSE(says(with, "simulated device: fault: ")) << with.err;
  EXPECT_EQ(with.status, 0) << with.err;
}

TEST(UnmappableDevice, MemoryThatOthersMayUseIsNotCached) {
  for (const char* what : {"shared", "attribute", "captured", "second_context", "blocked"}) {
    const ProcessResult without = plain({"memory/asked_again", what});
    for (const std::uint64_t order : orders()) {
      const ProcessResult with = run({"memory/asked_again", what}, "", order);
      expect_same(without, with);
      EXPECT_EQ(statistic(with, "creates"), 12u) << what;
    }
  }
  // A context that has ended is no other, and what the driver refuses to free for lack of one is as it was.
  for (const char* what : {"context_gone", "unused"}) {
    const ProcessResult with = run({"memory/asked_again", what}, "");
    expect_same(plain({"memory/asked_again", what}), with);
    EXPECT_EQ(statistic(with, "creates"), 9u) << what;
    EXPECT_EQ(statistic(with, "allocations"), 12u) << what;
  }
}

TEST(UnmappableDevice, MemoryThatIsFreedTwiceIsRefusedAsTheDriverRefusesIt) {
  const ProcessResult with = run({"memory/asked_again", "twice"}, "");
  expect_same(plain({"memory/asked_again", "twice"}), with);
  EXPECT_EQ(statistic(with, "creates"), 9u);
}

// The driver refuses one wait, and the freed block goes to it instead.
TEST(UnmappableDevice, AWaitThatTheDriverRefusesIsNotTakenForOne) {
  const std::vector<std::string> fault = {"THERMOCLINE_SIMULATE_FAULTS=fail cuCtxSynchronize call 2 INVALID_VALUE"};
  const ProcessResult with = run({"memory/asked_again"}, "", 1, fault);
  EXPECT_TRUE(says(with, "simulated device: fault: ")) << with.err;
  expect_same(plain({"memory/asked_again"}), with);
  EXPECT_EQ(statistic(with, "creates"), 10u);
}

// 16 MiB in small blocks are cached, and the same again is asked for in another size. The device has 24 MiB, 12 of which
// the code of a kernel takes in the end.
TEST(UnmappableDevice, WhatIsCachedGoesForWhatIsAskedForNext) {
  const std::vector<std::string> small = {"THERMOCLINE_SIMULATE_MEMORY_BYTES=25165824",
                                          "THERMOCLINE_SIMULATE_LAZY_LOADING=12582912"};
  const ProcessResult without = plain({"memory/asked_differently"}, small);
  for (const std::uint64_t order : orders()) {
    // For lack of device memory, and under the budget.
    const ProcessResult full = run({"memory/asked_differently"}, "", order, small);
    expect_same(without, full);
    EXPECT_LE(statistic(full, "peak_device_bytes"), 24 * kMiB);
    EXPECT_EQ(statistic(full, "oom_reports"), 0u);
    EXPECT_LT(statistic(full, "creates"), statistic(full, "allocations"));
    const ProcessResult squeezed = run({"memory/asked_differently"}, "17MiB", order);
    expect_same(without, squeezed);
    EXPECT_LE(statistic(squeezed, "peak_device_bytes"), 17 * kMiB);
  }
}

// To free memory while a stream is blocked would wait for the thread that is to let it go on.
TEST(UnmappableDevice, NothingIsCachedAnyMoreWhenAStreamIsBlocked) {
  const ProcessResult with = run({"memory/asked_while_blocked"}, "17MiB");
  expect_same(plain({"memory/asked_while_blocked"}), with);
  EXPECT_EQ(statistic(with, "creates"), 5u);
}

// The driver is out of memory once, at each of these calls, while something is cached.
TEST(UnmappableDevice, WhatIsCachedGoesForWhateverTheDriverNeeds) {
  const ProcessResult without = plain({"memory/asked_differently"});
  for (const char* call : {"cuMemAlloc call 5", "cuMemAllocAsync call 1", "cuMemAllocManaged call 1"}) {
    const std::string plan = std::string("THERMOCLINE_SIMULATE_FAULTS=fail ") + call + " OUT_OF_MEMORY";
    const ProcessResult result = run({"memory/asked_differently"}, "", 0, {plan});
    EXPECT_TRUE(says(result, "simulated device: fault: ")) << plan << result.err;
    expect_same(without, result);
    EXPECT_EQ(statistic(result, "oom_reports"), 0u) << plan;
  }
}

}  // namespace
}  // namespace thermocline::test
