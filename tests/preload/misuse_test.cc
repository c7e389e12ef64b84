// SPDX-License-Identifier: Apache-2.0
// Setting `debug`: errors are reported with all call sites, correct use is not, and nothing else changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

ProcessResult run_misuse(const std::string& how, const std::string& debug) {
  const Running running{.preload = {LIBRARY_FILE}, .budget = "", .environment = {"THERMOCLINE_DEBUG=" + debug}};
  return run_program({"misuse", how}, running);
}

std::size_t reports(const ProcessResult& result) {
  const std::regex report("thermocline: misuse: ");
  return static_cast<std::size_t>(
      std::distance(std::sregex_iterator(result.err.begin(), result.err.end(), report), std::sregex_iterator()));
}

struct Case {
  const char* how;
  const char* debug;
  const char* pattern;
};

class MisuseCase : public testing::TestWithParam<Case> {};

constexpr const char* kSite = " +operation [0-9]+, thread [0-9]+, [a-z 0-9]+\n( +[^ ]+\\+0x[0-9a-f]+.*\n)+";

TEST_P(MisuseCase, IsReportedOnceWithItsSites) {
  const ProcessResult result = run_misuse(GetParam().how, GetParam().debug);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(reports(result), 1u) << result.err;
  std::string pattern = GetParam().pattern;
  for (std::size_t at; (at = pattern.find('@')) != std::string::npos;) pattern.replace(at, 1, kSite);
  EXPECT_TRUE(std::regex_search(result.err, std::regex(pattern))) << pattern << "\n" << result.err;
  EXPECT_NE(result.err.find(" allocates\n"), std::string::npos) << "the function is named: " << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    Preload, MisuseCase,
    testing::Values(
        Case{"twice", "track",
             "a buffer is freed twice: 0x[0-9a-f]+, at byte 0 of a buffer of 5000\n  now@  freed@  allocated@"},
        Case{"twice", "guard", "a buffer is freed twice: .*\n  now@  freed@  allocated@"},
        Case{"inside", "track",
             "not the beginning of a buffer: 0x[0-9a-f]+, at byte 16 of a buffer of 5000\n  now@  allocated@"},
        Case{"after", "track", "an operation uses a buffer that was freed: .*\n  now@  freed@  allocated@"},
        Case{"after", "guard", "an operation uses a buffer that was freed: .*\n  now@  freed@  allocated@"},
        Case{"past", "track",
             "goes past the end of its buffer: 0x[0-9a-f]+, at byte 5000 of a buffer of 5000\n  now@  allocated@"},
        Case{"past-by-2", "track", "goes past the end of its buffer: 0x[0-9a-f]+, at byte 5000 of a buffer of 5000\n"},
        Case{"past-by-4", "track", "goes past the end of its buffer: 0x[0-9a-f]+, at byte 5000 of a buffer of 5000\n"},
        Case{"past-in-rows", "track",
             "goes past the end of its buffer: 0x[0-9a-f]+, at byte 5000 of a buffer of 5000\n"},
        Case{"past-by-half-a-value", "track",
             "goes past the end of its buffer: 0x[0-9a-f]+, at byte 1004 of a buffer of 1004\n"},
        Case{"past-by-half-a-value-waited-for", "track",
             "goes past the end of its buffer: 0x[0-9a-f]+, at byte 1004 of a buffer of 1004\n"},
        Case{"kernel-past", "guard",
             "something wrote past the end, found by its free: 0x[0-9a-f]+, at byte 5000 of a buffer of 5000\n  "
             "freed@  allocated@"}),
    [](const auto& test) {
      std::string name = std::string(test.param.how) + "_" + test.param.debug;
      std::ranges::replace(name, '-', '_');
      return name;
    });

TEST(Misuse, AWriteByAKernelAfterTheFreeIsReportedTwice) {
  const ProcessResult result = run_misuse("kernel-after", "guard");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(reports(result), 2u) << result.err;
  EXPECT_NE(result.err.find("is given the address of a buffer that was freed"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("something wrote to it after it was freed: "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(", at byte 100 of a buffer of 5000\n  freed "), std::string::npos) << result.err;
}

// Buffers that were really freed no longer count: the buffer is kept although more than the limit was freed before it.
TEST(Misuse, WhatIsFreedAfterMuchElseIsKeptAsWell) {
  const ProcessResult result =
      run_program({"misuse", "kernel-after-many"},
                  {.preload = {LIBRARY_FILE}, .budget = "24MiB", .environment = {"THERMOCLINE_DEBUG=guard"}});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("something wrote to it after it was freed: "), std::string::npos) << result.err;
}

TEST(Misuse, NewMemoryIsNoZeros) {
  EXPECT_EQ(run_misuse("new", "off").out, "85 0\n");
  // 0xA5, and 0xA5 ^ 0x55.
  EXPECT_EQ(run_misuse("new", "guard").out, "-16 -91\n");
}

TEST(Misuse, WhatIsRightIsNotReported) {
  for (const char* debug : {"off", "track", "guard"}) {
    const ProcessResult result = run_misuse("clean", debug);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, "7 82\n");
    EXPECT_EQ(reports(result), 0u) << result.err;
  }
  // Nothing is written behind a buffer while a graph is recorded.
  EXPECT_EQ(reports(run_misuse("recorded", "guard")), 0u);
}

TEST(Misuse, NothingIsReportedWhereNobodyAsked) {
  for (const char* how : {"twice", "inside", "past", "kernel-past"})
    EXPECT_EQ(reports(run_misuse(how, "off")), 0u) << how;
}

// With a budget that forces evictions and fetches, and with several threads.
TEST(Misuse, AProgramIsTheSameWhileItIsWatched) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"workload"},
                                                    {"workload", "--memory", "in-order", "--streams"},
                                                    {"workload", "--threads", "3", "--streams"},
                                                    {"workload", "--then", "release"}}) {
    const ProcessResult plain = run_plain(arguments);
    for (const char* debug : {"track", "guard"}) {
      const ProcessResult watched = run_program(
          arguments,
          {.preload = {LIBRARY_FILE}, .budget = "24MiB", .environment = {std::string("THERMOCLINE_DEBUG=") + debug}});
      EXPECT_EQ(watched.status, 0) << watched.err;
      EXPECT_EQ(watched.out, plain.out) << debug << "\n" << watched.err;
      EXPECT_EQ(reports(watched), 0u) << watched.err;
    }
  }
}

}  // namespace
}  // namespace thermocline::test
