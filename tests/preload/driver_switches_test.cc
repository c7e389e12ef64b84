// SPDX-License-Identifier: Apache-2.0
// Programs on simulated drivers that violate one assumption each (docs/driver_assumptions.md). The library must give the
// same bits or a clear refusal.
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

// Each of them holds 32 MiB.
constexpr const char* kBudget = "20MiB";

// Every switch at least once.
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

bool says(const ProcessResult& result, const std::string& what) { return result.err.find(what) != std::string::npos; }

// Programs that use pools get the driver's own error. So does a capture in which the library has to make room, where it
// can not keep its calls out of the capture, which is said.
bool is_clear_refusal(const ProcessResult& result, const std::string& switches) {
  if (result.status == 0) return false;
  if (switches == "pools=off" && says(result, "program: 801 from ")) return true;
  if (switches == "capture_mode=off" && says(result, "captures are invalidated when the library maps memory or waits"))
    return says(result, "program: 900 from ") || says(result, "program: 901 from ");
  return says(result, "thermocline: out of memory: ");
}

// Each switch with some of the programs, in turn.
TEST(DriverSwitches, ProgramsHaveTheSameBitsOrAClearRefusal) {
  std::map<std::string, ProcessResult> plain;
  for (const std::string& program : kPrograms) plain[program] = run(program, "", false, 0);
  std::size_t turn = 0;
  for (const std::string& switches : kSwitches) {
    int same = 0;
    for (std::size_t i = 0; i < orders().size(); ++i, ++turn) {
      const std::string& program = kPrograms[turn % kPrograms.size()];
      const std::uint64_t order = turn % 3;
      const ProcessResult under = run(program, switches, true, order);
      const std::string where = switches + ", " + program + ", order " + std::to_string(order) + "\n" + under.err;
      EXPECT_TRUE(says(under, "simulated device: races=0\n")) << where;
      const bool is_same = plain[program].status == under.status && plain[program].out == under.out;
      same += is_same ? 1 : 0;
      EXPECT_TRUE(is_same || is_clear_refusal(under, switches)) << where;
    }
    // Without parameters every launch accesses all memory, or nothing is evicted; the programs do not fit.
    const bool may_refuse =
        switches == "param_info=off" || switches == "virtual_memory=off" || switches.starts_with("version=");
    EXPECT_TRUE(same > 0 || may_refuse) << switches;
  }
}

// Where pages wait for their readers, kernels that read a texture have not run when the program destroys it.
TEST(DriverSwitches, ATextureOutlivesItsReadersWhereTheFreeOfItsMemoryCouldNotWait) {
  const std::string program = "memory/freed_under_a_texture";
  const ProcessResult plain = run(program, "", false, 0);
  for (const std::uint64_t order : orders()) expect_same(plain, run(program, "alias=off", true, order));
}

// Whether the driver says so by its version or by what it lacks: nothing leaves the device, and that is said once.
TEST(DriverSwitches, NothingIsEvictedWhereTheDriverDoesNotTellWhatKernelsAreGiven) {
  const std::string notice = "does not tell what kernels are given";
  for (const char* switches : {"param_info=off", "version=12.0", "version=11.8"}) {
    // Copies alone, whose ranges are known.
    for (const char* program : {"copies/ranges", "copies/evicted_to_host", "launches/streams"}) {
      const ProcessResult small = run(program, switches, true, 0);
      EXPECT_TRUE(is_clear_refusal(small, switches)) << switches << ", " << program << "\n" << small.err;
      EXPECT_EQ(statistic(small, "evicted_bytes"), 0u) << switches << ", " << program;
      const std::size_t first = small.err.find(notice);
      ASSERT_NE(first, std::string::npos) << switches << "\n" << small.err;
      EXPECT_EQ(small.err.find(notice, first + 1), std::string::npos) << "once: " << small.err;
    }
  }
}

