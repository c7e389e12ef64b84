// SPDX-License-Identifier: Apache-2.0
// The results of dlsym and dlvsym under the library: the same as without it, except that hooked driver functions are
// replaced by hooks.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The expected line under the library for a line of the plain run.
std::string expected_from(std::string line) {
  const bool hooked = line.find(" cuMemAlloc_v2: libcuda.so") != std::string::npos;
  const bool ours = line.find(" dlsym: libc.so.6") != std::string::npos && line.find("handle") == std::string::npos;
  if (hooked || ours) line.replace(line.find(": ") + 2, std::string::npos, "libthermocline.so.1");
  return line;
}

TEST(Lookups, AreThoseOfTheProgramAloneButForHookedFunctions) {
  const ProcessResult plain = run_plain({"lookups"});
  const ProcessResult preloaded = run_preloaded({"lookups"});
  ASSERT_EQ(plain.status, 0) << plain.err;
  ASSERT_EQ(preloaded.status, 0) << preloaded.err;
  EXPECT_EQ(preloaded.err, "");
  const std::vector<std::string> before = lines_of(plain.out);
  const std::vector<std::string> after = lines_of(preloaded.out);
  ASSERT_EQ(before.size(), after.size());
  std::string part;
  int hooked = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].starts_with("--")) part = before[i];
    if (after[i] == "default cuMemAlloc_v2: libthermocline.so.1" ||
        after[i] == "next cuMemAlloc_v2: libthermocline.so.1") {
      // The library's export is in the global scope; if the process has a driver, it is returned even to callers that
      // could not see that driver.
      EXPECT_NE(part, "-- no driver");
      continue;
    }
    EXPECT_EQ(after[i], expected_from(before[i])) << part;
    hooked += after[i] != before[i] ? 1 : 0;
  }
  EXPECT_GT(hooked, 4);
}

TEST(Lookups, NothingIsSaidOrDoneWhereNoDriverIs) {
  const ProcessResult plain =
      run_program({"lookups"}, {.preload = {}, .budget = "", .environment = {"LD_LIBRARY_PATH=/nonexistent"}});
  const ProcessResult preloaded = run_program(
      {"lookups"}, {.preload = {LIBRARY_FILE}, .budget = "", .environment = {"LD_LIBRARY_PATH=/nonexistent"}});
  EXPECT_EQ(preloaded.status, plain.status);
  EXPECT_EQ(preloaded.err, "");
}

// A driver may have other ways in to its functions than its symbols. What is found there is ours by what was asked for.
TEST(Lookups, FunctionsAtAddressesThatAreNotKnownAreHooked) {
  std::string plan = "THERMOCLINE_SIMULATE_FAULTS=";
  for (const char* function : {"cuMemAlloc", "cuMemFree", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuLaunchKernel"})
    plan.append("elsewhere ").append(function).append("; ");
  for (const char* program : {"api_paths/resolution/proc_address", "api_paths/resolution/proc_address_of_cuda_11"}) {
    const ProcessResult result =
        run_program({program}, {.preload = {LIBRARY_FILE}, .budget = "20MiB", .order = 0, .environment = {plan}});
    expect_same(run_plain({program}), result);
    EXPECT_GT(statistic(result, "evicted_bytes"), 0u) << program;
  }
}

// The effects of such a variant are not seen, and may concern any buffer.
ProcessResult run_beside_a_newer_variant(const char* when) {
  return run_program({"api_paths/resolution/newer_variant", when},
                     {.preload = {LIBRARY_FILE},
                      .budget = "20MiB",
                      .order = 0,
                      .environment = {"THERMOCLINE_SIMULATE_FAULTS=newer cuLaunchKernel; newer cuMemsetD8"}});
}

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++count;
  return count;
}

void expect_said_once_and_counted(const ProcessResult& result) {
  EXPECT_EQ(times(result.err, "that is not known; it is left alone, and nothing is evicted from now on"), 1u)
      << result.err;
  EXPECT_EQ(statistic(result, "unknown_functions"), 2u);
  EXPECT_EQ(times(result.err, "not known here, and went unseen: cuLaunchKernel of CUDA 14.0, cuMemsetD8 of CUDA 14.0"),
            1u)
      << result.err;
}

TEST(Lookups, AVariantThatIsNotKnownStopsEvictionBeforeTheLibraryBegins) {
  const ProcessResult result = run_beside_a_newer_variant("early");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            "granted fewer\nevicted before: none\nright\nrefused of those evicted: none\nrefused at last: none\n"
            "evicted since: none\n");
  EXPECT_EQ(statistic(result, "evicted_bytes"), 0u);
  expect_said_once_and_counted(result);
}

// Memory that is evicted by then stays right wherever it may be used, and returns to the device when there is room.
TEST(Lookups, AVariantThatIsNotKnownStopsEvictionOfARunningEngine) {
  const ProcessResult result = run_beside_a_newer_variant("late");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            "granted all\nevicted before: some\nright\nrefused of those evicted: some\nrefused at last: none\n"
            "evicted since: none\n");
  EXPECT_NE(result.err.find("nothing leaves the device any more"), std::string::npos) << result.err;
  expect_said_once_and_counted(result);
}

TEST(Lookups, WithoutSuchAVariantEvictionGoesOn) {
  const ProcessResult result = run_beside_a_newer_variant("never");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            "granted all\nevicted before: some\nright\nrefused of those evicted: none\nrefused at last: none\n"
            "evicted since: some\n");
  EXPECT_EQ(statistic(result, "unknown_functions"), 0u);
}

// Libraries look these up at their start; only where a driver has them may there be work that no hook sees.
TEST(Lookups, FunctionsWithoutAHeaderAreNamedOnceWhereTheDriverHasThem) {
  const std::vector<std::string> program = {"api_paths/resolution/asks_for", "cuSubgridCreate",
                                            "cuSubgridWorksetCreate"};
  const ProcessResult without = run_program(program, {.preload = {LIBRARY_FILE}, .budget = "", .environment = {}});
  EXPECT_EQ(without.out, "cuSubgridCreate: not there\ncuSubgridWorksetCreate: not there\n") << without.err;
  EXPECT_EQ(without.err.find("cuSubgrid"), std::string::npos) << without.err;
  const ProcessResult with = run_program(
      program, {.preload = {LIBRARY_FILE}, .budget = "", .environment = {"LD_LIBRARY_PATH=" NO_DEVICE_FOLDER}});
  EXPECT_EQ(with.out, "cuSubgridCreate: there\ncuSubgridWorksetCreate: there\n") << with.err;
  const std::string line = "thermocline: the driver has cuSubgridCreate, which no public header declares;";
  const std::size_t first = with.err.find(line);
  ASSERT_NE(first, std::string::npos) << with.err;
  EXPECT_EQ(with.err.find("cuSubgrid", first + line.size()), std::string::npos) << with.err;
}

}  // namespace
}  // namespace thermocline::test
