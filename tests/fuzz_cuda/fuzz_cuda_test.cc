// SPDX-License-Identifier: Apache-2.0
// Runs the random programs (random_program.cc) as subprocesses: plain on the simulated device, and preloaded under
// budgets that force eviction.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/fuzz_cuda/setups.h"
#include "tests/support/seeds.h"
#include "tests/support/subprocess.h"

namespace {

using model::Setup;
using thermocline::scaled_seeds;
using thermocline::test::ProcessResult;
using thermocline::test::run_process;

// Under some switches of the driver (Setup::may_refuse) the programs may also end with a clear refusal.
ProcessResult run_programs(const Setup& setup) {
  const ProcessResult result =
      run_process(setup.arguments(RANDOM_PROGRAM), setup.environment(LIBRARY_FILE, SIMULATOR_FOLDER));
  if (setup.may_refuse && model::is_clear_refusal(result.status, result.err)) return result;
  EXPECT_EQ(result.status, 0) << setup.name() << ", order " << setup.order << "\n" << result.err;
  EXPECT_NE(result.err.find("simulated device: races=0\n"), std::string::npos) << setup.name() << "\n" << result.err;
  return result;
}

std::uint64_t statistic(const ProcessResult& result, const std::string& name) {
  const std::size_t line = result.err.find("thermocline: peak_live_bytes=");  // the simulated device prints a line too
  const std::size_t at = line == std::string::npos ? line : result.err.find(" " + name + "=", line);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no " << name << " in: " << result.err;
    return 0;
  }
  return std::strtoull(result.err.c_str() + at + name.size() + 2, nullptr, 10);
}

TEST(RandomPrograms, AgreeWithTheModelOnTheSimulatedDeviceAlone) {
  for (std::uint64_t order = 0; order < 4; ++order) {
    run_programs({.preload = false, .order = order, .programs = scaled_seeds(40), .unseen = true});
  }
}

TEST(RandomPrograms, AgreeWithTheModelWhenEverythingFits) {
  const ProcessResult result = run_programs({.programs = scaled_seeds(60), .unseen = true});
  EXPECT_EQ(statistic(result, "evicted_bytes"), 0u) << result.err;
}

