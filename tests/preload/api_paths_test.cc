// SPDX-License-Identifier: Apache-2.0
// Small programs, each with one API path to device memory (programs/<kind>/). Each prints the same plain, under the
// library, and with a budget below what it allocates; in order of time and in adversarial orders, with the race checker
// on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

// All programs allocate eight buffers of 4 MiB.
constexpr const char* kBudget = "20MiB";
constexpr std::uint64_t kBudgetBytes = 20 * kMiB;

const std::vector<std::string> kPrograms = {
    "contexts/address_range",
    "contexts/destroyed",
    "contexts/functions_come_again",
    "contexts/memory_info",
    "contexts/pointer_attributes",
    "contexts/primary_beside",
    "contexts/primary_released",
    "contexts/primary_reset",
    "copies/batches",
    "copies/batches_3d",
    "copies/evicted_to_host",
    "copies/layers",
    "copies/peers",
    "copies/ranges",
    "copies/rows",
    "copies/sets",
    "copies/blocked",
    "copies/blocked_elsewhere",
    "copies/blocked_released",
    "copies/values",
    "graphs/captured",
    "graphs/captured_while_others_allocate",
    "graphs/captured_while_others_leave",
    "graphs/captured_with_a_fork",
    "graphs/children",
    "graphs/conditional_nodes",
    "graphs/copy_and_set_nodes",
    "graphs/freed_before_the_launch",
    "graphs/host_nodes",
    "graphs/idle_memory",
    "graphs/value_nodes",
    "graphs/kernel_nodes",
    "graphs/memory_in_capture",
    "graphs/memory_nodes",
    "graphs/memory_while_recording",
    "graphs/copies_to_the_host",
    "graphs/more_than_fits_over_time",
    "graphs/recording_stream_destroyed",
    "graphs/recordings_ended_elsewhere",
    "graphs/recordings_that_end_otherwise",
    "graphs/reused_after_a_graph",
    "graphs/reused_as_a_source",
    "graphs/whole_updates",
    "launches/clusters",
    "launches/cooperative",
    "launches/extra",
    "launches/host_functions",
    "launches/host_function_waits_for_this_thread",
    "launches/kernel_handles",
    "launches/loaded_lazily",
    "launches/modules_come_and_go",
    "launches/parameters",
    "launches/streams",
    "launches/structures",
    "launches/tensor_maps",
    "launches/without_parameters",
    "memory/arrays",
    "memory/exported",
    "memory/freed_at_once",
    "memory/host_mapped",
    "memory/host_registered",
    "memory/in_order",
    "memory/managed",
    "memory/mapped_by_hand",
    "memory/pitched",
    "memory/pool_attributes",
    "memory/pools",
    "memory/shared_with_others",
    "per_thread/batches",
    "per_thread/batches_3d",
    "per_thread/captured",
    "per_thread/clusters",
    "per_thread/cooperative",
    "per_thread/extra",
    "per_thread/in_order",
    "per_thread/layers",
    "per_thread/memory_in_capture",
    "per_thread/pools",
    "per_thread/ranges",
    "per_thread/rows",
    "per_thread/sets",
    "per_thread/values",
    "process/before_main",
    "process/calls_in_callbacks",
    "process/constructor",
    "process/destructors",
    "process/fork_and_end",
    "process/fork_before",
    "process/never_freed",
    "process/thread_ends",
    "process/threads",
    "process/unwinding",
    "resolution/dlopened",
    "resolution/old_dlsym",
    "resolution/per_thread",
    "resolution/plugged",
    "resolution/proc_address",
    "resolution/proc_address_of_cuda_11",
    "resolution/two_runtimes",
};

std::string test_name(const testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  for (char& c : name) c = c == '/' ? '_' : c;
  return name;
}

class ApiPaths : public testing::TestWithParam<std::string> {};

TEST_P(ApiPaths, GiveTheSameBits) { expect_same_bits({"api_paths/" + GetParam()}, kBudget, kBudgetBytes); }

