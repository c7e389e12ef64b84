// SPDX-License-Identifier: Apache-2.0
// Whatever API path a program uses to reach the driver, it prints the same under the library as without it: when
// everything fits, and with a budget that forces evictions and fetches.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

class ApiPath : public testing::TestWithParam<std::string> {};

TEST_P(ApiPath, GivesTheSameBits) {
  std::vector<std::string> arguments = {"workload", "--api_path", GetParam()};
  expect_same_bits(arguments, "20MiB", 20 * kMiB);
}

INSTANTIATE_TEST_SUITE_P(Preload, ApiPath,
                         testing::Values("link", "dlsym", "dlvsym", "default", "proc", "proc-11", "proc-per-thread",
                                         "proc-per-thread-by-default"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(Preload, ACheckedRunEndsWithWhatWasNeverReleased) {
  const ProcessResult plain = run_plain({"workload"});
  EXPECT_NE(plain.err.find("simulated device: races=0\n"), std::string::npos) << plain.err;
  EXPECT_EQ(plain.err.find("memory handles"), std::string::npos) << plain.err;
  // The library keeps its memory until the end.
  const ProcessResult preloaded = run_preloaded({"workload"});
  EXPECT_NE(preloaded.err.find("simulated device: never released, by the program or a library in it: "),
            std::string::npos)
      << preloaded.err;
  EXPECT_NE(preloaded.err.find("memory handles"), std::string::npos) << preloaded.err;
}

TEST(Preload, MemoryAllocatedInStreamOrderIsTheSame) {
  expect_same_bits({"workload", "--memory", "in-order", "--streams"}, "20MiB", 20 * kMiB);
}

TEST(Preload, MemoryOfPoolsIsTheSame) {
  expect_same_bits({"workload", "--memory", "pool", "--streams"}, "20MiB", 20 * kMiB);
}

TEST(Preload, ParametersInOneBlockAreSeen) { expect_same_bits({"workload", "--launch", "extra"}, "20MiB", 20 * kMiB); }

TEST(Preload, ConfiguredLaunchesAreSeen) {
  expect_same_bits({"workload", "--launch", "configured"}, "20MiB", 20 * kMiB);
}

TEST(Preload, ThreadsWithStreamsOfTheirOwnAreTheSame) {
  expect_same_bits({"workload", "--threads", "4", "--streams"}, "40MiB", 40 * kMiB);
}

TEST(Preload, ThreadsOnOneDefaultStreamAreTheSame) {
  expect_same_bits({"workload", "--threads", "3"}, "30MiB", 30 * kMiB);
}

TEST(Preload, ThreadsOnTheirOwnDefaultStreamsAreTheSame) {
  expect_same_bits({"workload", "--threads", "3", "--api_path", "proc-per-thread"}, "30MiB", 30 * kMiB);
}

TEST(Preload, ChildOfAForkEndsAndItsParentGoesOn) {
  expect_same_bits({"workload", "--then", "fork"}, "20MiB", 20 * kMiB);
}

TEST(Preload, ChildOfAForkSaysNoStatistics) {
  const ProcessResult result = run_preloaded({"workload", "--then", "fork"});
  const std::string line = "thermocline: peak_live_bytes=";
  const std::size_t first = result.err.find(line);
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(line, first + 1), std::string::npos) << result.err;
}

TEST(Preload, ExceptionsOfTheProgramGoTheirWay) {
  expect_same_bits({"workload", "--then", "throw"}, "20MiB", 20 * kMiB);
}

TEST(Preload, MemoryCanBeUsedAtExit) { expect_same_bits({"workload", "--then", "at-exit"}, "20MiB", 20 * kMiB); }

TEST(Preload, ContextCanEndAndBeginAgain) { expect_same_bits({"workload", "--then", "release"}, "20MiB", 20 * kMiB); }

TEST(Preload, AnswersAboutMemoryAreTheDriversOwn) { expect_same_bits({"queries"}, "16MiB", 16 * kMiB); }

TEST(Preload, ProgramOfTheRuntimeIsTheSame) {
  if (!HAS_CUDA_PROGRAMS) GTEST_SKIP() << "nvcc was not found";
  expect_same_bits({"preload_runtime"}, "24MiB", 24 * kMiB);
}

TEST(Preload, ProgramWithADefaultStreamForEachThreadIsTheSame) {
  if (!HAS_CUDA_PROGRAMS) GTEST_SKIP() << "nvcc was not found";
  expect_same_bits({"preload_runtime_per_thread"}, "24MiB", 24 * kMiB);
}

TEST(Preload, CopiesAndSetsOfEveryKindAreTheSame) { expect_same_bits({"copies"}, "8MiB", 8 * kMiB); }

TEST(Preload, MemoryThatTheProgramMapsItselfCountsAndStays) {
  const std::vector<std::string> arguments = {"mappings"};
  expect_same_bits(arguments, "22MiB", 22 * kMiB);
  const ProcessResult squeezed = run_preloaded(arguments, "22MiB");
  EXPECT_EQ(statistic(squeezed, "peak_live_bytes"), 36 * kMiB);
}

TEST(Preload, NodesWithoutAnEdgeBetweenThemAreARace) {
  const ProcessResult plain = run_process(
      {PROGRAM_FOLDER "/graphs", "unordered"},
      {"LD_LIBRARY_PATH=" SIMULATOR_FOLDER, "THERMOCLINE_SIMULATE_DEVICE=reference", "THERMOCLINE_SIMULATE_CHECK=1"});
  // One for each launch.
  EXPECT_NE(plain.err.find("simulated device: races=4\n"), std::string::npos) << plain.err;
}

TEST(Preload, RecordedGraphsRunOnWhatTheyWereGiven) { expect_same_bits({"graphs", "recorded"}, "24MiB", 24 * kMiB); }

TEST(Preload, GraphsBuiltNodeByNodeRunOnWhatTheyWereGiven) {
  expect_same_bits({"graphs", "built"}, "24MiB", 24 * kMiB);
}

TEST(Preload, ExecutableGraphsRunOnWhatTheyWereGivenLast) {
  expect_same_bits({"graphs", "changed"}, "32MiB", 32 * kMiB);
}

TEST(Preload, MappingsThatDoNotFitAreOutOfMemory) {
  const ProcessResult result = run_preloaded({"mappings"}, "10MiB");
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("cuMemCreate"), std::string::npos) << result.err;
}

