// SPDX-License-Identifier: Apache-2.0
// Memory that kernels find through tables in device memory is resident, however the table got there.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

class Table : public testing::TestWithParam<std::string> {};

TEST_P(Table, LeadsToWhatIsThere) {
  expect_same_bits({"tables", GetParam()}, "20MiB", 20 * kMiB);
  const ProcessResult squeezed = run_preloaded({"tables", GetParam()}, "20MiB");
  EXPECT_GT(statistic(squeezed, "followed"), 0u);
}

INSTANTIATE_TEST_SUITE_P(Preload, Table,
                         testing::Values("pageable", "unified", "pinned", "many_pinned", "amid_much",
                                         "amid_much_pinned", "write_combined", "write_combined_captured", "rows",
                                         "layers", "batch", "values", "nested", "moved", "interior", "written",
                                         "displaced", "displaced_by_no_name", "displaced_later", "global", "captured",
                                         "built", "maps", "map_in_global", "maps_captured"),
                         [](const auto& test) { return test.param; });

// Nothing that such a kernel writes is lost, whatever is mapped for evicted buffers.
class TableInPlace : public testing::TestWithParam<std::string> {};

TEST_P(TableInPlace, LeadsToWhatIsThere) {
  const ProcessResult plain = run_plain({"tables", GetParam()});
  for (const char* const fallback : {"off", "auto", "full"}) {
    SCOPED_TRACE(fallback);
    const ProcessResult squeezed =
        run_program({"tables", GetParam()}, {.preload = {LIBRARY_FILE},
                                             .budget = "20MiB",
                                             .environment = {std::string("THERMOCLINE_HOST_FALLBACK=") + fallback}});
    expect_same(plain, squeezed);
    EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
    EXPECT_EQ(statistic(squeezed, "unseen_accesses"), 0u);
    EXPECT_EQ(statistic(squeezed, "unread_tables"), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Preload, TableInPlace,
                         testing::Values("in_place_pinned", "in_place_managed", "in_place_write_combined",
                                         "in_place_registered", "in_place_nested", "in_place_long",
                                         "in_place_managed_late", "in_place_captured"),
                         [](const auto& test) { return test.param; });

// Buffers that do not fit because of other entries are used at their host copies, if everything evicted is mapped to
// one. Otherwise the launch is refused, and the report tells the reason and a remedy.
TEST(TableInPlaceQueue, NeedsNoRoomForEarlierEntriesUnderAFullFallback) {
  const std::vector<std::string> program = {"tables", "in_place_queue"};
  const auto run_with = [&](const std::string& fallback) {
    return run_program(
        program,
        {.preload = {LIBRARY_FILE}, .budget = "20MiB", .environment = {"THERMOCLINE_HOST_FALLBACK=" + fallback}});
  };
  const ProcessResult full = run_with("full");
  expect_same(run_plain(program), full);
  EXPECT_GT(statistic(full, "unfetched_targets"), 0u);
  EXPECT_GT(statistic(full, "evicted_bytes"), 0u);
  const ProcessResult refused = run_with("auto");
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.err.find("because of addresses stored in memory that it can reach"), std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("host_fallback = \"full\""), std::string::npos) << refused.err;
}

// `checked`: with the race checker, which must find nothing.
ProcessResult run_without_net(const std::vector<std::string>& arguments, const std::string& operators,
                              bool checked = true) {
  Running running{.preload = {LIBRARY_FILE},
                  .budget = "20MiB",
                  .environment = {"THERMOCLINE_HOST_FALLBACK=off", "THERMOCLINE_OPERATORS=" + operators}};
  if (!checked) running.environment.emplace_back("THERMOCLINE_SIMULATE_CHECK=0");
  return run_program(arguments, running);
}

// Kernels that write tables are known by name (some to the library, others from the settings), or detected.
TEST(WrittenTables, LeadToWhatTheirKernelWasGiven) {
  const std::vector<std::string> program = {"tables", "written_by_no_name"};
  const ProcessResult plain = run_plain(program);
  for (const char* const operators : {"write_*=tables", "*=tables", ""}) {
    const ProcessResult named = run_without_net(program, operators);
    expect_same(plain, named);
    EXPECT_GT(statistic(named, "followed"), 0u);
    EXPECT_GT(statistic(named, "evicted_bytes"), 0u);
    EXPECT_EQ(statistic(named, "unfetched_targets"), 0u);
  }
  for (const char* const known : {"written", "displaced"}) {
    expect_same(run_plain({"tables", known}), run_without_net({"tables", known}, ""));
  }
}

// A kernel that writes tables each time is known after two probes; one that copies words is probed again when the words
// are addresses.
TEST(WrittenTables, AreFoundWhereNothingTellsOfTheirKernels) {
  for (const char* const kind : {"displaced_by_no_name", "displaced_later"}) {
    const std::vector<std::string> program = {"tables", kind};
    const ProcessResult squeezed = run_without_net(program, "");
    expect_same(run_plain(program), squeezed);
    EXPECT_GT(statistic(squeezed, "followed"), 0u) << kind;
    EXPECT_GT(statistic(squeezed, "pointer_probes"), 0u) << kind;
  }
  EXPECT_EQ(statistic(run_without_net({"tables", "displaced_by_no_name"}, ""), "pointer_writing_kernels"), 2u);
}

TEST(WrittenTables, SmallBuffersThatAreNoneLeadNowhere) {
  const std::vector<std::string> program = {"tables", "small_ones"};
  const ProcessResult squeezed = run_without_net(program, "");
  expect_same(run_plain(program), squeezed);
  EXPECT_GT(statistic(squeezed, "pointer_probes"), 0u);
  EXPECT_EQ(statistic(squeezed, "pointer_writing_kernels"), 0u);
  EXPECT_EQ(statistic(squeezed, "followed"), 0u);
}

// Addresses that a set is about to clear are found by all work that runs before it, also if it is submitted later.
TEST(ClearedTables, LeadWhereTheyLedUntilTheyAreCleared) {
  for (const char* const kind : {"table_cleared_later", "outside_cleared_later"}) {
    SCOPED_TRACE(kind);
    const ProcessResult squeezed = run_without_net({"tables", kind}, "");
    expect_same(run_plain({"tables", kind}), squeezed);
    EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
  }
}

// Whatever the kernels of a graph were given and leave behind.
TEST(TablesOfGraphs, LeadToWhatTheGraphsKernelsWereGiven) {
  for (const char* const kind : {"written_in_graph", "named_in_graph", "copied_in_graph", "moved_in_graph",
                                 "moved_by_a_known_one", "uploaded_over_a_long_one", "cleared_in_graph"}) {
    SCOPED_TRACE(kind);
    const ProcessResult squeezed = run_without_net({"tables", kind}, "");
    expect_same(run_plain({"tables", kind}), squeezed);
    EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
    EXPECT_EQ(statistic(squeezed, "unfetched_targets"), 0u);
  }
}

// Addresses that copies of a graph write are followed, in any order; those that they replace are not, if room is short.
TEST(TablesOfGraphs, LeadToWhatTheGraphsCopiesBroughtLast) {
  for (const char* const kind : {"captured_in_turn", "captured_in_turn_ahead", "captured_in_words", "captured_outside",
                                 "copied_down_in_graph"}) {
    for (const char* const safety : {"strict", "trusting"}) {
      SCOPED_TRACE(std::string(kind) + ", " + safety);
      const ProcessResult squeezed =
          run_program({"tables", kind},
                      {.preload = {LIBRARY_FILE},
                       .budget = "20MiB",
                       .environment = {"THERMOCLINE_HOST_FALLBACK=off", std::string("THERMOCLINE_SAFETY=") + safety}});
      expect_same(run_plain({"tables", kind}), squeezed);
      EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
      EXPECT_EQ(statistic(squeezed, "oom_reports"), 0u);
    }
  }
}

// Where the graph is launched in parts, what its copies bring counts before it is cut: no part needs more than fits.
TEST(TablesOfGraphs, LeadToWhatCopiesOfGraphsInPartsBrought) {
  const std::vector<std::string> program = {"tables", "uploaded_in_parts"};
  const ProcessResult squeezed = run_without_net(program, "");
  expect_same(run_plain(program), squeezed);
  EXPECT_GT(statistic(squeezed, "cut_graphs"), 0u);
  EXPECT_EQ(statistic(squeezed, "unfetched_targets"), 0u);
}

// A kernel of one part may have stored addresses: this keeps no buffer on the device for the other parts.
TEST(TablesOfGraphs, LeadToWhatKernelsOfGraphsInPartsStored) {
  for (const char* const kind : {"stored_in_parts", "stored_in_parts_for_later"}) {
    SCOPED_TRACE(kind);
    const std::vector<std::string> program = {"tables", kind};
    const ProcessResult squeezed = run_without_net(program, "");
    expect_same(run_plain(program), squeezed);
    EXPECT_GT(statistic(squeezed, "cut_graphs"), 0u);
    EXPECT_GT(statistic(squeezed, "table_reads"), 0u);
    EXPECT_EQ(squeezed.err.find("out of memory"), std::string::npos) << squeezed.err;
    EXPECT_EQ(statistic(squeezed, "unfetched_targets"), 0u);
  }
}

// Tables need not be read as long as their targets stay, but these leave room for others.
TEST(TablesOfGraphs, KeepNoMoreThanHalfOfTheBudgetOnTheDevice) {
  const std::vector<std::string> program = {"tables", "stored_by_all_that_fits"};
  const ProcessResult squeezed = run_without_net(program, "");
  expect_same(run_plain(program), squeezed);
  EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
  EXPECT_EQ(statistic(squeezed, "cut_graphs"), 0u);
  EXPECT_EQ(statistic(squeezed, "oom_reports"), 0u);
}

// Nobody could give it the room, so it does not wait for others. A part of the graph has run by then.
TEST(TablesOfGraphs, ThatLeadAPartToMoreThanTheBudgetEndTheProgramsWork) {
  const ProcessResult squeezed = run_without_net({"tables", "stored_too_widely"}, "");
  EXPECT_NE(squeezed.status, 0);
  EXPECT_NE(squeezed.err.find("cuGraphLaunch(ready, p.stream): CUDA_ERROR_UNKNOWN"), std::string::npos) << squeezed.err;
  EXPECT_NE(squeezed.err.find("lead one of its nodes to more than the budget"), std::string::npos) << squeezed.err;
  EXPECT_EQ(squeezed.err.find("for 10 seconds"), std::string::npos) << squeezed.err;
}

TEST(TablesOfGraphs, LeadWhereTheyAreCopiedToAlsoIfTheyAreReadBefore) {
  const std::vector<std::string> program = {"tables", "copied_on_when_read"};
  const ProcessResult squeezed = run_without_net(program, "");
  expect_same(run_plain(program), squeezed);
  EXPECT_GT(statistic(squeezed, "table_reads"), 0u);
  EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
}

// Beside such buffers the large ones are not pinned, if the kernel is known: all of them together are more than the budget.
TEST(TablesOfGraphs, SmallBuffersOfKnownKernelsKeepNothingOnTheDevice) {
  const std::vector<std::string> program = {"tables", "small_ones_in_graphs"};
  const ProcessResult squeezed = run_without_net(program, "");
  expect_same(run_plain(program), squeezed);
  EXPECT_GT(statistic(squeezed, "pointer_probes"), 0u);
  EXPECT_EQ(statistic(squeezed, "oom_reports"), 0u);
  EXPECT_EQ(statistic(squeezed, "table_reads"), 0u);
  EXPECT_EQ(statistic(squeezed, "pinned_buffers"), 0u);
}

// Every kernel may follow what is stored in memory outside the library: all of it together is more than fits.
TEST(TablesOutside, LeadToWhatTheyHoldNow) {
  for (const char* const kind : {"outside_cleared", "outside_in_turn"}) {
    SCOPED_TRACE(kind);
    const ProcessResult squeezed = run_without_net({"tables", kind}, "");
    expect_same(run_plain({"tables", kind}), squeezed);
    EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
    EXPECT_EQ(statistic(squeezed, "oom_reports"), 0u);
  }
}

// By then it may point to three of them, so it is read.
TEST(WrittenTables, ThatMayLeadToMoreThanFitsAreRead) {
  const std::vector<std::string> program = {"tables", "written_too_often"};
  for (const char* const safety : {"strict", "trusting"}) {
    const ProcessResult squeezed = run_program(
        program, {.preload = {LIBRARY_FILE},
                  .budget = "20MiB",
                  .environment = {"THERMOCLINE_HOST_FALLBACK=off", std::string("THERMOCLINE_SAFETY=") + safety}});
    expect_same(run_plain(program), squeezed);
    EXPECT_EQ(statistic(squeezed, "unfetched_targets"), 0u);
    EXPECT_GT(statistic(squeezed, "table_reads"), 0u);
  }
}

// Whatever the settings, a shortage of memory causes an error of the launch and never wrong bytes.
void expect_refused_or_same(const std::vector<std::string>& program, const std::string& safety,
                            const std::string& fallback, const std::string& budget) {
  SCOPED_TRACE(program[1] + ", " + safety + ", " + fallback + ", " + budget);
  constexpr int kRefused = 7;
  const ProcessResult squeezed =
      run_program(program, {.preload = {LIBRARY_FILE},
                            .budget = budget,
                            .environment = {"THERMOCLINE_HOST_FALLBACK=" + fallback, "THERMOCLINE_SAFETY=" + safety}});
  const bool catches = safety == "strict" && fallback == "full" && budget != "7MiB";
  const bool fits = budget == "40MiB";
  if (fits || catches) {
    expect_same(run_plain(program), squeezed);
  } else {
    EXPECT_EQ(squeezed.status, kRefused) << squeezed.err;
    EXPECT_NE(squeezed.err.find(": its memory of "), std::string::npos) << squeezed.err;
  }
  EXPECT_EQ(statistic(squeezed, "unfetched_targets") > 0, catches && !fits);
  // These buffers are known to be used at their host copies.
  EXPECT_EQ(statistic(squeezed, "unseen_accesses"), 0u);
  EXPECT_EQ(statistic(squeezed, "pinned_buffers"), 0u);
}

TEST(WrittenTables, ThatLeadToMoreThanFitsAreRefusedWhereNoHostMappingCatchesIt) {
  for (const char* const kind : {"written_wide", "written_wide_by_no_name"}) {
    for (const char* const budget : {"7MiB", "14MiB", "20MiB", "40MiB"}) {
      for (const char* const safety : {"strict", "trusting"}) {
        for (const char* const fallback : {"off", "auto", "full"}) {
          expect_refused_or_same({"tables", kind}, safety, fallback, budget);
        }
      }
    }
  }
}

ProcessResult run_audited(const std::vector<std::string>& arguments) {
  return run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = "", .environment = {"THERMOCLINE_AUDIT=true"}});
}