INSTANTIATE_TEST_SUITE_P(Small, ApiPaths, testing::ValuesIn(kPrograms), test_name);

// The exception is dropped, with a line that says so, and the program goes on.
TEST(ApiPathsOfCallbacks, AnExceptionOfTheOutOfMemoryCallbackDoesNotEndTheProgram) {
  const std::vector<std::string> program = {"api_paths/process/throwing_callback"};
  const ProcessResult plain = run_plain(program);
  for (const char* const budget : {"", kBudget}) {
    const ProcessResult preloaded = run_preloaded(program, budget);
    expect_same(plain, preloaded);
    EXPECT_NE(preloaded.err.find("out-of-memory callback threw an exception, which is dropped"), std::string::npos)
        << preloaded.err;
    EXPECT_EQ(statistic(preloaded, "oom_reports"), 2u);
  }
}

TEST(ApiPathsOfValues, WordsKeepNothingOnTheDevice) {
  const ProcessResult squeezed = run_preloaded({"api_paths/copies/values", "unfreed"}, kBudget);
  EXPECT_EQ(squeezed.status, 0) << squeezed.err;
  EXPECT_EQ(statistic(squeezed, "pinned_buffers"), 0u);
  EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
}

// The program itself could be the one that writes the value, so its call must return.
TEST(ApiPathsOfValues, WhatOnlyBlockedStreamsHoldIsOutOfMemoryInTheEnd) {
  const std::vector<std::string> program = {"api_paths/copies/blocked_on_all"};
  const std::string told = "working, parameters, NULL): ";
  const ProcessResult plain = run_plain(program);
  EXPECT_EQ(plain.status, 0) << plain.err;
  EXPECT_NE(plain.out.find(told + "0\n"), std::string::npos) << plain.out;
  const ProcessResult squeezed = run_preloaded(program, kBudget);
  EXPECT_EQ(squeezed.status, 0) << squeezed.err;
  EXPECT_NE(squeezed.out.find(told + "2\n"), std::string::npos) << squeezed.out;
  EXPECT_NE(squeezed.err.find("streams that wait for values or host functions"), std::string::npos) << squeezed.err;
}

class RuntimeApiPaths : public testing::TestWithParam<std::string> {};

TEST_P(RuntimeApiPaths, GiveTheSameBits) {
  if (!HAS_CUDA_PROGRAMS) GTEST_SKIP() << "nvcc was not found";
  expect_same_bits({"api_paths/" + GetParam()}, kBudget, kBudgetBytes);
}

INSTANTIATE_TEST_SUITE_P(Small, RuntimeApiPaths,
                         testing::Values("runtime/arrays", "runtime/batches", "runtime/entry_points",
                                         "runtime/graph_nodes", "runtime/resets", "runtime/thrust"),
                         test_name);

// Mixing does not hash undefined bytes of a call: padding, and structures without members.
TEST(RuntimeApiPaths, ThrustPrintsTheSameInEveryRun) {
  if (!HAS_CUDA_PROGRAMS) GTEST_SKIP() << "nvcc was not found";
  const ProcessResult first = run_plain({"api_paths/runtime/thrust"});
  for (int i = 0; i < 3; ++i) expect_same(first, run_plain({"api_paths/runtime/thrust"}));
}

// The plugin is linked with the driver and finds that before the library, so nobody sees what it does: it runs as
// without the library, which reports that at the end.
TEST(ApiPaths, PluginThatSeesItsOwnSymbolsFirstRunsAsWithoutTheLibraryAndIsNamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers refuse RTLD_DEEPBIND";
#endif
  const std::vector<std::string> arguments = {"api_paths/resolution/plugged", "deep"};
  const ProcessResult result = run_preloaded(arguments, kBudget);
  expect_same(run_plain(arguments), result);
  const std::string said =
      "thermocline: the driver was called past the library by libplugin.so (linked with the driver): ";
  EXPECT_NE(result.err.find(said), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("thermocline: ", result.err.find(said) + 1), std::string::npos) << result.err;
}

