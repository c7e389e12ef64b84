// SPDX-License-Identifier: Apache-2.0
// Copies that do not fit at once, and batches of which one copy fails.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

// Each of the two buffers nearly fills the budget.
TEST(ApiPaths, CopiesLargerThanTheRoomAreDoneInParts) {
  expect_same_bits({"api_paths/copies/larger_than_the_room"}, "112MiB", 112 * kMiB);
}

// What of a failed batch was submitted has been written, and is in use.
TEST(ApiPaths, CopiesOfABatchThatFailsCount) {
  expect_same_bits({"api_paths/copies/batches_that_fail"}, "20MiB", 20 * kMiB);
}

// One unit of each buffer fits at a time, which is enough where parts end at the units of both.
TEST(ApiPaths, PartsOfACopyEndWhereUnitsOfEitherBufferEnd) {
  expect_same_bits({"api_paths/copies/larger_and_shifted"}, "80MiB", 80 * kMiB);
}

TEST(ApiPaths, CopiesOfRowsLargerThanTheRoomAreDoneInParts) {
  const std::vector<std::string> arguments = {"api_paths/copies/rows_larger_than_the_room"};
  expect_same_bits(arguments, "80MiB", 80 * kMiB);
  // Without a host mapping, an access that was not seen would fault instead of being hidden.
  const ProcessResult squeezed = run_program(
      arguments, {.preload = {LIBRARY_FILE}, .budget = "80MiB", .environment = {"THERMOCLINE_HOST_FALLBACK=off"}});
  expect_same(run_plain(arguments), squeezed);
}

}  // namespace
}  // namespace thermocline::test
