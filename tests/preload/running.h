// SPDX-License-Identifier: Apache-2.0
// Runs the programs of this folder: plain on the simulated device, or with the library preloaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/subprocess.h"

namespace thermocline::test {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct Running {
  std::vector<std::string> preload;  // libraries, in order
  std::string budget;                // empty: all of the device
  std::uint64_t order = 0;           // the simulator's seed; 0: order of time
  std::vector<std::string> environment;
};

ProcessResult run_program(const std::vector<std::string>& arguments, const Running& running);
ProcessResult run_plain(const std::vector<std::string>& arguments);
ProcessResult run_preloaded(const std::vector<std::string>& arguments, const std::string& budget = "",
                            std::uint64_t order = 0);

void expect_same(const ProcessResult& plain, const ProcessResult& other);
// Order of time and adversarial orders; only one adversarial order if fewer seeds are requested, as under sanitizers.
std::vector<std::uint64_t> orders();
// The complete guarantee for one program: it prints the same plain, under the library, and with a budget that forces
// evictions and fetches.
void expect_same_bits(const std::vector<std::string>& arguments, const std::string& budget, std::uint64_t budget_bytes);

// A field of the line of statistics; the test fails if it does not exist.
std::uint64_t statistic(const ProcessResult& result, const std::string& name);

}  // namespace thermocline::test
