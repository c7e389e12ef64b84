// SPDX-License-Identifier: Apache-2.0
// Programs whose live bytes exceed budget and host limit together, with a spill file (docs/host_spill.md).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

class Spill : public testing::Test {
 protected:
  Spill() {
    std::string name = testing::TempDir() + "spill.XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~Spill() override { std::filesystem::remove_all(folder_); }

  // 48 MiB in each thread of the workload, in buffers of 4 MiB.
  Running running(const std::string& folder, std::uint64_t order = 0) const {
    Running made{.preload = {LIBRARY_FILE}, .budget = "20MiB", .order = order, .environment = {}};
    made.environment = {"THERMOCLINE_HOST_LIMIT=16MiB"};
    if (!folder.empty()) made.environment.push_back("THERMOCLINE_HOST_SPILL=" + folder);
    return made;
  }
  std::string folder_;
};

TEST_F(Spill, WhatExceedsDeviceAndHostTogetherRunsAndPrintsTheSame) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"workload"},
                                                    {"workload", "--memory", "in-order", "--streams"},
                                                    {"workload", "--threads", "3", "--streams"}}) {
    const ProcessResult plain = run_plain(arguments);
    for (const std::uint64_t order : orders()) {
      const ProcessResult spilled = run_program(arguments, running(folder_, order));
      expect_same(plain, spilled);
      EXPECT_GT(statistic(spilled, "spill_written_bytes"), 0u);
      EXPECT_GT(statistic(spilled, "spill_read_bytes"), 0u);
      EXPECT_LE(statistic(spilled, "peak_host_bytes"), 16 * kMiB);
      EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "nothing is left";
    }
  }
}

// The driver pins no more, far below the limit: the rest is in ordinary memory, or in a file in memory.
TEST_F(Spill, WhatCanNotBePinnedGoesToOrdinaryMemory) {
  const std::vector<std::string> arguments = {"workload", "--threads", "3", "--streams"};
  const ProcessResult plain = run_plain(arguments);
  struct Case {
    const char *folder, *fallback;
    std::uint64_t order;
  };
  for (const auto& [folder, fallback, order] :
       {Case{"", "auto", 0}, {"", "off", 1}, {"", "off", 2}, {"/dev/shm", "off", 0}}) {
    Running refusing{.preload = {LIBRARY_FILE}, .budget = "20MiB", .order = order, .environment = {}};
    refusing.environment = {"THERMOCLINE_SIMULATE_FAULTS=fail cuMemHostAlloc from 2 OUT_OF_MEMORY",
                            "THERMOCLINE_SIMULATE_DRIVER=host_mapping=off",
                            std::string("THERMOCLINE_HOST_FALLBACK=") + fallback,
                            std::string("THERMOCLINE_HOST_SPILL=") + folder};
    const ProcessResult result = run_program(arguments, refusing);
    expect_same(plain, result);
    const bool is_in_file = *folder != '\0';
    EXPECT_EQ(statistic(result, "spill_written_bytes") > 0, is_in_file);
    EXPECT_EQ(statistic(result, "peak_pageable_bytes") > 0, !is_in_file);
    EXPECT_EQ(result.err.find("the driver pins no more than ") != std::string::npos, !is_in_file) << result.err;
    EXPECT_EQ(statistic(result, "oom_reports"), 0u);
  }
}

// Also where it pins nothing at all.
TEST_F(Spill, AProgramForWhichNothingCanBePinnedRuns) {
  const std::vector<std::string> arguments = {"workload", "--memory", "in-order", "--streams"};
  Running refusing{.preload = {LIBRARY_FILE}, .budget = "20MiB", .order = 0, .environment = {}};
  refusing.environment = {"THERMOCLINE_SIMULATE_FAULTS=fail cuMemHostAlloc from 1 OUT_OF_MEMORY",
                          "THERMOCLINE_HOST_FALLBACK=off"};
  const ProcessResult result = run_program(arguments, refusing);
  expect_same(run_plain(arguments), result);
  EXPECT_EQ(statistic(result, "peak_pageable_bytes"), statistic(result, "peak_host_bytes"));
}

