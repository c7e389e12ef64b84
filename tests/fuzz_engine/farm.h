// SPDX-License-Identifier: Apache-2.0
// Runs many programs in processes of their own, so that a crash or a hang is a result like any other, and reduces a
// failing program to its smallest form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz_engine/runner.h"

namespace thermocline::fuzz_engine {

struct FarmOptions {
  std::uint64_t first = 1, seeds = 100;
  std::size_t steps = 5000;
  bool faults = false;
  unsigned workers = 2;
  double minutes = 0;  // in place of a number of seeds; 0: by number
};

struct Failure {
  std::uint64_t seed = 0;
  std::string what;
};

// Sums over all programs, with which a test checks that it exercises what it is for.
struct Totals {
  std::uint64_t programs = 0, steps = 0, done = 0, refused = 0, faults = 0;
  std::uint64_t evictions = 0, restores = 0, plans = 0, divergences = 0;
  double seconds = 0;
};

// Runs programs until the first failure.
std::optional<Failure> run_many(const FarmOptions& options, Totals* totals);

// Runs in a process of its own, which is ended after some time; returns the failure, or nothing.
std::optional<std::string> fails(const Program& program, const FaultPlan& faults);

// The steps that a failing program needs in order to fail: halves, quarters, ... are removed as long as it still fails.
std::vector<std::size_t> shrink(const Program& program, const FaultPlan& faults, double seconds);
Program only(const Program& program, const std::vector<std::size_t>& kept);

// "3,7-9"; and back.
std::string write_list(const std::vector<std::size_t>& list);
std::optional<std::vector<std::size_t>> read_list(const std::string& text);

// The failure, the smallest program, and the command that repeats it.
std::string explain(const Failure& failure, std::size_t steps, bool faults, double seconds_to_shrink);

}  // namespace thermocline::fuzz_engine