// Calls that pass the library, in addition to a program that is seen.
TEST(ApiPaths, WhoCallsTheDriverPastTheLibraryIsCounted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers refuse RTLD_DEEPBIND";
#endif
  const ProcessResult seen = run_preloaded({"api_paths/resolution/plugged", "deep", "and itself"});
  expect_same(run_plain({"api_paths/resolution/plugged", "deep", "and itself"}), seen);
  EXPECT_EQ(statistic(seen, "bypassing_libraries"), 1u);
  EXPECT_EQ(statistic(run_preloaded({"api_paths/resolution/plugged"}), "bypassing_libraries"), 0u);
}

TEST(ApiPaths, DriverOpenedWithItsOwnSymbolsFirstIsSeen) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers refuse RTLD_DEEPBIND";
#endif
  expect_same_bits({"api_paths/resolution/dlopened_deep"}, kBudget, kBudgetBytes);
}

TEST(ApiPaths, WhatOthersHoldOutlivesTheLastReleaseThatIsSeen) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers refuse RTLD_DEEPBIND";
#endif
  const std::vector<std::string> arguments = {"api_paths/contexts/primary_held_unseen"};
  const ProcessResult plain = run_plain(arguments);
  for (const std::uint64_t order : orders()) {
    const ProcessResult result = run_preloaded(arguments, kBudget, order);
    expect_same(plain, result);
    EXPECT_GT(statistic(result, "restored_bytes"), 0u);
  }
}

// The library leaves the memory of a second context to the driver, and says so.
TEST(ApiPaths, SecondContextComputesTheSame) {
  const std::vector<std::string> arguments = {"api_paths/contexts/two"};
  const ProcessResult plain = run_plain(arguments);
  for (const char* budget : {"", kBudget}) {
    const ProcessResult result = run_preloaded(arguments, budget);
    expect_same(plain, result);
    EXPECT_GT(statistic(result, "other_contexts"), 0u);
  }
}

// The device has 24 of the 33 MiB that the program allocates, and arrays are the driver's memory.
TEST(ApiPaths, ArraysFindRoomOnADeviceThatIsFull) {
  const std::vector<std::string> arguments = {"api_paths/memory/arrays"};
  const ProcessResult result = run_program(
      arguments,
      {.preload = {LIBRARY_FILE}, .budget = "", .environment = {"THERMOCLINE_SIMULATE_MEMORY_BYTES=25165824"}});
  expect_same(run_plain(arguments), result);
  EXPECT_GT(statistic(result, "evicted_bytes"), 0u);
}

// On a device of 28 MiB, of which other processes hold 4, the program's buffers of 32 MiB and the code of its five
// kernels take turns: whatever the driver needs memory for gets it, with a budget of the whole device and with the
// default budget.
TEST(ApiPaths, WhatTheDriverTakesForItselfFindsRoomOnADeviceThatIsFull) {
  const std::vector<std::string> arguments = {"api_paths/launches/loaded_lazily"};
  const ProcessResult plain = run_plain(arguments);
  EXPECT_EQ(plain.status, 0) << plain.err;
  for (const char* budget : {"28MiB", ""}) {
    const ProcessResult result = run_program(arguments, {.preload = {LIBRARY_FILE},
                                                         .budget = budget,
                                                         .order = 0,
                                                         .environment = {"THERMOCLINE_SIMULATE_MEMORY_BYTES=29360128",
                                                                         "THERMOCLINE_SIMULATE_OTHERS_BYTES=4194304",
                                                                         "THERMOCLINE_SIMULATE_LAZY_LOADING=2097152"}});
    expect_same(plain, result);
    EXPECT_GT(statistic(result, "evicted_bytes"), 0u);
  }
}

