// SPDX-License-Identifier: Apache-2.0
// Programs in which one thread waits in a call until another has continued: nothing that the other needs may be locked
// meanwhile. A program that hangs is ended by a signal.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

constexpr const char* kBudget = "24MiB";

std::string api_path(const std::string& program) {
  std::string path = "api_paths/";
  path += program;
  return path;
}

void expect_that_nobody_is_kept_waiting(const std::string& program) {
  const std::vector<std::string> arguments = {api_path(program)};
  const ProcessResult plain = run_plain(arguments);
  EXPECT_EQ(plain.status, 0) << plain.err;
  for (const char* budget : {"", kBudget}) {
    for (const std::uint64_t order : orders()) expect_same(plain, run_preloaded(arguments, budget, order));
  }
}

TEST(Waiting, WhoDestroysAContextKeepsNobodyWaiting) {
  expect_that_nobody_is_kept_waiting("contexts/destroyed_while_standing");
}

TEST(Waiting, WhoFreesABufferThatOthersUseUnseenKeepsNobodyWaiting) {
  expect_that_nobody_is_kept_waiting("memory/freed_while_standing");
}

// A launch into a full queue waits in the driver.
TEST(Waiting, WhoFillsAStreamsQueueKeepsNobodyWaiting) { expect_that_nobody_is_kept_waiting("launches/full_queue"); }

// Equivalent to a wait: while a stream captures, nobody may wait for the context.
TEST(Waiting, ABufferUnderATextureOutlivesItsReadersWhileAStreamRecords) {
  expect_that_nobody_is_kept_waiting("memory/freed_under_a_texture");
}

// Memory that could not be waited for is not reused, and still exists when its context ends.
TEST(Waiting, MemoryStaysWhereTheDriverDoesNotWait) {
  const std::vector<std::string> arguments = {api_path("contexts/wait_refused")};
  const std::string destroyed = "cuCtxDestroy(doomed): 0\n";
  for (const std::uint64_t order : orders()) {
    const ProcessResult result = run_program(
        arguments, {.preload = {LIBRARY_FILE},
                    .budget = "",
                    .order = order,
                    .environment = {"THERMOCLINE_SIMULATE_FAULTS=fail cuCtxSynchronize from 1 INVALID_VALUE"}});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find("cuMemFree(under): 1\n"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find(destroyed), std::string::npos) << result.out;
  }
}

}  // namespace
}  // namespace thermocline::test
