// SPDX-License-Identifier: Apache-2.0
// Programs that do nothing for a while, under the library, which then checks for idleness (hooks/entry/idle_thread.h).
#include <gtest/gtest.h>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

class Idle : public testing::TestWithParam<const char*> {};

TEST_P(Idle, GivesBackWhatItDoesNotUseAndGoesOn) {
  const std::string what = GetParam();
  const ProcessResult plain = run_plain({"idle", what});
  std::vector<std::string> environment = {"THERMOCLINE_IDLE_AFTER=1ms", "THERMOCLINE_IDLE_RESERVE=1"};
  // The driver waits for streams only if memory comes from cuMemHostAlloc.
  if (what == "stands") environment.emplace_back("THERMOCLINE_HOST_FALLBACK=off");
  const ProcessResult idle = run_program(
      {"idle", what}, {.preload = {LIBRARY_FILE}, .budget = "16MiB", .environment = std::move(environment)});
  expect_same(plain, idle);
  EXPECT_GT(statistic(idle, "evicted_bytes"), 0u);
}
INSTANTIATE_TEST_SUITE_P(Preload, Idle, testing::Values("ends", "rests", "forks", "again", "stands"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace thermocline::test