TEST(Preload, InterfaceWorksFromC) { expect_same_bits({"interface"}, "16MiB", 16 * kMiB); }

TEST(Preload, DeviceIsAsLargeAsTheBudget) {
  const ProcessResult result = run_preloaded({"queries"}, "64MiB");
  EXPECT_NE(result.err.find("total=67108864"), std::string::npos) << result.err;
}

TEST(Preload, InterposerInFrontOfTheLibraryIsCalledAndCallsIt) {
  const std::vector<std::string> arguments = {"workload"};
  const ProcessResult plain = run_program(arguments, {.preload = {INTERPOSER_FILE}, .budget = "", .environment = {}});
  const ProcessResult both =
      run_program(arguments, {.preload = {INTERPOSER_FILE, LIBRARY_FILE}, .budget = "20MiB", .environment = {}});
  expect_same(plain, both);
  EXPECT_GT(statistic(both, "evicted_bytes"), 0u);
  const std::size_t at = plain.err.find("interposer: allocations=");
  ASSERT_NE(at, std::string::npos);
  const std::string seen = plain.err.substr(at, plain.err.find('\n', at) - at);
  EXPECT_NE(both.err.find(seen), std::string::npos) << both.err << "\nexpected: " << seen;
  EXPECT_EQ(seen, "interposer: allocations=" + std::to_string(statistic(both, "allocations")));
}

TEST(Preload, InterposerBehindTheLibraryDoesNoHarm) {
  const std::vector<std::string> arguments = {"workload"};
  const ProcessResult both =
      run_program(arguments, {.preload = {LIBRARY_FILE, INTERPOSER_FILE}, .budget = "20MiB", .environment = {}});
  expect_same(run_plain(arguments), both);
  EXPECT_GT(statistic(both, "evicted_bytes"), 0u);
}

TEST(Preload, WrongSettingIsSaidAndTheProgramGoesOn) {
  const std::vector<std::string> arguments = {"workload"};
  const Running running = {.preload = {LIBRARY_FILE}, .budget = "a lot", .environment = {}};
  const ProcessResult result = run_program(arguments, running);
  expect_same(run_plain(arguments), result);
  EXPECT_NE(result.err.find("THERMOCLINE_BUDGET"), std::string::npos) << result.err;
}

TEST(Preload, StrictMakesAWrongSettingAnError) {
  const Running running = {.preload = {LIBRARY_FILE}, .budget = "a lot", .environment = {"THERMOCLINE_STRICT=true"}};
  const ProcessResult result = run_program({"workload"}, running);
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("cuMemAlloc"), std::string::npos) << result.err;
}

