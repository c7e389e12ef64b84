// SPDX-License-Identifier: Apache-2.0
// Copies that do not fit at once, batches of which one copy fails, and copies to the host of what is evicted.
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

// The copies of a failed batch that were submitted have been written, and are in use.
TEST(ApiPaths, CopiesOfABatchThatFailsCount) {
  expect_same_bits({"api_paths/copies/batches_that_fail"}, "20MiB", 20 * kMiB);
}

// One unit of each buffer fits at a time, which is enough where parts end at the units of both.
TEST(ApiPaths, PartsOfACopyEndWhereUnitsOfEitherBufferEnd) {
  expect_same_bits({"api_paths/copies/larger_and_shifted"}, "80MiB", 80 * kMiB);
}

// Neither buffer can be divided, and the budget has room for one of them at a time.
TEST(ApiPaths, CopiesBetweenBuffersThatDoNotFitTogetherReadTheSourceOnTheHost) {
  const std::vector<std::string> program = {"api_paths/copies/two_that_do_not_fit"};
  expect_same_bits(program, "40MiB", 40 * kMiB);
  EXPECT_GT(statistic(run_preloaded(program, "40MiB"), "host_reads"), 10u);
}

// The room is that for a unit of 20 MiB, and for the test's arrays.
TEST(ApiPaths, SmallCopiesOverTheEndsOfUnitsAreDoneInParts) {
  expect_same_bits({"api_paths/copies/over_the_ends_of_units"}, "42MiB", 42 * kMiB);
}

TEST(ApiPaths, CopiesOfRowsLargerThanTheRoomAreDoneInParts) {
  const std::vector<std::string> arguments = {"api_paths/copies/rows_larger_than_the_room"};
  expect_same_bits(arguments, "80MiB", 80 * kMiB);
  // Without a host mapping, an access that was not seen would fault instead of being hidden.
  const ProcessResult squeezed = run_program(
      arguments, {.preload = {LIBRARY_FILE}, .budget = "80MiB", .environment = {"THERMOCLINE_HOST_FALLBACK=off"}});
  expect_same(run_plain(arguments), squeezed);
}

// Evicted contents are copied to the host from their host copy, also if nothing could be fetched.
TEST(ApiPaths, CopiesToTheHostOfWhatIsEvictedFetchNothing) {
  const ProcessResult result = run_preloaded({"api_paths/copies/evicted_to_host"}, "20MiB");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_GE(statistic(result, "host_reads"), 9u) << result.err;
}

// Copies to the host of rows, of which some lie in both the evicted and the other part of a buffer, and for batches.
TEST(ApiPaths, CopiesOfRowsToTheHostOfWhatIsEvictedFetchNothing) {
  constexpr std::uint64_t kRoom = 64 * kMiB;
  const std::vector<std::string> program = {"api_paths/copies/evicted_rows_to_host"};
  expect_same_bits(program, "64MiB", kRoom);
  const ProcessResult result = run_preloaded(program, "64MiB");
  EXPECT_GE(statistic(result, "host_reads"), 130u) << result.err;
}

// A driver without host functions copies on the host itself; what it refuses to copy there is fetched.
TEST(ApiPaths, CopiesOfRowsToTheHostThatTheDriverRefusesAreMadeOnTheDevice) {
  const std::vector<std::string> program = {"api_paths/copies/evicted_rows_to_host", "without_waits"};
  const std::string plan =
      "THERMOCLINE_SIMULATE_FAULTS=fail cuLaunchHostFunc from 1 NOT_SUPPORTED; fail cuMemcpy3DAsync call 1 "
      "INVALID_VALUE";
  const ProcessResult result =
      run_program(program, {.preload = {LIBRARY_FILE}, .budget = "64MiB", .environment = {plan}});
  expect_same(run_plain(program), result);
  EXPECT_GE(statistic(result, "host_reads"), 90u) << result.err;
}

}  // namespace
}  // namespace thermocline::test