// The budget is what is free when the program begins, minus a 64th of the device.
TEST(ApiPaths, TheBudgetIsWhatIsFreeWhereNoneIsSet) {
  const ProcessResult result = run_program(
      {"api_paths/launches/parameters"},
      {.preload = {LIBRARY_FILE},
       .budget = "",
       .order = 0,
       .environment = {"THERMOCLINE_SIMULATE_MEMORY_BYTES=134217728", "THERMOCLINE_SIMULATE_OTHERS_BYTES=67108864"}});
  EXPECT_EQ(statistic(result, "budget_bytes"), 62 * kMiB);
}

// The driver returns out of memory once, at each of these calls: they are repeated, and the program does not notice.
TEST(ApiPaths, CallsThatTheDriverHasNoMemoryForAreMadeAgain) {
  const std::vector<std::string> arguments = {"api_paths/launches/loaded_lazily"};
  const ProcessResult plain = run_plain(arguments);
  for (const char* call : {"cuLibraryLoadData call 1", "cuModuleLoadData call 2", "cuCtxSetLimit call 1",
                           "cuStreamCreateWithPriority call 1", "cuMemAllocManaged call 1"}) {
    const std::string plan = std::string("THERMOCLINE_SIMULATE_FAULTS=fail ") + call + " OUT_OF_MEMORY";
    const ProcessResult result =
        run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = kBudget, .order = 0, .environment = {plan}});
    expect_same(plain, result);
    EXPECT_NE(result.err.find("simulated device: fault: "), std::string::npos) << plan << result.err;
  }
}

// The library queries the primary context before each release, with the third and the fourth call.
TEST(ApiPaths, ThePrimaryContextEndsWhereItCanNotBeAskedFor) {
  const std::vector<std::string> arguments = {"api_paths/contexts/primary_released"};
  const ProcessResult plain = run_plain(arguments);
  const ProcessResult result = run_program(
      arguments, {.preload = {LIBRARY_FILE},
                  .budget = kBudget,
                  .order = 0,
                  .environment = {"THERMOCLINE_SIMULATE_FAULTS=fail cuDevicePrimaryCtxRetain call 3 "
                                  "INVALID_CONTEXT; fail cuDevicePrimaryCtxRetain call 4 INVALID_CONTEXT"}});
  expect_same(plain, result);
}

// While a stream captures, nobody may wait for unseen accesses, and freed memory stays allocated until somebody does.
// If no stream captures any more, only the program's eight buffers are live.
TEST(ApiPaths, RecordingsEndHoweverTheyEnd) {
  for (const char* program :
       {"api_paths/graphs/recording_stream_destroyed", "api_paths/graphs/recordings_ended_elsewhere"}) {
    const ProcessResult result = run_preloaded({program}, kBudget);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(statistic(result, "peak_live_bytes"), 32 * kMiB) << program;
  }
}

// The simulated device's report of memory that was never released at the end; empty: none.
std::string never_released(const ProcessResult& result) {
  const std::size_t at = result.err.find("never released");
  return at == std::string::npos ? "" : result.err.substr(at, result.err.find('\n', at) - at);
}

// Pinned memory, addresses and pages belong to no context: the library releases them before the last release of it,
// which may be a green context's end.
TEST(ApiPaths, WhatTheLibraryHoldsGoesBeforeThePrimaryContext) {
  for (const char* program : {"api_paths/contexts/primary_released", "api_paths/contexts/green"}) {
    const ProcessResult plain = run_plain({program});
    for (const std::uint64_t order : orders()) {
      const ProcessResult result = run_preloaded({program}, kBudget, order);
      expect_same(plain, result);
      EXPECT_GT(statistic(result, "evicted_bytes"), 0u);
      EXPECT_EQ(never_released(result), never_released(plain));
    }
  }
}

