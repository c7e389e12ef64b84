// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hooks/relaunch/kernel_verdicts.h"
#include "hooks/relaunch/nothing_dropped.h"
#include "offload/policies.h"

namespace thermocline {
namespace {

TEST(Statistics, LineBeginsWithTheDocumentedFieldsInOrder) {
  EngineStatistics statistics;
  statistics.peak_live_bytes = 1;
  statistics.peak_device_bytes = 2;
  statistics.budget_bytes = 3;
  statistics.peak_host_bytes = 4;
  statistics.evicted_bytes = 5;
  statistics.restored_bytes = 6;
  statistics.allocations = 7;
  statistics.pinned_buffers = 8;
  EXPECT_TRUE(
      statistics_line(statistics)
          .starts_with(
              "peak_live_bytes=1 peak_device_bytes=2 budget_bytes=3 peak_host_bytes=4 evicted_bytes=5 restored_bytes=6 "
              "allocations=7 pinned_buffers=8 "));
}

TEST(Statistics, TheObjectHasTheLinesFields) {
  EngineStatistics statistics;
  statistics.peak_live_bytes = 12;
  const std::string object = statistics_json(statistics, 77, 3);
  EXPECT_TRUE(
      object.starts_with("{\"schema\": \"thermocline-run/1\", \"pid\": 77, \"rank\": 3, \"peak_live_bytes\": 12, "))
      << object;
  EXPECT_TRUE(object.ends_with("}\n")) << object;
  EXPECT_EQ(std::ranges::count(object, ':'), 3 + std::ranges::count(statistics_line(statistics), '='));
  EXPECT_NE(statistics_json(statistics, 77, std::nullopt).find("\"rank\": null, "), std::string::npos);
}

TEST(Statistics, SayWhatWasRecomputed) {
  EngineStatistics one;
  one.dropped_buffers = 3, one.dropped_bytes = 6 * kMiB;
  one.recomputed_buffers = 2, one.recomputed_bytes = 4 * kMiB;
  one.recomputed_operations = 5, one.recomputed_ns = 7;
  one.rehearsed_launches = 10, one.verified_results = 11, one.mismatched_results = 1, one.unverified_results = 2;
  one.promoted_kernels = 3, one.demoted_kernels = 1;
  for (const EngineStatistics& both : {merge(one, one), add(one, one)}) {
    const std::string line = statistics_line(both);
    EXPECT_NE(line.find(" dropped_buffers=6 dropped_bytes=12582912 recomputed_buffers=4 recomputed_bytes=8388608 "
                        "recomputed_operations=10 recomputed_ns=14 "),
              std::string::npos)
        << line;
    EXPECT_NE(line.find(" rehearsed_launches=20 verified_results=22 mismatched_results=2 unverified_results=4 "
                        "promoted_kernels=6 demoted_kernels=2"),
              std::string::npos)
        << line;
  }
  const std::string table = statistics_table(one, "digits", "");
  EXPECT_NE(
      table.find("  dropped        6.0 MiB of whole pages in 3 buffers, without a copy\n"
                 "  recomputed     4.0 MiB of whole pages in 2 buffers, by 5 operations that ran again\n"
                 "  verified       11 results equal, 1 different, 2 not compared; 3 kernels promoted, 1 demoted\n"),
      std::string::npos)
      << table;
  EXPECT_TRUE(statistics_json(one, 77, std::nullopt, "\"kernels\": []").ends_with(", \"kernels\": []}\n"));
}

TEST(Statistics, NameTheKernelsThatMayNotRunAgain) {
  KernelVerdict pure{.name = "_Z4pureIfEvPT_", .refused = {}, .launches = {}, .reruns = 2};
  pure.launches[0] = 3;
  pure.rehearsed = 3, pure.verified = 4, pure.mismatched = 1, pure.state = KernelTrial::State::kDemoted;
  pure.launches[static_cast<std::size_t>(LaunchVerdict::kAliased)] = 1;
  pure.arguments = {{0, 8, KernelArgument::Access::kWritten, KernelArgument::Access::kBoth}};
  KernelVerdict clock{.name = "a\"b", .refused = {RerunRefusal::Why::kClock, "%clock64"}, .launches = {}, .reruns = 0};
  clock.launches[static_cast<std::size_t>(LaunchVerdict::kNotProven)] = 5;
  EXPECT_EQ(kernel_verdicts_text({pure, clock}, 1),
            "thermocline: to recompute what they made, 1 of 2 kernels may run again\n"
            "  a\"b: 0 of 5 launches, ran again 0 times: it reads a clock: %clock64\n"
            "  and 1 more (--stats=json)\n");
  EXPECT_NE(
      kernel_verdicts_text({pure, clock}, 2)
          .find(
              "  pure<float>: 3 of 4 launches, ran again 2 times, demoted, rehearsed 3 times, verified 4 times in use, "
              "different 1 time; the others: what it writes is given to it twice, or it may read there by a "
              "pointer to the buffer behind\n"),
      std::string::npos);
  EXPECT_EQ(
      kernel_verdicts_json({pure, clock}),
      "\"kernels\": [{\"name\": \"a\\\"b\", \"symbol\": \"a\\\"b\", \"arguments\": [], \"evidence\": \"code\", "
      "\"proven\": false, \"launches\": 5, \"may_run_again\": 0, \"reruns\": 0, "
      "\"rehearsed\": 0, \"verified\": 0, \"mismatched\": 0, \"trial\": null, \"why_not\": \"it reads a clock: "
      "%clock64\"}, "
      "{\"name\": \"pure<float>\", \"symbol\": \"_Z4pureIfEvPT_\", \"arguments\": [{\"parameter\": 1, \"offset\": 8, "
      "\"access\": \"written\", \"prototype\": \"not const\"}], \"evidence\": \"code\", \"proven\": true, "
      "\"launches\": 4, "
      "\"may_run_again\": 3, \"reruns\": 2, \"rehearsed\": 3, \"verified\": 4, \"mismatched\": 1, "
      "\"trial\": \"demoted\", \"why_not\": \"what it writes is given to it twice, or it may read there by a "
      "pointer to the buffer behind\"}]");
  EXPECT_EQ(kernel_verdicts_text({}, 9), "");
}

TEST(Statistics, NameTheShapeThatTheProofIsNotOf) {
  KernelVerdict one{.name = "k", .refused = {}, .launches = {}};
  one.launches[static_cast<std::size_t>(LaunchVerdict::kOtherShape)] = 2;
  EXPECT_EQ(one.why_not(), "launched with a shape or sizes that the proof is not of");
  KernelVerdict other = one;
  other.other_shape = {.shape = {.threads = {32, 8, 1}, .blocks = {4, 2, 1}}, .parameter = 2, .parameters = 3};
  one.add(other);
  EXPECT_EQ(one.why_not(),
            "launched with a shape or sizes that the proof is not of, as grid (4, 2, 1) of blocks (32, 8, 1), for what "
            "it stores through parameter 2 of 3");
  KernelVerdict special{.name = "k", .refused = {}, .launches = {}};
  special.launches[static_cast<std::size_t>(LaunchVerdict::kSpecial)] = 1;
  EXPECT_EQ(special.why_not(), "launched with attributes, cooperatively or in clusters");
}

// The first thing that stands in the way.
TEST(Statistics, SayWhyNothingWasDropped) {
  EngineStatistics of;
  of.budget_bytes = 100, of.peak_device_bytes = 50;
  std::vector<KernelVerdict> kernels(1);
  kernels[0].launches[static_cast<std::size_t>(LaunchVerdict::kNotProven)] = 9;
  RecomputeObstacles obstacles;
  const auto why = [&] { return why_nothing_was_dropped(of, kernels, obstacles, {}).word; };
  const auto sentence = [&] { return why_nothing_was_dropped(of, kernels, obstacles, {}).sentence; };
  EXPECT_EQ(why(), "budget_not_needed");
  of.peak_device_bytes = 51;
  EXPECT_EQ(why(), "no_kernel");
  kernels[0].launches[0] = of.rerunnable_launches = 8;
  EXPECT_EQ(why(), "on_trial");
  kernels[0].rehearsed = 2;
  EXPECT_EQ(
      sentence(),
      "kernels are still on trial: 2 rehearsals came out, and each kernel needs 3 once half of the budget is in use");
  obstacles.rehearsals_in_vain = 2;
  EXPECT_EQ(why(), "no_scratch_memory");
  kernels[0].state = KernelTrial::State::kGivenUp;
  EXPECT_EQ(why(), "given_up");
  kernels.push_back(kernels[0]);
  kernels[1].state = KernelTrial::State::kOnTrial;
  EXPECT_EQ(why(), "no_scratch_memory") << "one is still on trial";
  kernels[1].state = KernelTrial::State::kDemoted;
  EXPECT_EQ(
      sentence(),
      "kernels that may run again were given up: their rehearsals came to nothing, for lack of room for the scratch "
      "memory or of digests; 1 other gave other results");
  kernels.pop_back();
  of.digests_unavailable = 1;
  EXPECT_EQ(why(), "no_digests");
  of.digests_unavailable = 0, obstacles.rehearsals_in_vain = 0, kernels[0].state = KernelTrial::State::kDemoted;
  EXPECT_EQ(why(), "demoted");
  kernels[0].state = KernelTrial::State::kPromoted;
  EXPECT_EQ(why(), "no_plan");
  of.plans = 1;
  EXPECT_EQ(why(), "copies");
  obstacles.last_plan = RecomputeObstacles::Plan::kUnfit;
  EXPECT_EQ(why(), "no_plan_fits");
  obstacles.last_plan = RecomputeObstacles::Plan::kMovesNothing;
  EXPECT_EQ(why(), "fits");
  of.evictions = 3;
  EXPECT_EQ(why(), "copies");
  using Plan = RecomputeObstacles::Plan;
  const std::pair<Plan, const char*> plans[] = {
      {Plan::kInputsGone, "inputs_overwritten"}, {Plan::kNotRepeatable, "made_by_others"},
      {Plan::kHostWaits, "host_waits"},          {Plan::kUnknownAccesses, "unknown_accesses"},
      {Plan::kOtherRoles, "other_buffers"},      {Plan::kCopies, "copies"}};
  for (const auto& [plan, word] : plans) {
    obstacles.last_plan = plan;
    EXPECT_EQ(why(), word);
  }
  of.evictions = 0;
  obstacles.dropping_plans = 1;
  EXPECT_EQ(why(), "not_possible");
  obstacles.behind_unknown = 5;
  EXPECT_EQ(why(), "unknown_accesses");
  obstacles.behind_host = 5;
  EXPECT_EQ(why(), "host_waits");
  EXPECT_EQ(why_nothing_was_dropped(of, kernels, obstacles, {"policy", "so"}).word, "policy");
  of.dropped_buffers = 1;
  EXPECT_EQ(why_nothing_was_dropped(of, kernels, obstacles, {"policy", "so"}).word, "");
}

// With THERMOCLINE_TEST_DROPS=1 nothing is on trial, and with each of its values no plan is waited for.
TEST(Statistics, SayWhyNothingWasDroppedWhereAllIsToBeDropped) {
  EngineStatistics of;
  of.budget_bytes = of.peak_device_bytes = 100;
  std::vector<KernelVerdict> kernels(1);
  kernels[0].launches[0] = of.rerunnable_launches = 8;
  RecomputeObstacles obstacles;
  obstacles.drops_all = true;
  EXPECT_EQ(why_nothing_was_dropped(of, kernels, obstacles, {}).word, "on_trial");
  obstacles.drops_by_proof = true;
  EXPECT_EQ(why_nothing_was_dropped(of, kernels, obstacles, {}).word, "not_possible");
}

TEST(Statistics, SayOfHostMemoryWhatIsPinned) {
  EngineStatistics of;
  of.evicted_bytes = of.peak_host_bytes = 96 * kMiB;
  const auto table = [&] { return statistics_table(of, "digits", ""); };
  EXPECT_NE(table().find("on the host    96.0 MiB at most, pinned\n"), std::string::npos) << table();
  of.peak_pageable_bytes = 64 * kMiB;
  EXPECT_NE(table().find("96.0 MiB at most, pinned, except 64.0 MiB that the driver refused"), std::string::npos)
      << table();
  of.peak_pageable_bytes = 96 * kMiB;
  EXPECT_EQ(table().find("pinned"), std::string::npos) << "nothing was: " << table();
  EXPECT_NE(table().find("96.0 MiB at most, pageable"), std::string::npos) << table();
}

TEST(Statistics, SayWhyNothingWasDroppedInBothForms) {
  EXPECT_EQ(nothing_dropped_text({"no_plan", "why"}), "  nothing was dropped to be recomputed: why\n");
  EXPECT_EQ(nothing_dropped_text({}), "");
  EXPECT_EQ(nothing_dropped_json({}), "\"nothing_dropped\": null");
  Settings settings = default_settings();
  EXPECT_EQ(forbidden_by(settings).word, "");
  settings.policy = kReactivePolicy;
  EXPECT_EQ(nothing_dropped_json(forbidden_by(settings)),
            "\"nothing_dropped\": {\"why\": \"policy\", \"sentence\": \"policy = \\\"reactive\\\" makes no plan; "
            "learned does\"}");
  settings = default_settings();
  settings.host_fallback = HostFallback::kFull;
  EXPECT_EQ(forbidden_by(settings).word, "host_fallback");
  settings = default_settings();
  settings.debug = DebugMode::kGuard;
  EXPECT_EQ(forbidden_by(settings).word, "debug_guard");
  settings = default_settings();
  settings.audit = true;
  EXPECT_EQ(forbidden_by(settings).word, "audit");
}

TEST(Statistics, TheTableSaysWhatMattersInFewLines) {
  EngineStatistics fits;
  fits.peak_live_bytes = fits.peak_device_bytes = 64 * kMiB;
  fits.budget_bytes = 14 * kGiB;
  EXPECT_EQ(statistics_table(fits, "digits", "60% of the device's 24.00 GiB"),
            "thermocline: digits held 64.0 MiB at most\n"
            "  on the device  64.0 MiB at most, budget 14.00 GiB = 60% of the device's 24.00 GiB\n"
            "  moved          nothing: it fitted\n");
  const auto moved = [](const EngineStatistics& of) {
    const std::string table = statistics_table(of, "digits", "");
    const std::size_t row = table.find("  moved ");
    return table.substr(row, table.find('\n', row) - row);
  };
  EngineStatistics refused = fits;
  refused.out_of_memory = 1;
  EXPECT_EQ(moved(refused), "  moved          nothing");
  EngineStatistics unwritten = fits;
  unwritten.peak_device_bytes = unwritten.budget_bytes = 32 * kMiB;
  EXPECT_EQ(moved(unwritten), "  moved          nothing: what left the device was never written");
  EngineStatistics moves = fits;
  moves.peak_device_bytes = moves.budget_bytes = 22 * kMiB;
  moves.peak_host_bytes = 64 * kMiB;
  moves.evicted_bytes = moves.restored_bytes = 2 * kGiB;
  moves.evictions = 126;
  moves.restores = 1;
  moves.out_of_memory = 2;
  EXPECT_EQ(statistics_table(moves, "digits", ""),
            "thermocline: digits held 64.0 MiB at most\n"
            "  on the device  22.0 MiB at most, budget 22.0 MiB\n"
            "  on the host    64.0 MiB at most, pinned\n"
            "  evicted        2.00 GiB copied in 126 evictions\n"
            "  fetched        2.00 GiB in 1 copy, 0 ahead of need\n"
            "  host waited    0 times\n"
            "  out of memory  2 times\n");
}

TEST(Statistics, CountsAddUpAndPeaksDoNot) {
  EngineStatistics first;
  first.peak_device_bytes = 100;
  first.evicted_bytes = 10;
  first.live_bytes = 50;
  EngineStatistics second;
  second.peak_device_bytes = 70;
  second.evicted_bytes = 5;
  second.live_bytes = 20;
  const EngineStatistics all = merge(first, second);
  EXPECT_EQ(all.peak_device_bytes, 100u);
  EXPECT_EQ(all.evicted_bytes, 15u);
  EXPECT_EQ(all.live_bytes, 20u);
}

TEST(Statistics, OfAnEngineThatHasEndedNothingIsHeld) {
  EngineStatistics last;
  last.allocated_bytes = 100;
  last.freed_bytes = 30;
  last.live_bytes = 70;
  last.peak_live_bytes = 90;
  last.size_classes[2].live_bytes = 70;
  const EngineStatistics all = merge(EngineStatistics{}, ended(last));
  EXPECT_EQ(all.live_bytes, 0u);
  EXPECT_EQ(all.freed_bytes, 100u);
  EXPECT_EQ(all.peak_live_bytes, 90u);
  EXPECT_EQ(all.size_classes[2].live_bytes, 0u);
}

TEST(Statistics, OfTwoDevicesAddUpButForWhatIsTheProcesss) {
  EngineStatistics first;
  first.budget_bytes = 100;
  first.live_bytes = 40;
  first.peak_device_bytes = 90;
  first.evictions = 3;
  first.movements.of(EvictReason::kPlanned) = {3, 30};
  first.movements.of(FetchReason::kPinned) = {1, 10};
  first.host_limit_bytes = 500;
  first.largest_allocation_bytes = 7;
  first.size_classes[1].buffers = 2;
  EngineStatistics second = first;
  second.live_bytes = 2;
  second.largest_allocation_bytes = 9;
  const EngineStatistics both = add(first, second);
  EXPECT_EQ(both.budget_bytes, 200u);
  EXPECT_EQ(both.live_bytes, 42u);
  EXPECT_EQ(both.peak_device_bytes, 180u);
  EXPECT_EQ(both.evictions, 6u);
  EXPECT_EQ(both.movements.of(EvictReason::kPlanned).units, 6u);
  EXPECT_EQ(both.movements.of(EvictReason::kPlanned).copied_bytes, 60u);
  EXPECT_EQ(both.movements.of(FetchReason::kPinned).copied_bytes, 20u);
  EXPECT_EQ(both.host_limit_bytes, 500u);
  EXPECT_EQ(both.largest_allocation_bytes, 9u);
  EXPECT_EQ(both.size_classes[1].buffers, 4u);
}

TEST(Statistics, OfTwoAuditsTheFirstFaultIsSaid) {
  AuditStatistics first, second, third;
  first.launches = 4;
  first.graphs = 1;
  second.launches = 5;
  second.graphs = 2;
  second.fault = 2;
  third.fault = 9;
  const AuditStatistics sum = add(add(first, second), third);
  EXPECT_EQ(sum.launches, 9u);
  EXPECT_EQ(sum.graphs, 3u);
  EXPECT_EQ(sum.fault, 2u);
}

}  // namespace
}  // namespace thermocline
