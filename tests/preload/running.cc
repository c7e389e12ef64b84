// SPDX-License-Identifier: Apache-2.0
#include "tests/preload/running.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/support/seeds.h"

namespace thermocline::test {
namespace {

// A program that ends early because a call failed does not join the library's threads.
const std::string kTsanOptions = "TSAN_OPTIONS=handle_segv=0:report_thread_leaks=0";

// Under sanitizers, where each run takes ten times as long, less is tested.
bool has_time() { return percent_of_seeds() >= 100; }

void expect_that_nothing_moves(const std::vector<std::string>& arguments, const ProcessResult& plain) {
  const ProcessResult fits = run_preloaded(arguments);
  expect_same(plain, fits);
  // Only the requested output is printed.
  EXPECT_EQ(fits.err.find("thermocline: "), fits.err.find("thermocline: peak_live_bytes=")) << fits.err;
  EXPECT_EQ(statistic(fits, "evicted_bytes"), 0u);
  EXPECT_GT(statistic(fits, "allocations"), 0u);
}

}  // namespace

ProcessResult run_program(const std::vector<std::string>& arguments, const Running& running) {
  std::vector<std::string> environment = {
      "LD_LIBRARY_PATH=" SIMULATOR_FOLDER,
      "THERMOCLINE_SIMULATE_DEVICE=reference",
      // The simulated device's kernels mix the buffers that are registered through NVTX.
      "NVTX_INJECTION64_PATH=" SIMULATOR_FOLDER "/libcuda.so.1",
      "THERMOCLINE_NVTX=true",
      "THERMOCLINE_STATS=line",
      // A slow machine must not look like an idle program.
      "THERMOCLINE_IDLE_AFTER=off",
      "THERMOCLINE_SIMULATE_CHECK=1",
      "THERMOCLINE_TEST_LOCKS=1",
      "ASAN_OPTIONS=verify_asan_link_order=0:handle_segv=0:detect_leaks=0",
      kTsanOptions,
  };
  const auto is_about = [&](const char* subject) {
    return std::any_of(arguments.begin(), arguments.end(),
                       [&](const std::string& argument) { return argument.find(subject) != std::string::npos; });
  };
  // In a fork jemalloc takes all of its locks, more than the 64 in one thread that the thread sanitizer's deadlock
  // detector can count. These programs fork.
  for (const char* forks :
       {"fork", "exported", "between_processes", "runtime/shared", "contexts/destroyed_while_blocked"}) {
    if (is_about(forks)) environment.push_back(kTsanOptions + ":detect_deadlocks=0");
  }
  // Ending in a signal handler is unsafe, and is what these programs test. The program must make sure that no other
  // thread interferes with the statistics then (docs/compatibility.md).
  if (is_about("ends_in_a_signal")) environment.push_back(kTsanOptions + ":report_signal_unsafe=0:detect_deadlocks=0");
  if (is_about("devices/")) environment.emplace_back("THERMOCLINE_SIMULATE_DEVICES=2");
  // Two copies of a library have two of each variable.
  if (is_about("two_runtimes")) {
    environment.emplace_back(
        "ASAN_OPTIONS=verify_asan_link_order=0:handle_segv=0:detect_leaks=0:detect_odr_violation=0");
  }
  std::string preload;
  for (const std::string& library : running.preload) preload += (preload.empty() ? "" : ":") + library;
  if (!preload.empty()) environment.push_back("LD_PRELOAD=" + preload);
  if (!running.budget.empty()) environment.push_back("THERMOCLINE_BUDGET=" + running.budget);
  if (running.order != 0) environment.push_back("THERMOCLINE_SIMULATE_SEED=" + std::to_string(running.order));
  environment.insert(environment.end(), running.environment.begin(), running.environment.end());
  std::vector<std::string> command = arguments;
  command[0] = PROGRAM_FOLDER "/" + command[0];
  ProcessResult result = run_process(command, environment);
  EXPECT_EQ(result.err.find("simulated device: race: "), std::string::npos) << result.err;
  return result;
}

ProcessResult run_plain(const std::vector<std::string>& arguments) { return run_program(arguments, {}); }

ProcessResult run_preloaded(const std::vector<std::string>& arguments, const std::string& budget, std::uint64_t order) {
  return run_program(arguments, {.preload = {LIBRARY_FILE}, .budget = budget, .order = order, .environment = {}});
}

std::uint64_t statistic(const ProcessResult& result, const std::string& name) {
  const std::string wanted = " " + name + "=";
  const std::size_t line = result.err.find("thermocline: peak_live_bytes=");
  const std::size_t at = line == std::string::npos ? line : result.err.find(wanted, line);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no " << name << " in: " << result.err;
    return 0;
  }
  return std::strtoull(result.err.c_str() + at + wanted.size(), nullptr, 10);
}

void expect_same(const ProcessResult& plain, const ProcessResult& other) {
  EXPECT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(other.status, plain.status) << other.err;
  EXPECT_EQ(other.out, plain.out) << other.err;
  EXPECT_FALSE(plain.out.empty());
}

std::vector<std::uint64_t> orders() {
  if (!has_time()) return {1};
  return {0, 1, 2};
}

namespace {

// The order of submission, and one of two others, by the program's name; in a long search both.
std::vector<std::uint64_t> orders_of(const std::vector<std::string>& arguments) {
  if (percent_of_seeds() != 100) return orders();
  std::uint64_t letters = 0;
  for (const std::string& argument : arguments) {
    for (const char letter : argument) letters += static_cast<unsigned char>(letter);
  }
  return {0, 1 + letters % 2};
}

}  // namespace

void expect_same_bits(const std::vector<std::string>& arguments, const std::string& budget,
                      std::uint64_t budget_bytes) {
  const ProcessResult plain = run_plain(arguments);
  if (has_time()) expect_that_nothing_moves(arguments, plain);
  for (const std::uint64_t order : orders_of(arguments)) {
    const ProcessResult squeezed = run_preloaded(arguments, budget, order);
    expect_same(plain, squeezed);
    EXPECT_GT(statistic(squeezed, "evicted_bytes"), 0u);
    // Contents that are only copied to the host are served from their host copy.
    EXPECT_GT(statistic(squeezed, "restored_bytes") + statistic(squeezed, "host_reads"), 0u);
    EXPECT_LE(statistic(squeezed, "peak_device_bytes"), budget_bytes);
    EXPECT_EQ(statistic(squeezed, "unknown_launches"), 0u);
  }
}

}  // namespace thermocline::test
