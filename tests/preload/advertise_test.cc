// SPDX-License-Identifier: Apache-2.0
// The memory that a program takes that sizes itself by free memory, under each value of the setting `advertise`; and
// that it gets it.
#include <gtest/gtest.h>

#include <string>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

ProcessResult sized_under(const std::string& advertise) {
  Running running{
      .preload = {LIBRARY_FILE}, .budget = "16MiB", .order = 0, .environment = {"THERMOCLINE_HOST_LIMIT=96MiB"}};
  if (!advertise.empty()) running.environment.push_back("THERMOCLINE_ADVERTISE=" + advertise);
  ProcessResult result = run_program({"api_paths/contexts/memory_told"}, running);
  EXPECT_EQ(result.status, 0) << result.err;
  return result;
}

TEST(Advertise, AProgramThatSizesItselfStaysWithinTheBudgetUnlessItIsToldMore) {
  for (const char* const same : {"", "budget"}) {
    const ProcessResult result = sized_under(same);
    EXPECT_EQ(result.out, "before: total 16, free 16\ntook 16\nthen: total 16, free 0\n");
    EXPECT_EQ(statistic(result, "evicted_bytes"), 0u);
  }
}

TEST(Advertise, ToldOfTheDeviceItTakesMoreThanTheBudgetAndGetsIt) {
  const ProcessResult result = sized_under("device");
  EXPECT_EQ(result.out, "before: total 65536, free 65536\ntook 32\nthen: total 65536, free 65504\n");
  EXPECT_GE(statistic(result, "evicted_bytes"), 16 * kMiB);
  EXPECT_LE(statistic(result, "peak_device_bytes"), 16 * kMiB);
}

TEST(Advertise, ToldOfBudgetAndHostItTakesMoreThanTheBudgetAndGetsIt) {
  const ProcessResult result = sized_under("budget+host");
  EXPECT_EQ(result.out, "before: total 112, free 112\ntook 32\nthen: total 112, free 80\n");
  EXPECT_GE(statistic(result, "evicted_bytes"), 16 * kMiB);
}

TEST(Advertise, ABudgetAboveTheDeviceIsSaidAndTheProgramIsToldOfTheDevice) {
  const auto under = [](const std::string& budget) {
    const Running running{.preload = {LIBRARY_FILE}, .budget = budget, .order = 0, .environment = {}};
    return run_program({"api_paths/contexts/memory_told"}, running);
  };
  const ProcessResult result = under("100GiB");
  EXPECT_EQ(result.out.substr(0, 27), "before: total 65536, free 6") << result.out;
  const std::string note = "thermocline: the budget of 100.00 GiB is more than the device has; it gets 64.00 GiB\n";
  const std::size_t at = result.err.find(note);
  ASSERT_NE(at, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(note, at + 1), std::string::npos) << result.err;
  EXPECT_EQ(under("64GiB").err.find("more than the device has"), std::string::npos);
}

}  // namespace
}  // namespace thermocline::test
