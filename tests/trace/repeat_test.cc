// SPDX-License-Identifier: Apache-2.0
// A trace as a program of more steps than it has.
#include "trace/repeat.h"

#include <gtest/gtest.h>

#include "tests/trace/trace_file.h"

namespace thermocline::test {
namespace {

TEST(Repeat, WithoutANumberTheFilesStepsAreTaken) {
  const Trace trace =
      read_valid(TraceFile({kHeader, alloc(0, 8), op("a", {}, {0}, 1), step(0), op("b", {}, {0}, 1), step(1)}));
  StepProgram program;
  std::string reason;
  ASSERT_TRUE(plan_steps(trace, 0, &program, &reason));
  EXPECT_EQ(program.steps, 2u);
  ASSERT_TRUE(plan_steps(trace, 1, &program, &reason));
  EXPECT_EQ(program.steps, 1u);
}

TEST(Repeat, BeyondTheFileTheLastStepComesAgain) {
  const Trace trace =
      read_valid(TraceFile({kHeader, alloc(0, 8), op("a", {}, {0}, 1), step(0), op("b", {}, {0}, 1), step(1)}));
  StepProgram program;
  std::string reason;
  ASSERT_TRUE(plan_steps(trace, 5, &program, &reason));
  EXPECT_TRUE(program.renames.empty());
  EXPECT_EQ(program.span(trace, 4).begin, trace.steps[1].begin);
  EXPECT_FALSE(program.is_repetition(trace, 1));
  EXPECT_TRUE(program.is_repetition(trace, 2));
}

TEST(Repeat, WhatAStepFreesStandsForWhatItLeavesOfTheSameSizeInOrder) {
  // The second step frees the gradients 1, 2 (of one size) and 3, and leaves 4, 5, 6 in their place.
  const Trace trace = read_valid(
      TraceFile({kHeader, alloc(1, 16), alloc(2, 16), alloc(3, 8), op("a", {}, {1, 2, 3}, 1), step(0), release(3),
                 release(1), alloc(6, 8), alloc(4, 16), release(2), alloc(5, 16), op("a", {}, {4, 5, 6}, 1), step(1)}));
  StepProgram program;
  std::string reason;
  ASSERT_TRUE(plan_steps(trace, 3, &program, &reason)) << reason;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ids;
  for (const auto& [carried, left] : program.renames)
    ids.emplace_back(trace.buffers[carried].id, trace.buffers[left].id);
  EXPECT_EQ(ids, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{3, 6}, {1, 4}, {2, 5}}));
}

TEST(Repeat, AStepThatLeavesMoreThanItFreedCanNotRepeat) {
  const Trace trace = read_valid(
      TraceFile({kHeader, alloc(0, 8), op("a", {}, {0}, 1), step(0), alloc(1, 32), op("a", {}, {1}, 1), step(1)}));
  StepProgram program;
  std::string reason;
  EXPECT_FALSE(plan_steps(trace, 3, &program, &reason));
  EXPECT_EQ(reason,
            "the last of the 2 steps can not repeat: it leaves 1 more buffer of 32 bytes alive than it freed of those "
            "it began with");
}

TEST(Repeat, AStepThatFreesMoreThanItLeavesCanNotRepeat) {
  const Trace trace = read_valid(
      TraceFile({kHeader, alloc(0, 8), op("a", {}, {0}, 1), step(0), op("a", {0}, {}, 1), release(0), step(1)}));
  StepProgram program;
  std::string reason;
  EXPECT_FALSE(plan_steps(trace, 3, &program, &reason));
  EXPECT_EQ(reason,
            "the last of the 2 steps can not repeat: it frees 1 more buffer of 8 bytes that it began with than it "
            "leaves alive");
}

}  // namespace
}  // namespace thermocline::test
