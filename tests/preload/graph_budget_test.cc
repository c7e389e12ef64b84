// SPDX-License-Identifier: Apache-2.0
// Graphs and the budget: what a graph names and what it allocates counts, and a graph that does not fit is launched in
// parts, or refused.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

// The programs of this file allocate eight buffers of 4 MiB.
constexpr const char* kBudget = "20MiB";

// The graphs of the program have one allocation of 4 MiB at a time, in addition to eight buffers.
TEST(ApiPaths, MemoryOfGraphsCountsAgainstTheBudget) {
  for (const char* budget : {"", kBudget}) {
    const ProcessResult result = run_preloaded({"api_paths/graphs/memory_in_capture"}, budget);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(statistic(result, "peak_live_bytes"), 36 * kMiB);
    EXPECT_EQ(statistic(result, "freed_bytes"), statistic(result, "allocated_bytes"));
  }
}

// The driver reports what it holds for graphs only when a launch has taken it.
TEST(ApiPaths, LaunchesFindRoomForTheirGraphsMemoryOnADeviceThatIsFull) {
  for (const char* program : {"api_paths/graphs/memory_in_capture", "api_paths/graphs/memory_nodes"}) {
    const std::vector<std::string> arguments = {program};
    const ProcessResult plain = run_plain(arguments);
    for (const std::uint64_t order : orders()) {
      const ProcessResult result =
          run_program(arguments, {.preload = {LIBRARY_FILE},
                                  .budget = "",
                                  .order = order,
                                  .environment = {"THERMOCLINE_SIMULATE_MEMORY_BYTES=25165824"}});
      expect_same(plain, result);
      EXPECT_GT(statistic(result, "evicted_bytes"), 0u);
      EXPECT_EQ(statistic(result, "oom_reports"), 0u);
    }
  }
}

// While all else is used by a blocked stream, there is no room to count what the driver holds for a graph; then there is, without another launch.
TEST(ApiPaths, MemoryOfGraphsCountsOnceTheStreamsGoOn) {
  const std::vector<std::string> arguments = {"api_paths/graphs/memory_while_blocked"};
  const ProcessResult plain = run_plain(arguments);
  for (const char* budget : {"", "32MiB"}) {
    const ProcessResult result = run_preloaded(arguments, budget);
    expect_same(plain, result);
    EXPECT_EQ(statistic(result, "peak_live_bytes"), 36 * kMiB) << budget;
    EXPECT_EQ(statistic(result, "oom_reports"), 0u);
  }
}

TEST(ApiPaths, AGraphThatDoesNotFitAndCanNotBeCutIsRefusedWhole) {
  const std::vector<std::string> arguments = {"api_paths/graphs/more_than_fits_at_once", "host"};
  const ProcessResult plain = run_plain(arguments);
  const ProcessResult squeezed = run_preloaded(arguments, kBudget);
  EXPECT_EQ(squeezed.status, 0) << squeezed.err;
  EXPECT_NE(squeezed.out.find("launch: 2\n"), std::string::npos) << squeezed.out;
  EXPECT_NE(squeezed.err.find("32.0 MiB"), std::string::npos) << squeezed.err;
  EXPECT_NE(squeezed.err.find("do     budget = \"32MiB\""), std::string::npos) << squeezed.err;
  EXPECT_NE(squeezed.err.find("is not launched in parts because of a host node"), std::string::npos) << squeezed.err;
  EXPECT_EQ(statistic(squeezed, "oom_reports"), 1u);
  EXPECT_EQ(statistic(squeezed, "uncut_graphs"), 1u);
  EXPECT_EQ(statistic(squeezed, "cut_graphs"), 0u);
  expect_same(plain, run_preloaded(arguments, "32MiB"));
  // Leaves out what the graph would have printed.
  const auto behind = [](const ProcessResult& one) { return one.out.substr(one.out.find("behind\n")); };
  EXPECT_EQ(behind(squeezed), behind(plain));
}