// Digests need kernels that run; those of the programs have a host implementation and run beside them.
TEST(RandomPrograms, AgreeWithTheModelWhereDigestsAreTaken) {
  const model::Setup setup{.budget = "56MiB",
                           .host_fallback = "off",
                           .order = 1,
                           .kernel_time = "5-100000",
                           .programs = 1,
                           .first = 1000001,
                           .operations = 800,
                           .repeat = 4,
                           .largest = 4 << 20};
  std::vector<std::string> environment = setup.environment(LIBRARY_FILE, SIMULATOR_FOLDER);
  environment.insert(environment.end(), {"THERMOCLINE_DIGESTS=auto", "THERMOCLINE_SIMULATE_KERNELS=real"});
  const ProcessResult result = run_process(setup.arguments(RANDOM_PROGRAM), environment);
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST(RandomPrograms, AgreeWithTheModelUnderABudgetInOrderOfTime) {
  // Some of the first programs need no room.
  const std::uint64_t programs = std::max<std::uint64_t>(8, scaled_seeds(60));
  const ProcessResult result = run_programs({.budget = "44MiB", .programs = programs, .first = 1000});
  EXPECT_GT(statistic(result, "evicted_bytes"), 0u) << result.err;
  EXPECT_LE(statistic(result, "peak_device_bytes"), std::uint64_t{44} << 20) << result.err;
}

TEST(RandomPrograms, AgreeWithTheModelUnderABudgetInAdversarialOrders) {
  const std::uint64_t orders = scaled_seeds(6);
  for (std::uint64_t order = 1; order <= orders; ++order) {
    const ProcessResult result = run_programs(
        {.budget = order % 2 == 0 ? "44MiB" : "48MiB", .order = order, .programs = 40, .first = 10000 * order});
    if (HasFailure()) return;
    EXPECT_GT(statistic(result, "evicted_bytes"), 0u) << result.err;
  }
}

TEST(RandomPrograms, AgreeWithTheModelWhenTheyRepeatAndAPlanIsFollowed) {
  for (std::uint64_t order = 0; order < scaled_seeds(4); ++order) {
    const ProcessResult result = run_programs({.budget = "44MiB",
                                               .policy = "learned",
                                               .order = order,
                                               .programs = 4,
                                               .first = 700000 + 1000 * order,
                                               .repeat = 6});
    if (HasFailure()) return;
    EXPECT_GT(statistic(result, "plans"), 0u) << result.err;
  }
}

TEST(RandomPrograms, AgreeWithTheModelOnSeveralHostThreads) {
  constexpr std::uint64_t kThreads = 4;
  // How much the threads have live at once depends on the host's scheduler: one run may need no room.
  std::uint64_t evicted_bytes = 0;
  for (std::uint64_t order = 0; order < 3; ++order) {
    const ProcessResult result = run_programs({.budget = "64MiB",
                                               .order = order,
                                               .programs = std::max(3 * kThreads, scaled_seeds(20)),
                                               .first = 500000 + 1000 * order,
                                               .threads = kThreads,
                                               .live = 192 << 20,
                                               .may_refuse = true});
    if (result.status == 0) {
      evicted_bytes += statistic(result, "evicted_bytes");
    } else {
      // A graph larger than the budget is not launched in parts if another thread captures at that moment.
      EXPECT_NE(result.err.find("while a stream captures"), std::string::npos) << result.err;
    }
  }
  EXPECT_GT(evicted_bytes, 0u);
}

TEST(RandomPrograms, AgreeWithTheModelWhenTheySleep) {
  // In a single run, perhaps no sleep finds anything on the device: so all runs are summed.
  std::uint64_t evictions = 0;
  for (std::uint64_t order = 0; order < 6; ++order) {
    const std::uint64_t threads = order % 3 == 2 ? 3 : 1;
    const ProcessResult result = run_programs({.budget = threads == 1 ? "48MiB" : "140MiB",
                                               .policy = order % 2 == 0 ? "learned" : "reactive",
                                               .safety = order == 4 ? "trusting" : "strict",
                                               .host_fallback = order == 3   ? "full"
                                                                : order == 1 ? "off"
                                                                             : "auto",
                                               .order = order,
                                               .programs = std::max(threads, scaled_seeds(8)),
                                               .first = 970000 + 1000 * order,
                                               .threads = threads,
                                               .repeat = order == 0 ? 4u : 1u,
                                               .live = threads * (72 << 20),
                                               .unseen = order == 3,  // as in setups.cc: see step_values.cc
                                               .sleeps = true});
    if (HasFailure()) return;
    evictions += statistic(result, "evictions_sleep");
  }
  EXPECT_GT(evictions, 0u);
}

TEST(RandomPrograms, AgreeWithTheModelWhenAccessesAreNotSeenUnderAFullHostFallback) {
  for (std::uint64_t order = 0; order < 3; ++order) {
    // Small buffers that kernels of graphs name stay, beside what one kernel needs.
    const ProcessResult result = run_programs({.budget = "60MiB",
                                               .host_fallback = "full",
                                               .order = order,
                                               .programs = 3,
                                               .first = 900000 + 1000 * order,
                                               .operations = 1200,
                                               .unseen = true});
    EXPECT_GT(statistic(result, "evicted_bytes"), 0u) << result.err;
  }
}

TEST(RandomPrograms, AgreeWithTheModelWhereBytesVisitASecondDevice) {
  run_programs({.preload = false, .order = 1, .programs = scaled_seeds(6), .first = 950000, .devices = 2});
  for (std::uint64_t order = 0; order < 2; ++order) {
    const ProcessResult result = run_programs({.budget = "32MiB",
                                               .order = order,
                                               .programs = std::max<std::uint64_t>(3, scaled_seeds(6)),
                                               .first = 950000,
                                               .devices = 2});
    EXPECT_GT(statistic(result, "evicted_bytes"), 0u) << result.err;
  }
}

// Much too little for what the kernels reach through tables. A call may be refused, which ends the program; no byte may
// be wrong before that.
TEST(RandomPrograms, AreNeverWrongUnderAThirdOfTheirMemory) {
  std::uint64_t agreed = 0, evicted = 0;
  for (const char* const fallback : {"off", "auto"}) {
    for (const char* const safety : {"trusting", "strict"}) {
      for (std::uint64_t order = 0; order < scaled_seeds(24); ++order) {
        const model::Setup setup{.budget = "24MiB",
                                 .safety = safety,
                                 .host_fallback = fallback,
                                 .order = order,
                                 .programs = 2,
                                 .first = 970000 + 10 * order,
                                 .operations = 200};
        const ProcessResult result =
            run_process(setup.arguments(RANDOM_PROGRAM), setup.environment(LIBRARY_FILE, SIMULATOR_FOLDER));
        ASSERT_TRUE(result.status == 0 || result.status == model::kRefused) << setup.name() << "\n" << result.err;
        if (result.status == model::kRefused) {
          EXPECT_NE(result.err.find("thermocline: out of memory: "), std::string::npos) << result.err;
        }
        EXPECT_NE(result.err.find("races=0"), std::string::npos) << result.err;
        if (result.status != 0) continue;
        ++agreed;
        evicted += statistic(result, "evicted_bytes") > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(evicted, 0u) << "of " << agreed << " that agreed";
}

TEST(RandomPrograms, AgreeOrAreClearlyRefusedUnderEachSwitchOfTheDriver) {
  std::uint64_t number = 0;
  for (const char* const switches : model::driver_switches()) {
    ++number;
    model::Setup setup{.budget = "56MiB",
                       .order = number,
                       .programs = scaled_seeds(2),
                       .first = 990000 + 10 * number,
                       .operations = 200};
    setup.use_driver(switches);
    run_programs(setup);
  }
}

// The setups that `fuzz_cuda` runs for hours.
TEST(RandomPrograms, AgreeWithTheModelUnderManySetups) {
  const std::uint64_t setups = scaled_seeds(8);
  for (std::uint64_t seed = 1; seed <= setups; ++seed) {
    model::Setup setup = model::setup_of(seed);
    setup.programs = 3;
    // The host computes each digest, in hundreds of times as long as a device.
    if (setup.digests) {
      setup.programs = 1;
      setup.operations = std::min(setup.operations, std::uint64_t{200});
    }
    run_programs(setup);
    if (HasFailure()) return;
  }
}

}  // namespace