// The host would wait there.
TEST_F(Spill, NothingGoesToPageableMemoryAheadOfNeed) {
  Running refusing{.preload = {LIBRARY_FILE}, .budget = "20MiB", .order = 0, .environment = {}};
  refusing.environment = {"THERMOCLINE_HOST_FALLBACK=off", "THERMOCLINE_POLICY=reactive"};
  const std::vector<std::string> arguments = {"workload"};
  EXPECT_GT(statistic(run_program(arguments, refusing), "write_behinds"), 0u);
  refusing.environment.emplace_back("THERMOCLINE_SIMULATE_FAULTS=fail cuMemHostAlloc from 1 OUT_OF_MEMORY");
  const ProcessResult result = run_program(arguments, refusing);
  EXPECT_GT(statistic(result, "evicted_bytes"), 0u);
  EXPECT_EQ(statistic(result, "write_behinds"), 0u);
  EXPECT_EQ(statistic(result, "prefetches"), 0u) << "ReactiveTest shows what is prefetched otherwise";
}

// With a file, too, through which everything passes: memory that is read back into may be pageable.
TEST_F(Spill, AProgramForWhichNothingCanBePinnedRunsBesideAFile) {
  const std::vector<std::string> arguments = {"workload", "--memory", "in-order", "--streams"};
  Running refusing = running(folder_);
  refusing.environment.insert(
      refusing.environment.end(),
      {"THERMOCLINE_SIMULATE_FAULTS=fail cuMemHostAlloc from 1 OUT_OF_MEMORY", "THERMOCLINE_HOST_FALLBACK=off"});
  const ProcessResult result = run_program(arguments, refusing);
  expect_same(run_plain(arguments), result);
  EXPECT_EQ(statistic(result, "peak_pageable_bytes"), statistic(result, "peak_host_bytes"));
  EXPECT_GT(statistic(result, "spill_read_bytes"), 0u);
}

// The limit holds for both kinds together.
TEST_F(Spill, PageableMemoryCountsAgainstTheHostLimit) {
  Running refusing = running("");
  refusing.environment.insert(
      refusing.environment.end(),
      {"THERMOCLINE_HOST_FALLBACK=off", "THERMOCLINE_SIMULATE_FAULTS=fail cuMemHostAlloc from 1 OUT_OF_MEMORY"});
  const ProcessResult refused = run_program({"workload"}, refusing);
  EXPECT_NE(refused.status, 0);
  EXPECT_LE(statistic(refused, "peak_host_bytes"), 16 * kMiB);
  EXPECT_GE(statistic(refused, "oom_reports"), 1u);
}

TEST_F(Spill, WithoutAFolderItIsRefusedAndToldOfOne) {
  const ProcessResult refused = run_program({"workload"}, running(""));
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.err.find("host_spill = \"FOLDER\" (THERMOCLINE_HOST_SPILL)"), std::string::npos) << refused.err;
}

TEST_F(Spill, AFolderThatIsNotThereIsSaidAndTheProgramGoesOn) {
  const ProcessResult without = run_program({"workload"}, running(""));
  const ProcessResult refused = run_program({"workload"}, running(folder_ + "/none"));
  EXPECT_EQ(refused.status, without.status) << refused.err;
  EXPECT_EQ(refused.out, without.out);
  EXPECT_NE(refused.err.find("host_spill can not be used: " + folder_ + "/none: No such file or directory"),
            std::string::npos)
      << refused.err;
}

TEST_F(Spill, AChildGoesOnWithoutTheParentsFile) {
  const std::vector<std::string> arguments = {"workload", "--then", "fork"};
  expect_same(run_plain(arguments), run_program(arguments, running(folder_)));
}

}  // namespace
}  // namespace thermocline::test