// "Invalid value" ends the list of a function's parameters. If it comes for the first parameter, from a driver that has
// returned none yet or no longer returns those that it returned before, or if the next answer differs, everything may
// be accessed.
TEST(ApiPaths, AnEndOfTheParametersThatIsNotOneIsNotBelieved) {
  const std::vector<std::string> arguments = {"api_paths/launches/parameters"};
  const ProcessResult plain = run_plain(arguments);
  const std::string fail = "THERMOCLINE_SIMULATE_FAULTS=fail cuFuncGetParamInfo ";
  for (const char* calls : {"from 1", "call 1", "call 2"}) {
    const std::string plan = fail + calls + " INVALID_VALUE";
    const ProcessResult roomy =
        run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = "", .order = 0, .environment = {plan}});
    expect_same(plain, roomy);
    EXPECT_GT(statistic(roomy, "unknown_launches"), 0u) << plan;
    // All eight buffers exceed the budget: out of memory, and never wrong bytes.
    const ProcessResult squeezed =
        run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = kBudget, .order = 0, .environment = {plan}});
    EXPECT_EQ(squeezed.status, 2) << squeezed.out;
    EXPECT_NE(squeezed.err.find("program: 2 from cuLaunchKernel"), std::string::npos) << squeezed.err;
  }
}

TEST(ApiPaths, ADriverThatNoLongerTellsParametersIsNotBelievedThatThereAreNone) {
  const std::vector<std::string> arguments = {"api_paths/launches/structures"};
  const std::string plan = "THERMOCLINE_SIMULATE_FAULTS=fail cuFuncGetParamInfo from 5 INVALID_VALUE";
  const ProcessResult roomy =
      run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = "", .order = 0, .environment = {plan}});
  expect_same(run_plain(arguments), roomy);
  EXPECT_GT(statistic(roomy, "unknown_launches"), 0u);
}

// If every launch would access everything, nothing is evicted, and that is logged once.
TEST(ApiPaths, NothingIsEvictedUnderADriverThatDoesNotTellParameters) {
  const std::string old = "THERMOCLINE_SIMULATE_FAULTS=driver-version 12.3";
  const std::vector<std::string> arguments = {"api_paths/launches/parameters"};
  const ProcessResult roomy =
      run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = "", .order = 0, .environment = {old}});
  expect_same(run_plain(arguments), roomy);
  EXPECT_NE(roomy.err.find("the driver does not tell what kernels are given"), std::string::npos) << roomy.err;
  const ProcessResult squeezed =
      run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = kBudget, .order = 0, .environment = {old}});
  EXPECT_EQ(squeezed.status, 2) << squeezed.out;
  EXPECT_NE(squeezed.err.find("program: 2 from cuMemAlloc"), std::string::npos) << squeezed.err;
  EXPECT_EQ(statistic(squeezed, "evicted_bytes"), 0u);
}

// The program gets CUDA's errors for that, and no graph; what it captures next is complete. Also if the driver does not
// invalidate the capture when the library makes it do so.
TEST(ApiPaths, WhatIsRefusedWhileRecordingLeavesNoGraph) {
  const std::string expected =
      "copy: 2\nstate 2\nend: 901\ngraph: 0\n"
      "forked: 2\nstate 2\njoined: 901 901\nend: 901\ngraph: 0\n"
      "whole: 0\nstate 1\nend: 0\ngraph: 1\n";
  const std::vector<std::string> arguments = {"api_paths/graphs/refused_while_recording"};
  const ProcessResult plain = run_plain(arguments);
  const std::string buffers = plain.out.substr(plain.out.find("buffer "));
  for (const std::uint64_t order : orders()) {
    const ProcessResult result = run_preloaded(arguments, kBudget, order);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, expected + buffers);
  }
  // A driver that does not invalidate; and one that, besides, does not tell a capture's id when it begins.
  const std::string does_not_invalidate =
      "THERMOCLINE_SIMULATE_FAULTS=fail cuStreamQuery call 1 INVALID_CONTEXT; "
      "fail cuStreamQuery call 2 INVALID_CONTEXT";
  for (const char* const more : {"", "; fail cuStreamGetCaptureInfo call 1 INVALID_VALUE"}) {
    const ProcessResult stubborn = run_program(
        arguments, {.preload = {LIBRARY_FILE}, .budget = kBudget, .environment = {does_not_invalidate + more}});
    EXPECT_EQ(stubborn.status, 0) << stubborn.err;
    EXPECT_EQ(stubborn.out,
              "copy: 2\nstate 1\nend: 901\ngraph: 0\n"
              "forked: 2\nstate 1\njoined: 0 0\nend: 901\ngraph: 0\n"
              "whole: 0\nstate 1\nend: 0\ngraph: 1\n" +
                  buffers);
  }
}