TEST(DriverSwitches, FailedProbesAreLoggedOnceAndCounted) {
  const struct {
    const char* switches;
    const char* name;
    std::uint64_t count;
  } cases[] = {{"", "", 0},
               {"alias=off", "(alias)", 1},
               {"alias=apart", "(alias)", 1},
               {"access=one", "(access_runs)", 1},
               {"unmap=one", "(unmap_runs)", 1},
               {"capture_mode=off", "(capture_mode)", 1},
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

// A driver whose mapping calls wait for a stream that the caller has yet to let go on. The library finds that out before
// the program blocks its first stream, and calls none of them until all have gone on. All at once: most of the time goes by
// until the library gives up waiting.
TEST(DriverSwitches, ProgramsThatBlockStreamsDoNotHangWhereMappingWaits) {
  struct Run {
    std::string program, switches;
    std::future<ProcessResult> plain, under;
  };
  std::vector<Run> runs;
  for (const char* program : {"copies/blocked", "copies/blocked_released", "copies/blocked_elsewhere",
                              "copies/blocked_on_all", "memory/freed_while_blocked", "launches/full_queue"}) {
    for (const char* switches : {"map=waits", "unmap=waits"}) {
      const auto start = [&](const std::string& with, bool preload) {
        return std::async(std::launch::async, run, program, with, preload, 0, std::vector<std::string>());
      };
      runs.push_back({program, switches, start("", false), start(switches, true)});
    }
  }
  for (Run& one : runs) {
    const ProcessResult plain = one.plain.get(), under = one.under.get();
    const std::string where = one.program + ", " + one.switches + "\n" + under.err;
    ASSERT_EQ(plain.status, 0) << where << plain.err;
    const bool is_same = plain.status == under.status && plain.out == under.out;
    EXPECT_TRUE(is_same || is_clear_refusal(under, one.switches)) << where;
    EXPECT_TRUE(says(under, "(mapping_waits)")) << where;
    EXPECT_EQ(statistic(under, "missing_mechanisms"), 1u) << where;
  }
}

// Where only unmapping waits, programs that fit need not be refused, even if they allocate while a stream is blocked.
TEST(DriverSwitches, ProgramsThatFitHaveTheSameBitsWhereMappingWaits) {
  const std::pair<const char*, const char*> cases[] = {
      {"copies/blocked_released", "map=waits"},      {"copies/values", "map=waits"},
      {"launches/host_functions", "map=waits"},      {"graphs/host_nodes", "map=waits"},
      {"copies/blocked_released", "unmap=waits"},    {"copies/blocked", "unmap=waits"},
      {"memory/freed_while_blocked", "unmap=waits"}, {"launches/full_queue", "unmap=waits"}};
  for (const auto& [program, switches] : cases) {
    const ProcessResult plain = run(program, "", false, 0);
    const ProcessResult fits = run_program({std::string("api_paths/") + program},
                                           {.preload = {LIBRARY_FILE},
                                            .budget = "",
                                            .order = 0,
                                            .environment = {std::string("THERMOCLINE_SIMULATE_DRIVER=") + switches}});
    EXPECT_EQ(fits.status, plain.status) << program << ", " << switches << "\n" << fits.err;
    EXPECT_EQ(fits.out, plain.out) << program << ", " << switches;
    EXPECT_TRUE(says(fits, "(mapping_waits)")) << program << ", " << switches << "\n" << fits.err;
  }
}

TEST(DriverSwitches, ALostRemapDisablesTheLibrary) {
  const ProcessResult result = run("launches/streams", "remap=forgets", true, 0);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(says(result, "(remap)") && says(result, "the program runs without the library")) << result.err;
}

TEST(DriverSwitches, StrictAcceptsNoFallback) {
  const ProcessResult result = run("launches/streams", "unmap=one", true, 0, {"THERMOCLINE_STRICT=true"});
  EXPECT_NE(result.status, 0) << result.err;
  EXPECT_TRUE(says(result, "allocations fail, because strict is set")) << result.err;
}

TEST(DriverSwitches, AMistakeIsReportedInOneLine) {
  for (const auto& [switches, line] : std::vector<std::pair<std::string, std::string>>{
           {"unmap=sometimes", "unmap=sometimes does not hold: expected unmap= and waits or one"},
           {"granularity=3MiB", "expected granularity= and a power of two of at least 2MiB"},
           {"magic=on", "unknown switch 'magic'; known are queue, "}}) {
    const ProcessResult result = run("copies/ranges", switches, false, 0);
    EXPECT_NE(result.status, 0);
    EXPECT_TRUE(says(result, line)) << result.err;
  }
}

// Sanitizers need more address space than that.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(DriverSwitches, WithoutAddressSpaceTheSimulatedDeviceIsOutOfMemory) {
  const std::string command = "ulimit -v 200000; exec " PROGRAM_FOLDER "/api_paths/memory/freed_at_once";
  const ProcessResult result = run_process({"/bin/sh", "-c", command}, {"LD_LIBRARY_PATH=" SIMULATOR_FOLDER});
  EXPECT_NE(result.err.find("program: 2 from cuInit"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("no address space for its page tables"), std::string::npos) << result.err;
}
#endif

}  // namespace
}  // namespace thermocline::test
