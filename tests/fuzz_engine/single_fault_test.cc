// SPDX-License-Identifier: Apache-2.0
// Each driver call of a scenario fails once, alone: either the program continues as if nothing had happened
// (recovered), or some of its steps are refused with an error without further effects (clean error). Everything else is
// a failure: a crash, a hang, a leak, a wrong byte, a race. Scenarios are short random programs; if one makes more
// calls than kMostPoints, that many calls at even distances are tested.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "tests/fuzz_engine/farm.h"
#include "tests/support/seeds.h"

namespace thermocline::fuzz_engine {
namespace {

constexpr std::uint64_t kScenarios = 24;
constexpr std::size_t kSteps = 250;
constexpr std::uint64_t kMostPoints = 120;

struct Count {
  std::uint64_t recovered = 0, clean = 0;
};

std::uint64_t scenarios() { return std::min(scaled_seeds(kScenarios), kScenarios); }

TEST(SingleFaults, EveryCallThatFailsAloneIsRecoveredOrACleanError) {
  std::map<std::string, Count> by_function;
  Count all;
  for (std::uint64_t scenario = 1; scenario <= scenarios(); ++scenario) {
    Program program = make_program(9000 + scenario, kSteps, false);
    // Half of them are under memory pressure from the first buffers on.
    if (scenario % 2 == 0) program.setup.policy = scenario % 4 == 0 ? kLearnedPolicy : kReactivePolicy;
    // The failing call is beyond the last one, so nothing fails, and calls are counted.
    const Outcome sound = run(program, {.seed = scenario, .only_nth = ~std::uint64_t{0}});
    ASSERT_EQ(sound.failure, "") << "scenario " << scenario;
    ASSERT_GT(sound.driver_calls, 0U);
    const std::uint64_t stride = std::max<std::uint64_t>(sound.driver_calls / kMostPoints, 1);
    Count here;
    for (std::uint64_t nth = 1; nth <= sound.driver_calls; nth += stride) {
      const FaultPlan plan{.seed = scenario * 1000 + nth, .only_nth = nth};
      const std::string where = "scenario " + std::to_string(scenario) + ", call " + std::to_string(nth);
      if (const auto what = fails(program, plan)) {
        ADD_FAILURE() << where << ": " << *what << "\n  repeat: fuzz_engine --seed " << 9000 + scenario << " --steps "
                      << kSteps << " --nth " << nth;
        continue;
      }
      const Outcome outcome = run_on_engine(program, plan);
      if (outcome.faults == 0) continue;  // the call with this number came after the tested part
      const bool recovered = outcome.refused <= sound.refused;
      Count& function = by_function[outcome.failed_call];
      ++(recovered ? function.recovered : function.clean);
      ++(recovered ? here.recovered : here.clean);
    }
    std::printf("scenario %2llu: %5llu calls, %4llu points: %4llu recovered, %4llu clean errors\n",
                static_cast<unsigned long long>(scenario), static_cast<unsigned long long>(sound.driver_calls),
                static_cast<unsigned long long>(here.recovered) + static_cast<unsigned long long>(here.clean),
                static_cast<unsigned long long>(here.recovered), static_cast<unsigned long long>(here.clean));
    all.recovered += here.recovered;
    all.clean += here.clean;
  }
  for (const auto& [function, count] : by_function) {
    std::printf("%-20s %5llu recovered, %5llu clean errors\n", function.c_str(),
                static_cast<unsigned long long>(count.recovered), static_cast<unsigned long long>(count.clean));
  }
  EXPECT_GT(all.recovered, 0U);
  EXPECT_GT(all.clean, 0U);
}

}  // namespace
}  // namespace thermocline::fuzz_engine