// The driver's memory for the graph goes when the launch is refused, and comes again with the next launch. `times`: of
// 4 MiB, which the graph allocates beside two buffers of 4 MiB.
void expect_refused_at_each_launch(const std::string& times, const std::string& advised_budget) {
  const std::vector<std::string> arguments = {"api_paths/graphs/allocates_more_than_fits", times};
  const ProcessResult plain = run_plain(arguments);
  for (const std::uint64_t order : orders()) {
    const ProcessResult squeezed = run_preloaded(arguments, "16MiB", order);
    EXPECT_EQ(squeezed.status, 0) << squeezed.err;
    const std::string refused = "cuGraphLaunch(step, stream): 2\n";
    EXPECT_EQ(squeezed.out.find(refused + refused + refused + "behind\n"), 0u) << squeezed.out;
    EXPECT_NE(squeezed.err.find("do     budget = \"" + advised_budget + "\""), std::string::npos) << squeezed.err;
    EXPECT_LE(statistic(squeezed, "peak_device_bytes"), 16 * kMiB);
    EXPECT_EQ(statistic(squeezed, "oom_reports"), 3u);
    const auto behind = [](const ProcessResult& one) { return one.out.substr(one.out.find("behind\n")); };
    EXPECT_EQ(behind(squeezed), behind(plain));
    const ProcessResult advised = run_preloaded(arguments, advised_budget, order);
    expect_same(plain, advised);
    EXPECT_EQ(statistic(advised, "oom_reports"), 0u);
  }
}

TEST(ApiPaths, AGraphThatAllocatesMoreThanFitsIsRefusedAtEachLaunch) { expect_refused_at_each_launch("3", "20MiB"); }

// Its allocation alone is more than the budget.
TEST(ApiPaths, AGraphThatAllocatesMoreThanTheBudgetIsRefusedAtEachLaunch) {
  expect_refused_at_each_launch("5", "28MiB");
}

TEST(ApiPaths, WithASoftLimitTheGraphRunsBeyondTheBudget) {
  const std::vector<std::string> arguments = {"api_paths/graphs/more_than_fits_at_once"};
  const ProcessResult soft = run_program(
      arguments, {.preload = {LIBRARY_FILE}, .budget = kBudget, .environment = {"THERMOCLINE_SOFT_LIMIT=true"}});
  expect_same(run_plain(arguments), soft);
  EXPECT_GE(statistic(soft, "over_budget_operations"), 1u);
  EXPECT_GE(statistic(soft, "peak_device_bytes"), 32 * kMiB);
  EXPECT_EQ(statistic(soft, "oom_reports"), 0u);
}

void expect_in_parts(const std::vector<std::string>& arguments, const std::string& budget, std::uint64_t budget_bytes,
                     const std::vector<std::uint64_t>& in_orders) {
  const ProcessResult plain = run_plain(arguments);
  for (const std::uint64_t order : in_orders) {
    const ProcessResult squeezed = run_preloaded(arguments, budget, order);
    expect_same(plain, squeezed);
    EXPECT_GT(statistic(squeezed, "cut_graphs"), 0u);
    EXPECT_GT(statistic(squeezed, "graph_segments"), 2 * statistic(squeezed, "cut_graphs"));
    EXPECT_EQ(statistic(squeezed, "uncut_graphs") + statistic(squeezed, "oom_reports"), 0u);
    EXPECT_LE(statistic(squeezed, "peak_device_bytes"), budget_bytes);
  }
}

// Each kind of change, launches in two streams, in every order, with the race checker on.
TEST(ApiPaths, AGraphThatDoesNotFitIsLaunchedInParts) {
  expect_in_parts({"api_paths/graphs/changed_in_parts"}, "12MiB", 12 * kMiB, {0, 2});
  // Under less pressure the library's copies order less, and launches in two streams have to be ordered by themselves.
  expect_in_parts({"api_paths/graphs/changed_in_parts"}, "28MiB", 28 * kMiB, {1});
  expect_in_parts({"api_paths/graphs/more_than_fits_at_once"}, kBudget, 20 * kMiB, {1});
}

// A child graph is cut, too, and its nodes are changed and disabled.
TEST(ApiPaths, ChildGraphsAreLaunchedInParts) {
  expect_in_parts({"api_paths/graphs/children_in_parts"}, "12MiB", 12 * kMiB, {0, 2});
  expect_in_parts({"api_paths/graphs/children_in_parts"}, kBudget, 20 * kMiB, {1});
}

