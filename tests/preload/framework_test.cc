// SPDX-License-Identifier: Apache-2.0
// The library as a framework's allocator: opened late and privately, and preloaded (programs/framework.cc checks).
#include <gtest/gtest.h>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

TEST(Framework, ALibraryOpenedLateAllocatesAndMovesNothing) {
  for (const std::uint64_t order : orders()) {
    const Running late{.preload = {}, .budget = "16MiB", .order = order, .environment = {}};
    const ProcessResult result = run_program({"framework", "late", LIBRARY_FILE}, late);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, "done\n");
  }
}

TEST(Framework, APreloadedLibraryOffloadsAsWell) {
  for (const std::uint64_t order : orders()) {
    const ProcessResult result = run_preloaded({"framework", "preloaded"}, "16MiB", order);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, "done\n");
  }
}

}  // namespace
}  // namespace thermocline::test
