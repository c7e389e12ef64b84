// SPDX-License-Identifier: Apache-2.0
// Runs the random programs (random_program.cc) as subprocesses: plain on the simulated device, and preloaded under
// budgets that force eviction. THERMOCLINE_TEST_SEEDS scales the number of programs (100 by default: percent).
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/subprocess.h"

namespace {

using thermocline::test::ProcessResult;
using thermocline::test::run_process;

std::uint64_t scaled(std::uint64_t n) {
  const char* percent = std::getenv("THERMOCLINE_TEST_SEEDS");
  const std::uint64_t scale = percent != nullptr ? std::strtoull(percent, nullptr, 10) : 100;
  return n * scale / 100 > 0 ? n * scale / 100 : 1;
}

struct Setup {
  bool preload = true;
  std::string budget{};  // empty: all of the device
  std::string policy = "reactive";
  std::uint64_t order = 0;  // 0: order of time
  std::uint64_t programs = 20, first = 1, threads = 1, repeat = 1;
};

ProcessResult run_programs(const Setup& setup) {
  std::vector<std::string> environment = {
      "LD_LIBRARY_PATH=" SIMULATOR_FOLDER,
      "THERMOCLINE_SIMULATE_DEVICE=reference",
      "ASAN_OPTIONS=verify_asan_link_order=0:handle_segv=0:detect_leaks=0",
      "TSAN_OPTIONS=handle_segv=0",
      "NVTX_INJECTION64_PATH=" SIMULATOR_FOLDER "/libcuda.so.1",
      "THERMOCLINE_NVTX=true",
      "THERMOCLINE_SIMULATE_CHECK=1",
  };
  if (setup.order != 0) environment.push_back("THERMOCLINE_SIMULATE_SEED=" + std::to_string(setup.order));
  if (setup.preload) {
    environment.push_back("LD_PRELOAD=" LIBRARY_FILE);
    environment.push_back("THERMOCLINE_STATS=true");
    environment.push_back("THERMOCLINE_POLICY=" + setup.policy);
    if (!setup.budget.empty()) environment.push_back("THERMOCLINE_BUDGET=" + setup.budget);
  }
  const ProcessResult result =
      run_process({RANDOM_PROGRAM, "--programs", std::to_string(setup.programs), "--first", std::to_string(setup.first),
                   "--threads", std::to_string(setup.threads), "--repeat", std::to_string(setup.repeat)},
                  environment);
  EXPECT_NE(result.err.find("simulated device: races=0\n"), std::string::npos) << "order " << setup.order << "\n"
                                                                               << result.err;
  return result;
}

std::uint64_t statistic(const ProcessResult& result, const std::string& name) {
  const std::size_t at = result.err.find(name + "=");
  return at == std::string::npos ? 0 : std::strtoull(result.err.c_str() + at + name.size() + 1, nullptr, 10);
}

TEST(RandomPrograms, AgreeWithTheModelOnTheSimulatedDeviceAlone) {
  for (std::uint64_t order = 0; order < 4; ++order) {
    const ProcessResult result = run_programs({.preload = false, .order = order, .programs = scaled(40)});
    EXPECT_EQ(result.status, 0) << "order " << order << "\n" << result.err;
  }
}

TEST(RandomPrograms, AgreeWithTheModelWhenEverythingFits) {
  const ProcessResult result = run_programs({.programs = scaled(60)});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(statistic(result, "evicted_bytes"), 0u) << result.err;
}

TEST(RandomPrograms, AgreeWithTheModelUnderABudgetInOrderOfTime) {
  const ProcessResult result = run_programs({.budget = "40MiB", .programs = scaled(120), .first = 1000});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_GT(statistic(result, "evicted_bytes"), 0u) << result.err;
  EXPECT_LE(statistic(result, "peak_device_bytes"), std::uint64_t{40} << 20) << result.err;
}

TEST(RandomPrograms, AgreeWithTheModelUnderABudgetInAdversarialOrders) {
  const std::uint64_t orders = scaled(20);
  for (std::uint64_t order = 1; order <= orders; ++order) {
    const ProcessResult result = run_programs(
        {.budget = order % 2 == 0 ? "36MiB" : "44MiB", .order = order, .programs = 100, .first = 10000 * order});
    ASSERT_EQ(result.status, 0) << "order " << order << "\n" << result.err;
    EXPECT_GT(statistic(result, "evicted_bytes"), 0u) << result.err;
  }
}

TEST(RandomPrograms, AgreeWithTheModelWhenTheyRepeatAndAPlanIsFollowed) {
  for (std::uint64_t order = 0; order < scaled(6); ++order) {
    const ProcessResult result = run_programs({.budget = "40MiB",
                                               .policy = "learned",
                                               .order = order,
                                               .programs = 8,
                                               .first = 700000 + 1000 * order,
                                               .repeat = 6});
    ASSERT_EQ(result.status, 0) << "order " << order << "\n" << result.err;
    EXPECT_GT(statistic(result, "plans"), 0u) << result.err;
  }
}

TEST(RandomPrograms, AgreeWithTheModelOnSeveralHostThreads) {
  for (std::uint64_t order = 0; order < 3; ++order) {
    const ProcessResult result = run_programs(
        {.budget = "100MiB", .order = order, .programs = scaled(40), .first = 500000 + 1000 * order, .threads = 4});
    EXPECT_EQ(result.status, 0) << "order " << order << "\n" << result.err;
  }
}

}  // namespace