// Buffers that a tensor map names are evicted and fetched like all others.
TEST(TensorMaps, KeepNothingOnTheDevice) {
  const std::string program = "api_paths/launches/tensor_maps";
  const ProcessResult squeezed = run_preloaded({program}, "20MiB");
  expect_same(run_plain({program}), squeezed);
  EXPECT_EQ(statistic(squeezed, "pinned_buffers"), 0u);
  EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
}

TEST(Audit, SaysSafeOfProgramsWhoseAccessesAreSeen) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"tables", "nested"},
                                                    {"tables", "global"},
                                                    {"tables", "written"},
                                                    {"tables", "captured"},
                                                    {"tables", "moved_in_graph"},
                                                    {"tables", "small_ones_in_graphs"},
                                                    {"tables", "maps"},
                                                    {"api_paths/launches/tensor_maps"},
                                                    {"graphs", "built"},
                                                    {"workload", "--threads", "2", "--streams"}}) {
    const ProcessResult audited = run_audited(arguments);
    expect_same(run_plain(arguments), audited);
    EXPECT_NE(audited.err.find("thermocline: audit: safe, as far as this run went: "), std::string::npos)
        << arguments[0] << ": " << audited.err;
    EXPECT_EQ(statistic(audited, "evicted_bytes"), 0u);
  }
}

