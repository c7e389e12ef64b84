// SPDX-License-Identifier: Apache-2.0
// Graphs that kernels may launch: what they name is pinned as long as they name it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

ProcessResult run(const std::vector<std::string>& arguments, const std::string& faults, bool preloaded) {
  Running running{.preload = {}, .budget = "", .environment = {}};
  if (!faults.empty()) running.environment.push_back("THERMOCLINE_SIMULATE_FAULTS=" + faults);
  if (preloaded) {
    running.preload = {LIBRARY_FILE};
    running.budget = "20MiB";
  }
  return run_program(arguments, running);
}

void expect_nothing_pinned(const std::vector<std::string>& arguments, const std::string& faults) {
  const ProcessResult plain = run(arguments, faults, false);
  const ProcessResult result = run(arguments, faults, true);
  EXPECT_EQ(plain.status, 0) << plain.err;
  expect_same(plain, result);
  EXPECT_EQ(statistic(result, "pinned_buffers"), 0u) << result.err;
  EXPECT_GT(statistic(result, "evicted_bytes"), 0u) << result.err;
  EXPECT_EQ(result.err.find("out of memory"), std::string::npos) << "what fits in the end is not reported\n"
                                                                 << result.err;
}

const std::string kProgram = "api_paths/graphs/launched_by_the_device";

TEST(DeviceGraphs, ThatTheDriverRefusesPinNothing) { expect_nothing_pinned({kProgram, "refused"}, ""); }

TEST(DeviceGraphs, PinWhatTheyNameAsLongAsTheyNameIt) { expect_nothing_pinned({kProgram}, "accept device-launches"); }

TEST(DeviceGraphs, KeepOnTheDeviceWhatAnyOfTheirNodesNames) {
  const ProcessResult result = run({kProgram, "named"}, "accept device-launches", true);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("while a graph needs the room: 2\n"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("while another node needs it: 2\n"), std::string::npos) << result.out;
  EXPECT_EQ(statistic(result, "pinned_buffers"), 0u) << result.err;
}

}  // namespace
}  // namespace thermocline::test
