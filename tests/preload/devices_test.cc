// SPDX-License-Identifier: Apache-2.0
// Programs that use several devices in one process (programs/devices/): each has an engine, and the budget is each
// device's by itself.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

constexpr const char* kBudget = "20MiB";
constexpr std::uint64_t kBudgetBytes = 20 * kMiB;

// Of all engines together.
void expect_same_bits_on(int devices, const std::string& program) {
  const std::vector<std::string> arguments = {"roads/" + program};
  const ProcessResult plain = run_plain(arguments);
  const ProcessResult fits = run_preloaded(arguments);
  expect_same(plain, fits);
  // Nothing is said but what was asked for.
  EXPECT_EQ(fits.err.find("thermocline: "), fits.err.find("thermocline: peak_live_bytes=")) << fits.err;
  EXPECT_EQ(statistic(fits, "evicted_bytes"), 0u);
  for (const std::uint64_t order : orders()) {
    const ProcessResult squeezed = run_preloaded(arguments, kBudget, order);
    expect_same(plain, squeezed);
    EXPECT_EQ(statistic(squeezed, "budget_bytes"), static_cast<std::uint64_t>(devices) * kBudgetBytes);
    EXPECT_LE(statistic(squeezed, "peak_device_bytes"), static_cast<std::uint64_t>(devices) * kBudgetBytes);
    EXPECT_GT(statistic(squeezed, "peak_live_bytes"), static_cast<std::uint64_t>(devices) * kBudgetBytes);
    EXPECT_GT(statistic(squeezed, "restored_bytes"), 0u);
    EXPECT_EQ(statistic(squeezed, "other_contexts"), 0u);
    // What other devices touch need not stay.
    EXPECT_EQ(statistic(squeezed, "pinned_buffers"), 0u);
  }
}

class Devices : public testing::TestWithParam<const char*> {};

TEST_P(Devices, GiveTheSameBits) { expect_same_bits_on(2, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Small, Devices,
                         testing::Values("devices/loops", "devices/peer_copies", "devices/peers", "devices/reset",
                                         "devices/threads"),
                         [](const testing::TestParamInfo<const char*>& test) {
                           std::string name = test.param;
                           name[name.find('/')] = '_';
                           return name;
                         });

TEST(SeveralDevices, OneThatIsNotTheFirstGivesTheSameBits) { expect_same_bits_on(1, "devices/second_alone"); }

TEST(SeveralDevices, EachSaysItsOwnBudget) {
  const ProcessResult result = run_preloaded({"roads/devices/memory_info"}, kBudget);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            "device 0: total 20971520 taken 4194304\n"
            "device 1: total 20971520 taken 8388608\n"
            "on 0, in its context\n"
            "on 1, in its context\n"
            "two buffers\n"
            "device 0: total 20971520 taken 0\n"
            "device 1: total 20971520 taken 8388608\n"
            "on 1, in its context\n");
}

}  // namespace
}  // namespace thermocline::test
