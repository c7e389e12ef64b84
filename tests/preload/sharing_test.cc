// SPDX-License-Identifier: Apache-2.0
// Memory that a program shares with another process of its own (setting `shareable`).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

constexpr const char* kBudget = "20MiB";
constexpr std::uint64_t kBudgetBytes = 20 * kMiB;
const std::vector<std::string> kProgram = {"api_paths/memory/shared_between_processes"};

ProcessResult run_shareable(const std::vector<std::string>& arguments, const std::string& budget = "",
                            std::uint64_t order = 0) {
  return run_program(
      arguments,
      {.preload = {LIBRARY_FILE}, .budget = budget, .order = order, .environment = {"THERMOCLINE_SHAREABLE=1"}});
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(Sharing, ProcessesExchangeABufferWhereItIsLeftToTheDriver) {
  const ProcessResult plain = run_plain(kProgram);
  EXPECT_EQ(plain.out.substr(0, 9), "handle 0\n");
  const ProcessResult fits = run_shareable(kProgram);
  expect_same(plain, fits);
  EXPECT_EQ(statistic(fits, "refused_shares"), 0u);
  for (const std::uint64_t order : orders()) {
    const ProcessResult squeezed = run_shareable(kProgram, kBudget, order);
    expect_same(plain, squeezed);
    EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
    EXPECT_LE(statistic(squeezed, "peak_device_bytes"), kBudgetBytes);
  }
}

TEST(Sharing, ProcessesExchangeABufferThroughTheRuntime) {
  if (!HAS_CUDA_PROGRAMS) GTEST_SKIP() << "nvcc was not found";
  const std::vector<std::string> program = {"api_paths/runtime/shared"};
  const ProcessResult plain = run_plain(program);
  for (const std::uint64_t order : orders()) expect_same(plain, run_shareable(program, "", order));
}

// It may still be evicted, and the line says what would help.
TEST(Sharing, RefusalIsTheDriversAndSaidOnceAndCounted) {
  const ProcessResult result = run_preloaded(kProgram, kBudget);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out.substr(0, 9), "handle 1\n");
  EXPECT_EQ(times(result.err, "THERMOCLINE_SHAREABLE=1"), 1u) << result.err;
  EXPECT_EQ(times(result.err, "fallbacks: 1 request to share memory with other processes, refused"), 1u) << result.err;
  EXPECT_EQ(statistic(result, "refused_shares"), 1u);
  EXPECT_EQ(statistic(result, "pinned_buffers"), 0u);
}

// The owner of the descriptor may use the memory at any later time.
TEST(Sharing, WhatTheDriverHasSharedStaysOnTheDevice) {
  const std::vector<std::string> arguments = {"api_paths/memory/shared_with_others", "unfreed"};
  const ProcessResult plain = run_plain(arguments);
  EXPECT_NE(plain.out.find("DMA_BUF_FD, 0): 0\n"), std::string::npos) << plain.out;
  const ProcessResult result = run_preloaded(arguments, kBudget);
  expect_same(plain, result);
  EXPECT_EQ(statistic(result, "pinned_buffers"), 1u);
  EXPECT_EQ(statistic(result, "refused_shares"), 0u);
  EXPECT_GT(statistic(result, "evicted_bytes"), 0u);
}

TEST(Sharing, WhatIsLeftToTheDriverCountsAgainstTheBudget) {
  const ProcessResult result = run_shareable({"api_paths/launches/parameters"}, kBudget);
  EXPECT_EQ(result.status, 2);  // a call failed
  EXPECT_NE(result.err.find("program: 2 from cuMemAlloc"), std::string::npos) << result.err;
  EXPECT_EQ(statistic(result, "peak_device_bytes"), kBudgetBytes);
}

TEST(Sharing, ProgramsThatFitComputeTheSame) {
  for (const char* program : {"launches/parameters", "memory/pitched", "graphs/captured", "contexts/destroyed",
                              "graphs/memory_while_recording", "memory/in_order"}) {
    const std::vector<std::string> arguments = {std::string("api_paths/") + program};
    expect_same(run_plain(arguments), run_shareable(arguments));
  }
}

}  // namespace
}  // namespace thermocline::test
