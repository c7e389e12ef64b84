// SPDX-License-Identifier: Apache-2.0
#include "offload/recogniser.h"

#include <gtest/gtest.h>

#include <vector>

namespace thermocline {
namespace {

using Event = Recogniser::Event;

struct Step {
  std::uint64_t token;
  Bytes live;
};

// A training step: memory rises through `layers` equal blocks of four operations, falls again, then a loop over
// parameters.
std::vector<Step> training_step(std::uint64_t layers, std::uint64_t parameters) {
  std::vector<Step> steps;
  for (std::uint64_t i = 0; i < layers; ++i) {
    for (std::uint64_t j = 0; j < 4; ++j) steps.push_back({100 + j, 1000 * kMiB + 64 * kMiB * i});
  }
  for (std::uint64_t i = layers; i-- > 0;) {
    for (std::uint64_t j = 0; j < 6; ++j) steps.push_back({200 + j, 1000 * kMiB + 64 * kMiB * i});
  }
  for (std::uint64_t i = 0; i < parameters; ++i) {
    for (std::uint64_t j = 0; j < 3; ++j) steps.push_back({300 + j, 1000 * kMiB});
  }
  return steps;
}

Event feed(Recogniser& recogniser, const std::vector<Step>& steps) {
  Event last = Event::kNothing;
  for (const Step& step : steps) last = recogniser.add(step.token, step.live);
  return last;
}

TEST(Recogniser, FindsTheIterationAtTheEndOfItsSecondTurn) {
  Recogniser recogniser;
  const auto step = training_step(50, 40);
  EXPECT_EQ(feed(recogniser, step), Event::kNothing);
  EXPECT_EQ(feed(recogniser, step), Event::kFound);
  EXPECT_EQ(recogniser.period(), step.size());
  EXPECT_EQ(recogniser.position(), step.size() - 1);
}

TEST(Recogniser, FollowsByPosition) {
  Recogniser recogniser;
  const auto step = training_step(20, 10);
  feed(recogniser, step);
  feed(recogniser, step);
  ASSERT_TRUE(recogniser.following());
  for (std::size_t i = 0; i < step.size(); ++i) {
    EXPECT_EQ(recogniser.add(step[i].token, step[i].live), Event::kMatch);
    EXPECT_EQ(recogniser.position(), i);
  }
}

TEST(Recogniser, DoesNotTakeALoopInsideForTheIteration) {
  Recogniser recogniser;
  // The parameter loop repeats 400 times with the same live bytes, the blocks 100 times with rising ones.
  feed(recogniser, training_step(100, 400));
  EXPECT_EQ(recogniser.period(), 0u);
}

TEST(Recogniser, ComparesTokensAndNotOnlyMemory) {
  Recogniser recogniser;
  std::uint64_t token = 1;
  for (int i = 0; i < 5000; ++i)
    EXPECT_EQ(recogniser.add(token = token * 6364136223846793005u + 1442695040888963407u, kMiB), Event::kNothing);
}

TEST(Recogniser, AGrowingProgramHasNoIteration) {
  Recogniser recogniser;
  for (std::uint64_t turn = 0; turn < 20; ++turn) {
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(recogniser.add(i, turn * kGiB), Event::kNothing);
  }
}

TEST(Recogniser, SaysAtOnceWhenTheProgramDepartsAndResumesWhenItIsBack) {
  Recogniser recogniser;
  const auto step = training_step(20, 10);
  feed(recogniser, step);
  feed(recogniser, step);
  recogniser.add(step[0].token, step[0].live);
  EXPECT_EQ(recogniser.add(999, kMiB), Event::kDiverged);
  EXPECT_FALSE(recogniser.following());
  EXPECT_EQ(feed(recogniser, step), Event::kMatch);
  EXPECT_EQ(recogniser.position(), step.size() - 1);
}

TEST(Recogniser, LearnsANewIteration) {
  Recogniser recogniser;
  const auto first = training_step(20, 10), second = training_step(30, 10);
  feed(recogniser, first);
  feed(recogniser, first);
  ASSERT_EQ(recogniser.period(), first.size());
  feed(recogniser, second);
  feed(recogniser, second);
  feed(recogniser, second);
  EXPECT_EQ(recogniser.period(), second.size());
}

TEST(Recogniser, ForgetsOldOperationsAndStillFindsNewIterations) {
  Recogniser recogniser;
  std::uint64_t token = 1;
  for (std::size_t i = 0; i < Recogniser::kHistory + 1000; ++i) {
    recogniser.add(token = token * 6364136223846793005u + 1442695040888963407u, kMiB);
  }
  const auto step = training_step(50, 40);
  feed(recogniser, step);
  EXPECT_EQ(feed(recogniser, step), Event::kFound);
}

TEST(Recogniser, WhatHappenedBeforeTrainingDoesNotCountForEver) {
  Recogniser recogniser;
  for (std::uint64_t i = 0; i < 100; ++i) recogniser.add(7000 + i, 100'000 * kMiB);
  const auto step = training_step(50, 40);
  std::size_t turns = 0;
  while (!recogniser.following() && turns < 1000) {
    feed(recogniser, step);
    ++turns;
  }
  EXPECT_EQ(recogniser.period(), step.size());
  EXPECT_LE(turns, Recogniser::kLevelWindow / step.size() + 2);
}

TEST(Recogniser, AStepThatIsMarkedTwiceIsAnIteration) {
  Recogniser recogniser;
  for (std::uint64_t i = 0; i < 100; ++i) recogniser.add(7000 + i, 100'000 * kMiB);
  const auto step = training_step(50, 40);
  EXPECT_FALSE(recogniser.mark());
  feed(recogniser, step);
  EXPECT_FALSE(recogniser.mark()) << "the first";
  feed(recogniser, step);
  EXPECT_TRUE(recogniser.mark());
  EXPECT_EQ(recogniser.period(), step.size());
  for (std::size_t i = 0; i < step.size(); ++i) {
    ASSERT_EQ(recogniser.add(step[i].token, step[i].live), Event::kMatch);
    EXPECT_EQ(recogniser.position(), i);
  }
  EXPECT_FALSE(recogniser.mark()) << "it is known already";
}

TEST(Recogniser, AMarkedStepThatWasAnotherIsNone) {
  Recogniser recogniser;
  feed(recogniser, training_step(50, 40));
  EXPECT_FALSE(recogniser.mark());
  feed(recogniser, training_step(51, 40));
  EXPECT_FALSE(recogniser.mark());
}

}  // namespace
}  // namespace thermocline
