// SPDX-License-Identifier: Apache-2.0
// Programs on simulated drivers that are wrong on purpose, one assumption each (docs/driver_assumptions.md): under each
// the library gives the same bits, or says what it can not do.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

// Each of them holds 32 MiB.
constexpr const char* kBudget = "20MiB";

// Every switch at least once; a test holds the register to name them all.
const std::vector<std::string> kSwitches = {
    "queue=100",          "queue=2",
    "lazy_load=4MiB",     "alias=off",
    "alias=apart",        "remap=forgets",
    "map=waits",          "access=one",
    "unmap=waits",        "unmap=one",
    "handle_bytes=64KiB", "handles=12",
    "pinned=40MiB",       "host_free=returns",
    "granularity=4MiB",   "address_bits=36",
    "version=11.8",       "version=12.0",
    "virtual_memory=off", "host_mapping=off",
    "pools=off",          "param_info=off",
    "batch=off",          "capture_mode=off",
    "stream_flags=off",   "alias=off,access=one,unmap=one,host_free=returns,queue=100"};

const std::vector<std::string> kPrograms = {"copies/ranges", "graphs/captured", "launches/streams", "memory/in_order",
                                            "memory/pools"};

ProcessResult run(const std::string& program, const std::string& switches, bool preload, std::uint64_t order,
                  const std::vector<std::string>& more = {}) {
  Running running;
  if (preload) running = {.preload = {LIBRARY_FILE}, .budget = kBudget, .order = order, .environment = more};
  running.environment.push_back("THERMOCLINE_SIMULATE_DRIVER=" + switches);
  return run_program({"api_paths/" + program}, running);
}

void expect_races_to_be_none(const ProcessResult& result, const std::string& where) {
  EXPECT_NE(result.err.find("simulated device: races=0\n"), std::string::npos) << where << result.err;
}

TEST(DriverSwitches, ProgramsHaveTheSameBitsOrAClearRefusal) {
  for (const std::string& switches : kSwitches) {
    int same = 0;
    for (const std::string& program : kPrograms) {
      const ProcessResult plain = run(program, switches, false, 0);
      for (const std::uint64_t order : orders()) {
        const ProcessResult under = run(program, switches, true, order);
        const std::string where = switches + ", " + program + ", order " + std::to_string(order) + "\n";
        expect_races_to_be_none(under, where);
        if (plain.status == under.status && plain.out == under.out) {
          ++same;
          continue;
        }
        // A line of ours says why, and nothing was printed that is wrong.
        EXPECT_NE(under.status, 0) << where << under.err;
        EXPECT_NE(under.err.find("thermocline: out of memory: "), std::string::npos) << where << under.err;
      }
    }
    // Without parameters everything counts as accessed, which does not fit; pages of 4 MiB leave no room.
    const bool may_refuse = switches == "param_info=off" || switches.starts_with("version=");
    EXPECT_TRUE(same > 0 || may_refuse) << switches;
  }
}

bool says(const ProcessResult& result, const std::string& what) { return result.err.find(what) != std::string::npos; }

// Said once, counted, and done without.
TEST(DriverSwitches, WhatFailsAtTheStartIsSaidAndCounted) {
  const struct {
    const char* switches;
    const char* name;
    std::uint64_t count;
  } cases[] = {{"", "", 0},
               {"alias=off", "(alias)", 1},
               {"alias=apart", "(alias)", 1},
               {"access=one", "(access_runs)", 1},
               {"unmap=one", "(unmap_runs)", 1},
               {"alias=off,unmap=one", "(unmap_runs)", 2}};
  for (const auto& [switches, name, count] : cases) {
    const ProcessResult result = run("launches/streams", switches, true, 0);
    EXPECT_EQ(result.status, 0) << switches << "\n" << result.err;
    EXPECT_EQ(statistic(result, "missing_mechanisms"), count) << switches;
    EXPECT_GT(statistic(result, "evicted_bytes"), 0u) << switches;
    if (count == 0) continue;
    const std::size_t first = result.err.find(name);
    EXPECT_NE(first, std::string::npos) << result.err;
    EXPECT_EQ(result.err.find(name, first + 1), std::string::npos) << "once: " << result.err;
  }
}

TEST(DriverSwitches, WithoutWhatNothingWorksWithoutTheLibraryStandsAside) {
  const ProcessResult result = run("launches/streams", "remap=forgets", true, 0);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(says(result, "(remap)") && says(result, "the program runs without the library")) << result.err;
}

TEST(DriverSwitches, StrictDoesWithoutNothing) {
  const ProcessResult result = run("launches/streams", "unmap=one", true, 0, {"THERMOCLINE_STRICT=true"});
  EXPECT_NE(result.status, 0) << result.err;
  EXPECT_TRUE(says(result, "allocations fail, because strict is set")) << result.err;
}

TEST(DriverSwitches, WhatIsWrongWithThemIsOneLine) {
  for (const auto& [switches, line] : std::vector<std::pair<std::string, std::string>>{
           {"unmap=sometimes", "unmap=sometimes does not hold: expected unmap= and waits or one"},
           {"granularity=3MiB", "expected granularity= and a power of two of at least 2MiB"},
           {"magic=on", "unknown switch 'magic'; known are queue, "}}) {
    const ProcessResult result = run("copies/ranges", switches, false, 0);
    EXPECT_NE(result.status, 0);
    EXPECT_TRUE(says(result, line)) << result.err;
  }
}

}  // namespace
}  // namespace thermocline::test