// Executable graphs that share the weights, and are given new parameters for each token; graphs with a pool of their own.
TEST(ApiPaths, GraphsOfTokensAreLaunchedInParts) {
  expect_in_parts({"api_paths/graphs/tokens", "nodes"}, "12MiB", 12 * kMiB, {1});
  expect_in_parts({"api_paths/graphs/tokens", "updates"}, kBudget, 20 * kMiB, {2});
  expect_in_parts({"api_paths/graphs/tokens", "pool"}, kBudget, 20 * kMiB, {1});
}

// While a thread launches the parts, nobody else comes between them in the stream.
TEST(ApiPaths, NobodyComesBetweenThePartsOfAGraph) {
  expect_in_parts({"api_paths/graphs/nobody_between_parts"}, kBudget, 20 * kMiB, {0});
  expect_in_parts({"api_paths/graphs/nobody_between_parts", "both"}, kBudget, 20 * kMiB, {0});
}

// The library's calls to make room, in one thread, disturb no capture that begins meanwhile in another.
TEST(ApiPaths, CapturesAreNotInvalidatedByWhatMakesRoom) {
  const std::vector<std::string> arguments = {"api_paths/graphs/captured_under_pressure"};
  const ProcessResult plain = run_plain(arguments);
  for (const std::uint64_t order : orders()) {
    const ProcessResult squeezed = run_preloaded(arguments, "16MiB", order);
    expect_same(plain, squeezed);
    EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
  }
}

// Launches of one executable graph follow each other where some are in parts, and others of a small graph are not; and
// where another stream captures.
TEST(ApiPaths, LaunchesInPartsFollowOthers) {
  for (const char* const what : {"grows", "shrinks", "capturing"}) {
    const std::vector<std::string> arguments = {"api_paths/graphs/updates_of_parts", what};
    const ProcessResult plain = run_plain(arguments);
    for (const char* const budget : {"12MiB", "28MiB"}) {
      for (const std::uint64_t order : orders()) {
        const ProcessResult squeezed = run_preloaded(arguments, budget, order);
        expect_same(plain, squeezed);
        EXPECT_GT(statistic(squeezed, "cut_graphs"), 0u);
        EXPECT_EQ(statistic(squeezed, "uncut_graphs"), 0u);
      }
    }
  }
}

// Which of the newer nodes is the disabled one is not known: the graph is launched as a whole, or refused.
TEST(ApiPaths, AGraphThatWasUpdatedWithADisabledNodeIsNotCut) {
  for (const auto& [what, because] : {std::pair{"disabled", "a node that was disabled when the graph was updated"},
                                      std::pair{"late", "a node that was disabled when the graph was updated"},
                                      std::pair{"child", "a node whose change could not be repeated"}}) {
    const std::vector<std::string> arguments = {"api_paths/graphs/updates_of_parts", what};
    expect_same(run_plain(arguments), run_preloaded(arguments, "64MiB"));
    const ProcessResult squeezed = run_preloaded(arguments, kBudget);
    EXPECT_NE(squeezed.out.find("cuGraphLaunch(exec, streams[0]): 2\n"), std::string::npos) << squeezed.out;
    EXPECT_NE(squeezed.err.find(std::string("because of ") + because), std::string::npos) << squeezed.err;
    EXPECT_EQ(statistic(squeezed, "uncut_graphs"), 1u);
  }
}

// Nothing is cut of a graph that fits, whether it has been copied or not.
TEST(ApiPaths, AGraphThatFitsIsLaunchedAsItIs) {
  const ProcessResult fits = run_preloaded({"api_paths/graphs/changed_in_parts"}, "64MiB");
  EXPECT_EQ(statistic(fits, "cut_graphs") + statistic(fits, "graph_segments"), 0u);
}

// Segments are operations like others: from the second iteration on a plan moves their buffers.
TEST(ApiPaths, StepsOfAGraphInPartsArePlanned) {
  const std::vector<std::string> in_graph = {"api_paths/graphs/larger_than_the_budget", "graph", "4", "8", "2"};
  const std::vector<std::string> launched = {"api_paths/graphs/larger_than_the_budget", "launches", "4", "8", "2"};
  const ProcessResult squeezed = run_preloaded(in_graph, "24MiB");
  expect_same(run_plain(launched), squeezed);
  EXPECT_EQ(statistic(squeezed, "cut_graphs"), 1u);
  EXPECT_GT(statistic(squeezed, "restores_planned"), 0u);
}