// All but two of the buffers that each graph names may be evicted between launches, and nothing is pinned.
TEST(ApiPaths, GraphsHoldNothingBetweenTheirLaunches) {
  const std::vector<std::string> arguments = {"api_paths/graphs/more_than_fits_over_time"};
  const ProcessResult plain = run_plain(arguments);
  const ProcessResult squeezed = run_preloaded(arguments, "13MiB");
  expect_same(plain, squeezed);
  EXPECT_EQ(statistic(squeezed, "oom_reports"), 0u);
  EXPECT_EQ(statistic(squeezed, "pinned_buffers"), 0u);
  EXPECT_EQ(statistic(squeezed, "unknown_launches"), 0u);
}

// The report gives the requirement of the whole graph, and the advice can be followed.
// A launch accesses everything that is live.
TEST(ApiPaths, NodesThatTheDeviceChangesFindWhatIsLive) {
  const std::vector<std::string> arguments = {"api_paths/graphs/device_updatable"};
  const ProcessResult plain = run_plain(arguments);
  for (const std::uint64_t order : orders()) {
    const ProcessResult result = run_program(arguments, {.preload = {LIBRARY_FILE},
                                                         .budget = kBudget,
                                                         .order = order,
                                                         .environment = {"THERMOCLINE_HOST_FALLBACK=off"}});
    expect_same(plain, result);
    EXPECT_GT(statistic(result, "evicted_bytes"), 0u);
    EXPECT_EQ(statistic(result, "unknown_launches"), 4u);
  }
}

// Sanitizers unwind threads in their own way.
bool sanitizers_unwind() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

TEST(ApiPaths, ThreadsWithLittleStackComputeTheSame) {
  if (sanitizers_unwind()) GTEST_SKIP() << "sanitizers need stack of their own";
  expect_same_bits({"api_paths/process/little_stack"}, kBudget, kBudgetBytes);
}

TEST(ApiPaths, HandlersOnLittleSignalStacksComputeTheSame) {
  if (sanitizers_unwind()) GTEST_SKIP() << "sanitizers need stack of their own";
  expect_same_bits({"api_paths/process/little_signal_stack"}, kBudget, kBudgetBytes);
}

TEST(ApiPaths, CancelledThreadsLeaveTheRestAsItWas) {
  if (sanitizers_unwind()) GTEST_SKIP() << "under a sanitizer threads are not cancelled";
  expect_same_bits({"api_paths/process/cancelled"}, kBudget, kBudgetBytes);
}

// The message about it is complete, and no thread is unwound inside the library.
TEST(ApiPaths, ThreadsAreCancelledWhileTheyAreRefusedMemory) {
  if (sanitizers_unwind()) GTEST_SKIP() << "under a sanitizer threads are not cancelled";
  const std::vector<std::string> arguments = {"api_paths/process/cancelled", "too much"};
  const ProcessResult plain = run_plain(arguments);
  for (const char* budget : {"", kBudget}) {
    const ProcessResult result = run_preloaded(arguments, budget);
    expect_same(plain, result);
    EXPECT_NE(result.err.find("out of memory"), std::string::npos) << result.err;
  }
}

TEST(ApiPaths, SecondContextDoesNotEndTheFirstOnesRecording) {
  const std::vector<std::string> arguments = {"api_paths/contexts/two_while_recording"};
  const ProcessResult plain = run_plain(arguments);
  EXPECT_EQ(plain.status, 0) << plain.err;
  for (const char* budget : {"", kBudget}) expect_same(plain, run_preloaded(arguments, budget));
}