TEST(Audit, NamesTheKernelThatAccessesWhatItWasNotSeenToAccess) {
  expect_same(run_plain({"tables", "unseen"}), run_preloaded({"tables", "unseen"}));
  // The race checker would report the same about the kernel as the audit.
  const ProcessResult audited =
      run_program({"tables", "unseen"}, {.preload = {LIBRARY_FILE},
                                         .budget = "",
                                         .environment = {"THERMOCLINE_AUDIT=true", "THERMOCLINE_SIMULATE_CHECK=0"}});
  EXPECT_NE(audited.status, 0);
  const std::string found = "thermocline: audit: not safe: 'follow' (operation ";
  EXPECT_NE(audited.err.find(found), std::string::npos) << audited.err;
  EXPECT_EQ(audited.err.find(found), audited.err.rfind(found)) << "it is said twice: " << audited.err;
  EXPECT_EQ(audited.err.find("audit: safe"), std::string::npos) << audited.err;
}

TEST(Audit, CountsLaunchesOfGraphsAsWhatTheyAre) {
  const ProcessResult audited = run_audited({"tables", "captured"});
  EXPECT_NE(audited.err.find("audit: safe, as far as this run went: 44 launches of 1 kernel, 4 launches of graphs, "),
            std::string::npos)
      << audited.err;
}

TEST(Audit, SaysNothingWhereItHasNotLooked) {
  const ProcessResult audited = run_audited({"copies"});
  EXPECT_NE(audited.err.find("thermocline: audit: nothing to say: "), std::string::npos) << audited.err;
}

}  // namespace
}  // namespace thermocline::test
