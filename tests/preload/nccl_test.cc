// SPDX-License-Identifier: Apache-2.0
// Programs that use NCCL, with a library of its name whose kernels find their operands in a way that nobody sees
// (programs/nccl/fake.cc). Without a host fallback, so that accessing a non-resident buffer is an illegal address.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

constexpr const char* kBudget = "24MiB";
constexpr std::uint64_t kBudgetBytes = 24 * kMiB;

ProcessResult run_without_net(const std::string& program, std::uint64_t order, const std::string& budget = kBudget) {
  return run_program(
      {"api_paths/" + program},
      {.preload = {LIBRARY_FILE}, .budget = budget, .order = order, .environment = {"THERMOCLINE_HOST_FALLBACK=off"}});
}

class Nccl : public testing::TestWithParam<std::string> {};

TEST_P(Nccl, BuffersStayWhereTheyAreWhileItWorksOnThem) {
  const ProcessResult plain = run_plain({"api_paths/" + GetParam()});
  expect_same(plain, run_without_net(GetParam(), 0, ""));
  for (const std::uint64_t order : orders()) {
    const ProcessResult squeezed = run_without_net(GetParam(), order);
    expect_same(plain, squeezed);
    EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
    EXPECT_LE(statistic(squeezed, "peak_device_bytes"), kBudgetBytes);
    EXPECT_EQ(statistic(squeezed, "unseen_collectives"), 0u);
    // Memory that NCCL has allocated, on a thread of its own and for the program, is not the engine's.
    EXPECT_EQ(statistic(squeezed, "allocations"), 8u);
  }
}

INSTANTIATE_TEST_SUITE_P(Preload, Nccl,
                         testing::Values("nccl/alone", "nccl/captured", "nccl/collectives", "nccl/looked_up",
                                         "nccl/registered"),
                         [](const auto& test) { return test.param.substr(test.param.find('/') + 1); });

TEST(NcclApiPaths, NothingStaysWhenItIsDone) {
  for (const char* program : {"nccl/alone", "nccl/collectives", "nccl/registered"}) {
    EXPECT_EQ(statistic(run_without_net(program, 0), "pinned_buffers"), 0u) << program;
  }
}

TEST(NcclApiPaths, AnswersAreTheSameWhereItIsOpenedForAll) {
  const std::vector<std::string> arguments = {"api_paths/nccl/looked_up", "for all"};
  const ProcessResult plain = run_plain(arguments);
  expect_same(plain, run_preloaded(arguments));
  expect_same(plain, run_preloaded(arguments, kBudget));
}

TEST(NcclApiPaths, WhatItDoesInTheBackgroundKeepsItsBuffers) {
  const ProcessResult plain = run_plain({"api_paths/nccl/background"});
  const ProcessResult squeezed = run_without_net("nccl/background", 0);
  expect_same(plain, squeezed);
  EXPECT_GT(statistic(squeezed, "unseen_collectives"), 0u);
  EXPECT_NE(squeezed.err.find("a communicator of NCCL does not block"), std::string::npos) << squeezed.err;
}

// If NCCL is linked statically, its functions can not be hooked: that is detected.
TEST(NcclApiPaths, OneInsideTheProgramIsNoticed) {
  const ProcessResult plain = run_plain({"api_paths/nccl/within"});
  const ProcessResult fits = run_preloaded({"api_paths/nccl/within"});
  expect_same(plain, fits);
  EXPECT_GT(statistic(fits, "unseen_collectives"), 0u);
  EXPECT_NE(fits.err.find("thermocline: NCCL is called in a way that is not seen"), std::string::npos) << fits.err;
  EXPECT_NE(fits.err.find("kernels of NCCL whose call was not seen"), std::string::npos) << fits.err;
}

}  // namespace
}  // namespace thermocline::test