TEST(ApiPaths, ProcessThatEndsWithoutDestructorsComputesTheSame) {
  const std::vector<std::string> arguments = {"api_paths/process/quick_end"};
  const ProcessResult plain = run_plain(arguments);
  expect_same(plain, run_preloaded(arguments));
  expect_same(plain, run_preloaded(arguments, kBudget));
}

TEST(ApiPaths, ProcessThatEndsInASignalsHandlerInsideTheDriverEnds) {
  const std::vector<std::string> arguments = {"api_paths/process/ends_in_a_signal", "driver"};
  EXPECT_EQ(run_plain(arguments).status, 3);
  for (const char* budget : {"", kBudget}) EXPECT_EQ(run_preloaded(arguments, budget).status, 3);
}

TEST(ApiPaths, ProcessThatEndsInASignalsHandlerInsideItsRecordingEnds) {
  const std::string file = testing::TempDir() + "ends_in_a_signal_" + std::to_string(getpid()) + ".trace";
  const ProcessResult result =
      run_program({"api_paths/process/ends_in_a_signal", "recording"},
                  {.preload = {LIBRARY_FILE},
                   .budget = "",
                   .environment = {"THERMOCLINE_RECORD=" + file, "THERMOCLINE_RECORD_LIMIT=65536"}});
  EXPECT_EQ(result.status, 3) << result.err;
  EXPECT_NE(result.err.find("the end of the recording is lost"), std::string::npos) << result.err;
  static_cast<void>(std::remove(file.c_str()));
}

// Two processes with the same environment, each with the budget.
TEST(ApiPaths, ChildrenThatBecomeProgramsComputeTheSame) {
  const std::vector<std::string> arguments = {"api_paths/process/fork_and_execute"};
  const ProcessResult plain = run_plain(arguments);
  expect_same(plain, run_preloaded(arguments));
  expect_same(plain, run_preloaded(arguments, kBudget));
}

// Each process under the library ends with a line of statistics.
TEST(ApiPaths, ChildrenCanBeLeftAlone) {
  const auto processes_with = [](const std::string& children) {
    const ProcessResult result = run_program(
        {"api_paths/process/fork_and_execute"},
        {.preload = {LIBRARY_FILE}, .budget = kBudget, .environment = {"THERMOCLINE_CHILDREN=" + children}});
    EXPECT_EQ(result.status, 0) << result.err;
    std::size_t count = 0;
    for (std::size_t at = 0; (at = result.err.find("peak_live_bytes=", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(processes_with("true"), 2u);
  EXPECT_EQ(processes_with("false"), 1u);
}

// Another malloc, which calls dlsym inside an allocation, loaded before the library and after it.
TEST(ApiPaths, AnotherMallocInFrontOrBehindDoesNoHarm) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers bring a malloc of their own";
#endif
  for (const char* program :
       {"launches/parameters", "resolution/dlopened", "process/threads", "process/fork_and_end"}) {
    const std::vector<std::string> arguments = {std::string("api_paths/") + program};
    const ProcessResult plain = run_plain(arguments);
    for (const bool in_front : {true, false}) {
      std::vector<std::string> preload = {LIBRARY_FILE, ALLOCATOR_FILE};
      if (in_front) std::swap(preload[0], preload[1]);
      const ProcessResult result = run_program(arguments, {.preload = preload, .budget = kBudget, .environment = {}});
      expect_same(plain, result);
      EXPECT_GT(statistic(result, "evicted_bytes"), 0u);
    }
  }
}

// The buffer that contains them does not fit together with the program's own memory; what they name does.
TEST(ApiPaths, NodesNeedRoomForWhatTheyNameAlone) {
  constexpr std::uint64_t kRoom = 96 * kMiB;
  expect_same_bits({"api_paths/graphs/parts_of_large_buffers"}, "96MiB", kRoom);
}

}  // namespace
}  // namespace thermocline::test