ProcessResult run_with_fault(const std::vector<std::string>& arguments, const std::string& fault) {
  return run_program(arguments, {.preload = {LIBRARY_FILE},
                                 .budget = "24MiB",
                                 .order = 0,
                                 .environment = {"THERMOCLINE_SIMULATE_FAULTS=fail " + fault}});
}

// The program's graph is the first to be copied and instantiated; each segment follows. Where the library cannot cut it, it
// is refused, and nothing of it has run.
TEST(ApiPaths, AGraphThatTheDriverDoesNotCopyIsRefusedWhole) {
  const std::vector<std::string> arguments = {"api_paths/graphs/more_than_fits_at_once"};
  const std::string whole = run_preloaded({"api_paths/graphs/more_than_fits_at_once", "host"}, "24MiB").out;
  for (const auto& [fault, because] :
       {std::pair{"cuGraphClone call 1 OUT_OF_MEMORY", "a node that can not be copied"},
        std::pair{"cuGraphInstantiateWithFlags call 4 INVALID_VALUE", "a segment that the driver did not instantiate"},
        std::pair{"cuGraphUpload call 2 INVALID_VALUE", "a segment that the driver did not upload"}}) {
    const ProcessResult result = run_with_fault(arguments, fault);
    EXPECT_EQ(result.out, whole) << result.err;
    EXPECT_NE(result.err.find(std::string("is not launched in parts because of ") + because), std::string::npos)
        << result.err;
    EXPECT_EQ(statistic(result, "uncut_graphs"), 1u);
    EXPECT_EQ(statistic(result, "graph_segments"), 0u);
  }
}

// When a part of it has run already, the program is not told that nothing has: all that it does from then on fails.
TEST(ApiPaths, AGraphOfWhichAPartCanNotBeLaunchedEndsTheProgramsWork) {
  const std::vector<std::string> arguments = {"api_paths/graphs/larger_than_the_budget", "graph", "4", "2", "1"};
  const ProcessResult result = run_with_fault(arguments, "cuGraphLaunch call 3 INVALID_VALUE");
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_NE(result.err.find("program: 999 from cuGraphLaunch"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("could not be completed (the driver refused a part)"), std::string::npos) << result.err;
  // If the first part fails, nothing has run.
  const ProcessResult first = run_with_fault(arguments, "cuGraphLaunch call 1 INVALID_VALUE");
  EXPECT_NE(first.err.find("program: 1 from cuGraphLaunch"), std::string::npos) << first.err;
  EXPECT_EQ(first.err.find("could not be completed"), std::string::npos) << first.err;
}

// The driver has fewer pages than the budget, for one node but not for a part of several: such a part is halved.
TEST(ApiPaths, APartOfAGraphThatIsRefusedIsHalved) {
  const std::vector<std::string> arguments = {"api_paths/graphs/larger_than_the_budget", "graph", "12", "2", "1"};
  const ProcessResult result =
      run_program(arguments, {.preload = {LIBRARY_FILE},
                              .budget = "96MiB",
                              .environment = {"THERMOCLINE_SIMULATE_FAULTS=fail cuMemCreate from 6 OUT_OF_MEMORY"}});
  const ProcessResult roomy = run_preloaded(arguments, "96MiB");
  expect_same(run_plain(arguments), result);
  EXPECT_EQ(statistic(result, "cut_graphs"), 1u);
  EXPECT_GT(statistic(result, "graph_segments"), statistic(roomy, "graph_segments"));
  EXPECT_EQ(result.err.find("out of memory"), std::string::npos) << result.err;
}

// One kernel of the graph alone is more than the budget: nothing of the graph has run.
TEST(ApiPaths, AGraphWithANodeThatDoesNotFitIsRefusedWhole) {
  const ProcessResult squeezed = run_preloaded({"api_paths/graphs/tokens", "pool"}, "12MiB");
  EXPECT_EQ(squeezed.status, 2) << squeezed.err;
  EXPECT_NE(squeezed.err.find("program: 2 from cuGraphLaunch"), std::string::npos) << squeezed.err;
  EXPECT_NE(squeezed.err.find("because of one node that does not fit by itself"), std::string::npos) << squeezed.err;
  EXPECT_EQ(statistic(squeezed, "graph_segments"), 0u);
}

}  // namespace
}  // namespace thermocline::test
