// SPDX-License-Identifier: Apache-2.0
// Programs in which one thread waits in a call until another has continued: nothing that the other needs may be locked
// meanwhile. A program that hangs is ended by a signal.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/preload/running.h"

namespace thermocline::test {
namespace {

constexpr const char* kBudget = "24MiB";

std::string api_path(const std::string& program) {
  std::string path = "api_paths/";
  path += program;
  return path;
}

void expect_that_nobody_is_kept_waiting(const std::string& program) {
  const std::vector<std::string> arguments = {api_path(program)};
  const ProcessResult plain = run_plain(arguments);
  EXPECT_EQ(plain.status, 0) << plain.err;
  for (const char* budget : {"", kBudget}) {
    for (const std::uint64_t order : orders()) expect_same(plain, run_preloaded(arguments, budget, order));
  }
}

TEST(Waiting, WhoDestroysAContextKeepsNobodyWaiting) {
  expect_that_nobody_is_kept_waiting("contexts/destroyed_while_blocked");
}

TEST(Waiting, WhoFreesABufferThatOthersUseUnseenKeepsNobodyWaiting) {
  expect_that_nobody_is_kept_waiting("memory/freed_while_blocked");
}

// A launch into a full queue waits in the driver.
TEST(Waiting, WhoFillsAStreamsQueueKeepsNobodyWaiting) { expect_that_nobody_is_kept_waiting("launches/full_queue"); }

// Equivalent to a wait: while a stream captures, nobody may wait for the context.
TEST(Waiting, ABufferUnderATextureOutlivesItsReadersWhileAStreamRecords) {
  expect_that_nobody_is_kept_waiting("memory/freed_under_a_texture");
}

// Only real kernels read what is in a texture, and notice that one is gone.
std::vector<ProcessResult> expect_same_of_real_kernels(const std::vector<std::string>& arguments, std::string budget) {
  Running running;
  running.environment = {"THERMOCLINE_SIMULATE_KERNELS=real"};
  const ProcessResult plain = run_program(arguments, running);
  EXPECT_EQ(plain.status, 0) << plain.err;
  running.preload = {LIBRARY_FILE};
  running.budget = std::move(budget);
  std::vector<ProcessResult> all;
  for (const std::uint64_t order : orders()) {
    running.order = order;
    expect_same(plain, all.emplace_back(run_program(arguments, running)));
  }
  return all;
}

TEST(Waiting, ATextureOutlivesItsReadersWhileAStreamRecords) {
  if (!HAS_PTX) GTEST_SKIP() << "this build runs no PTX";
  expect_same_of_real_kernels({api_path("memory/freed_under_a_texture")}, "");
  expect_same_of_real_kernels({api_path("memory/freed_under_a_texture"), "behind_host_functions"}, "");
}

TEST(Waiting, WhatATextureReadsIsBackWhenTheTextureIsCreated) {
  if (!HAS_PTX) GTEST_SKIP() << "this build runs no PTX";
  for (const ProcessResult& run : expect_same_of_real_kernels({api_path("memory/evicted_under_a_texture")}, "20MiB")) {
    EXPECT_GT(statistic(run, "restored_bytes"), 0u);
  }
}

TEST(Waiting, WhoMakesATextureDoesNotWaitForWhatIsBesideIt) {
  expect_that_nobody_is_kept_waiting("memory/texture_beside_what_is_blocked");
}

TEST(Waiting, ATextureIsDestroyedInItsContext) {
  expect_that_nobody_is_kept_waiting("contexts/texture_destroyed_from_another");
}

TEST(Waiting, WhoEndsTheProcessDoesNotWaitForThreadsThatStayInTheDriver) {
  const std::vector<std::string> arguments = {api_path("process/ends_in_a_signal"), "others"};
  EXPECT_EQ(run_plain(arguments).status, 3);
  for (int run = 0; run < 4; ++run) {
    const ProcessResult result = run_preloaded(arguments, kBudget);
    EXPECT_EQ(result.status, 3) << result.err;
  }
}

// Memory that could not be waited for is not reused, and still exists when its context ends.
TEST(Waiting, MemoryStaysWhereTheDriverDoesNotWait) {
  const std::vector<std::string> arguments = {api_path("contexts/wait_refused")};
  const std::string destroyed = "cuCtxDestroy(doomed): 0\n";
  for (const std::uint64_t order : orders()) {
    const ProcessResult result = run_program(
        arguments, {.preload = {LIBRARY_FILE},
                    .budget = "",
                    .order = order,
                    .environment = {"THERMOCLINE_SIMULATE_FAULTS=fail cuCtxSynchronize from 1 INVALID_VALUE"}});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find("cuMemFree(under): 1\n"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find(destroyed), std::string::npos) << result.out;
  }
}

// Each of the fault plans makes another wait fail, one of them the one behind a copy that uses memory of another context.
// That memory stays what it is: its free fails with the driver's error, and succeeds later.
void expect_that_memory_stays(const std::vector<std::string>& arguments, const std::vector<std::string>& plans) {
  const std::string devices = "THERMOCLINE_SIMULATE_DEVICES=2";
  // On one device, whose driver waits by itself.
  const ProcessResult plain = run_plain({arguments.front()});
  for (const std::uint64_t order : orders()) {
    int kept = 0;
    for (const std::string& plan : plans) {
      const ProcessResult result =
          run_program(arguments, {.preload = {LIBRARY_FILE},
                                  .budget = "",
                                  .order = order,
                                  .environment = {devices, "THERMOCLINE_SIMULATE_FAULTS=" + plan +
                                                               "; fail cuCtxSynchronize call 2 INVALID_CONTEXT"}});
      const std::string where = plan + ", order " + std::to_string(order) + "\n" + result.err;
      EXPECT_NE(result.err.find("simulated device: races=0\n"), std::string::npos) << where;
      // The fault may be one that the program sees.
      if (result.status != 0 || result.out.find("copied: 0\n") == std::string::npos) continue;
      EXPECT_EQ(result.out.substr(result.out.find("theirs")), plain.out.substr(plain.out.find("theirs"))) << where;
      kept += result.out.find("freed: 201\nfreed: 0\n") != std::string::npos ? 1 : 0;
    }
    EXPECT_GE(kept, 1) << "in order " << order;
  }
}

TEST(Waiting, MemoryStaysWhereTheWaitForAnotherContextFails) {
  std::vector<std::string> plans;
  for (int n = 5; n <= 9; ++n)
    plans.push_back("fail cuStreamSynchronize call " + std::to_string(n) + " INVALID_HANDLE");
  expect_that_memory_stays({api_path("contexts/used_from_another")}, plans);
}

// The memory's engine can not follow the other device's stream, and the host can not wait for it.
TEST(Waiting, MemoryStaysWhereTheWaitForAnotherDeviceFails) {
  std::vector<std::string> plans;
  // The first is a probe's, without which the library stands aside.
  for (int n = 2; n <= 20; ++n) {
    plans.push_back("fail cuStreamSynchronize from 11 INVALID_HANDLE; fail cuEventRecord call " + std::to_string(n) +
                    " INVALID_HANDLE");
  }
  expect_that_memory_stays({api_path("contexts/used_from_another"), "on another device"}, plans);
}

// Memory that the driver reads before its call returns has to be there by then.
TEST(Waiting, SourcesAreNotReadWhereTheWaitForThemFails) {
  const std::vector<std::string> arguments = {api_path("copies/batches")};
  const ProcessResult plain = run_plain(arguments);
  int refused = 0;
  for (int n = 14; n <= 26; ++n) {
    const std::string plan = "fail cuStreamSynchronize call " + std::to_string(n) + " INVALID_HANDLE";
    const ProcessResult result = run_program(arguments, {.preload = {LIBRARY_FILE},
                                                         .budget = "20MiB",
                                                         .order = 0,
                                                         .environment = {"THERMOCLINE_SIMULATE_FAULTS=" + plan}});
    EXPECT_NE(result.err.find("simulated device: races=0\n"), std::string::npos) << plan << '\n' << result.err;
    if (result.status == 0) {
      EXPECT_EQ(result.out, plain.out) << plan;
    }
    refused += result.err.find("program: 400 from cuMemcpyBatchAsync") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(refused, 0) << "one of the waits is that one";
}

TEST(Waiting, AWatchedBufferIsRefusedWhereItsPatternIsNotWaitedFor) {
  int refused = 0;
  for (int n = 5; n <= 8; ++n) {
    const std::string plan = "fail cuStreamSynchronize call " + std::to_string(n) + " INVALID_HANDLE";
    const ProcessResult result =
        run_program({api_path("copies/ranges")},
                    {.preload = {LIBRARY_FILE},
                     .budget = "",
                     .order = 0,
                     .environment = {"THERMOCLINE_SIMULATE_FAULTS=" + plan, "THERMOCLINE_DEBUG=guard"}});
    refused += result.err.find("program: 400 from cuMemAlloc") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(refused, 0) << "one of the waits is that one";
}

}  // namespace
}  // namespace thermocline::test