TEST(Preload, StrictMakesAMissingCapabilityAnError) {
  const auto strict = [](const std::string& faults, const std::string& more = "THERMOCLINE_STRICT=true") {
    return run_program({"workload"},
                       {.preload = {LIBRARY_FILE},
                        .budget = "20MiB",
                        .environment = {"THERMOCLINE_STRICT=true", more, "THERMOCLINE_SIMULATE_FAULTS=" + faults}});
  };
  EXPECT_EQ(strict("driver-version 12.3").status, 2) << "the driver does not tell what kernels are given";
  EXPECT_EQ(strict("without host-mappings", "THERMOCLINE_HOST_FALLBACK=full").status, 2);
  const ProcessResult best_effort = strict("without host-mappings");
  expect_same(run_plain({"workload"}), best_effort);
  EXPECT_GT(statistic(best_effort, "evicted_bytes"), 0u) << "auto asks for no more than the device can do";
}

TEST(Preload, BufferLargerThanTheBudgetIsOutOfMemoryWithAReport) {
  const ProcessResult result = run_preloaded({"workload"}, "2MiB");
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("thermocline: out of memory: "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("\n  do     budget = \""), std::string::npos) << result.err;
}

// At "debug" each eviction has a line with its reason, and the lines agree with the counts; at lower levels there are
// none.
TEST(Preload, EveryEvictionIsLoggedWithItsReason) {
  const auto run_at = [](const std::string& level) {
    return run_program(
        {"workload"},
        {.preload = {LIBRARY_FILE}, .budget = "20MiB", .environment = {"THERMOCLINE_LOG_LEVEL=" + level}});
  };
  const auto lines = [](const ProcessResult& result, const std::string& what, const std::string& reason) {
    std::istringstream text(result.err);
    std::uint64_t count = 0;
    for (std::string line; std::getline(text, line);)
      count += line.starts_with("thermocline: " + what + " ") && line.ends_with(": " + reason) ? 1 : 0;
    return count;
  };
  const ProcessResult loud = run_at("debug");
  ASSERT_EQ(loud.status, 0) << loud.err;
  std::uint64_t evictions = 0, restores = 0;
  for (const char* reason : {"pressure", "write_behind", "planned", "limit_lowered", "requested", "passing"}) {
    EXPECT_EQ(lines(loud, "evicted", reason), statistic(loud, std::string("evictions_") + reason)) << reason;
    evictions += lines(loud, "evicted", reason);
  }
  for (const char* reason : {"accessed", "pinned", "predicted", "planned", "requested"}) {
    EXPECT_EQ(lines(loud, "fetching", reason), statistic(loud, std::string("restores_") + reason)) << reason;
    restores += lines(loud, "fetching", reason);
  }
  EXPECT_EQ(evictions, statistic(loud, "evictions"));
  EXPECT_EQ(restores, statistic(loud, "restores"));
  EXPECT_GT(evictions, 0u);
  const ProcessResult usual = run_at("info");
  EXPECT_EQ(usual.status, 0);
  EXPECT_EQ(usual.err.find("thermocline: evicted "), std::string::npos) << usual.err;
}

TEST(Preload, EachLogLevelHasWhatItSays) {
  const auto said = [](const std::string& level, const std::string& budget, const char* what) {
    const ProcessResult result =
        run_program({"workload"}, {.preload = {LIBRARY_FILE},
                                   .budget = budget,
                                   .environment = {"THERMOCLINE_LOG_LEVEL=" + level, "THERMOCLINE_LOW_WATER=much"}});
    return result.err.find(what) != std::string::npos;
  };
  const char* const levels[] = {"quiet", "error", "warning", "info", "debug"};
  for (std::size_t level = 0; level < std::size(levels); ++level) {
    EXPECT_EQ(said(levels[level], "2MiB", "thermocline: out of memory: "), level >= 1) << levels[level];
    EXPECT_EQ(said(levels[level], "50%", "THERMOCLINE_LOW_WATER"), level >= 2) << levels[level];
    EXPECT_EQ(said(levels[level], "50%", "thermocline: budget "), level >= 3) << levels[level];
  }
}

TEST(Preload, ReportsGoToTheProgramsCallback) {
  const ProcessResult result = run_preloaded({"interface", "refused"}, "16MiB");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(statistic(result, "oom_reports"), 3u);
}

}  // namespace
}  // namespace thermocline::test
