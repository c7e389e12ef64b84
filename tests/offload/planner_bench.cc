// SPDX-License-Identifier: Apache-2.0
// The cost of planning: a chain whose gaps are as long as the iteration. With the smaller budget more has to be
// evicted; if contents are smaller than their pages, the preferences give different choices, and more candidates are
// timed.
#include <benchmark/benchmark.h>

#include "offload/planning/planner.h"
#include "tests/offload/chain.h"

namespace thermocline {
namespace {

void plan(benchmark::State& state) {
  const auto operations = static_cast<std::uint32_t>(state.range(0));
  Chain chain(operations / 2 - 1, kOperationNs / 40, kActivation / static_cast<Bytes>(state.range(2)));
  const Profile profile = chain.record(3).make(chain.operations_per_turn());
  const Bytes limit = peak_of(profile) / 100 * static_cast<Bytes>(state.range(1));
  for (auto _ : state) benchmark::DoNotOptimize(plan_iteration(profile, limit, kLink));
}
BENCHMARK(plan)
    ->ArgNames({"operations", "budget_percent", "pages_per_contents"})
    ->ArgsProduct({{2000, 20000}, {60, 30}, {1, 4}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace thermocline

BENCHMARK_MAIN();
