// SPDX-License-Identifier: Apache-2.0
// Which hook replaces a function that the driver returns under an address of its own: the one that a program of that
// version and default stream expects.
#include "hooks/interpose/symbols.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace thermocline {
namespace {

constexpr std::uint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
constexpr std::uint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

void* hook_of_symbol(const char* symbol) { return hook_of(find_hooked(symbol)); }

TEST(HookByName, IsTheNewestThatTheVersionKnows) {
  EXPECT_EQ(hook_by_name("cuStreamWaitValue32", 11000, kLegacy), hook_of_symbol("cuStreamWaitValue32"));
  EXPECT_EQ(hook_by_name("cuStreamWaitValue32", 11070, kLegacy), hook_of_symbol("cuStreamWaitValue32_v2"));
  EXPECT_EQ(hook_by_name("cuStreamWaitValue32", 12000, 0), hook_of_symbol("cuStreamWaitValue32_v2"));
  EXPECT_EQ(hook_by_name("cuMemcpyBatchAsync", 12080, kLegacy), hook_of_symbol("cuMemcpyBatchAsync"));
  EXPECT_EQ(hook_by_name("cuMemcpyBatchAsync", 13000, kLegacy), hook_of_symbol("cuMemcpyBatchAsync_v2"));
  // They have different arguments.
  EXPECT_EQ(hook_by_name("cuLaunchHostFunc", 13000, kLegacy), hook_of_symbol("cuLaunchHostFunc"));
  EXPECT_EQ(hook_by_name("cuLaunchHostFunc", 13010, kLegacy), hook_of_symbol("cuLaunchHostFunc_v2"));
  EXPECT_EQ(hook_by_name("cuLaunchHostFunc", 13000, kPerThread), hook_of_symbol("cuLaunchHostFunc_ptsz"));
  EXPECT_EQ(hook_by_name("cuLaunchHostFunc", 13010, kPerThread), hook_of_symbol("cuLaunchHostFunc_v2_ptsz"));
}

TEST(HookByName, IsOfTheDefaultStreamThatWasAskedFor) {
  EXPECT_EQ(hook_by_name("cuLaunchKernel", 12000, kPerThread), hook_of_symbol("cuLaunchKernel_ptsz"));
  EXPECT_EQ(hook_by_name("cuLaunchKernel", 12000, kLegacy), hook_of_symbol("cuLaunchKernel"));
  EXPECT_EQ(hook_by_name("cuMemAlloc", 12000, kPerThread), hook_of_symbol("cuMemAlloc_v2"));
}

// First versions, with 32-bit addresses, and functions newer than the table, whose form is unknown.
TEST(HookByName, IsNoneWhereTheShapeIsAnotherOrNotKnown) {
  EXPECT_EQ(hook_by_name("cuMemAlloc", 3010, 0), nullptr);
  EXPECT_EQ(hook_by_name("cuMemAlloc", kNewestKnownVersion + 1, 0), nullptr);
  EXPECT_EQ(hook_by_name("cuMemcpyBatchAsync", 12070, 0), nullptr);
  EXPECT_EQ(hook_by_name("cuDeviceGetCount", 12000, 0), nullptr);
}

TEST(HookByName, NewestKnownVersionIsTheTables) {
  int newest = 0;
  for (const HookedFunction& function : hooked_functions()) newest = std::max(newest, function.since);
  EXPECT_LE(newest, kNewestKnownVersion);
  EXPECT_GE(newest, kNewestKnownVersion - 100);
}

}  // namespace
}  // namespace thermocline
