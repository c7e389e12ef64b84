// SPDX-License-Identifier: Apache-2.0
#include "offload/recogniser.h"

#include <gtest/gtest.h>

#include <map>
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

// The tokens of another step, on the same memory.
std::vector<Step> another(std::vector<Step> steps) {
  for (Step& step : steps) step.token += 1000;
  return steps;
}

int departures(Recogniser& recogniser, const std::vector<Step>& steps) {
  int count = 0;
  for (const Step& step : steps) count += recogniser.add(step.token, step.live) == Event::kDiverged ? 1 : 0;
  return count;
}

TEST(Recogniser, KnowsSeveralIterationsAndTheWaysBetweenThem) {
  Recogniser recogniser;
  const auto training = training_step(20, 10), validation = another(training_step(20, 0));
  for (int i = 0; i < 2; ++i) feed(recogniser, training);
  const std::size_t first = recogniser.iteration();
  for (int i = 0; i < 2; ++i) feed(recogniser, validation);
  ASSERT_TRUE(recogniser.following());
  EXPECT_NE(recogniser.iteration(), first);
  EXPECT_EQ(departures(recogniser, training), 1) << "the way back is not known";
  EXPECT_EQ(recogniser.iteration(), first);
  EXPECT_EQ(departures(recogniser, validation), 1) << "it was not followed when it came first";
  for (const auto& step : {training, training, validation, training, validation, validation}) {
    EXPECT_EQ(departures(recogniser, step), 0);
    EXPECT_TRUE(recogniser.following());
    EXPECT_EQ(recogniser.token_at(recogniser.position()), step.back().token);
  }
}

TEST(Recogniser, FindsTheLongerIterationAroundTheOneThatItFollows) {
  Recogniser recogniser;
  auto micro = training_step(20, 0);
  std::vector<Step> whole;
  for (int i = 0; i < 4; ++i) whole.insert(whole.end(), micro.begin(), micro.end());
  for (std::uint64_t i = 0; i < 40; ++i) whole.push_back({400 + i % 3, 1000 * kMiB});
  feed(recogniser, whole);
  EXPECT_EQ(recogniser.period(), micro.size()) << "four equal parts are an iteration, as long as nothing else is known";
  for (int i = 0; i < 2; ++i) feed(recogniser, whole);
  EXPECT_EQ(recogniser.period(), whole.size());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(departures(recogniser, whole), 0);
}

TEST(Recogniser, ForgetsTheIterationThatWasFollowedLongestAgo) {
  Recogniser recogniser;
  std::vector<std::vector<Step>> kinds;
  for (std::uint64_t kind = 0; kind <= Recogniser::kIterations; ++kind) {
    kinds.push_back(training_step(10, 5));
    for (Step& step : kinds.back()) step.token += 1000 * kind;
    for (int i = 0; i < 2; ++i) feed(recogniser, kinds.back());
    ASSERT_TRUE(recogniser.following());
    ASSERT_LT(recogniser.iteration(), Recogniser::kIterations);
  }
  feed(recogniser, kinds[1]);
  EXPECT_TRUE(recogniser.following()) << "the second one is still known";
  feed(recogniser, kinds[0]);
  EXPECT_FALSE(recogniser.following()) << "the first one is not";
  EXPECT_EQ(feed(recogniser, kinds[0]), Event::kFound);
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

// A loop over equal layers, each with weights of its own: as the recorder tells what an operation reuses.
class EqualLayers {
 public:
  explicit EqualLayers(std::uint64_t layers) : layers_(layers) {}

  void load(Recogniser& recogniser) {
    for (std::uint64_t layer = 0; layer < layers_; ++layer) use(recogniser, 3, kFirstWeights + layer);
  }
  Event turn(Recogniser& recogniser) { return pass(recogniser, 0, layers_); }
  Event pass(Recogniser& recogniser, std::uint64_t begin, std::uint64_t end) {
    Event last = Event::kNothing;
    for (std::uint64_t layer = begin; layer < end; ++layer) {
      use(recogniser, 1, kActivations);
      last = use(recogniser, 2, kFirstWeights + layer);
      if (last == Event::kDiverged) ++divergences_;
    }
    return last;
  }
  Event use(Recogniser& recogniser, std::uint64_t token, std::uint64_t buffer) {
    const auto [known, fresh] = uses_.try_emplace(buffer, now_, now_);
    const Reuse reuse = fresh ? Reuse{} : Reuse{buffer, now_ - known->second.second, now_ - known->second.first};
    known->second.second = now_++;
    return recogniser.add(token, 1000 * kMiB, reuse);
  }
  int divergences() const { return divergences_; }

 private:
  static constexpr std::uint64_t kActivations = 1, kFirstWeights = 10;
  std::uint64_t layers_;
  std::uint32_t now_ = 0;
  int divergences_ = 0;
  std::map<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>> uses_;  // the first and the last
};

TEST(Recogniser, EqualLayersAreOneIterationTogether) {
  for (const std::uint64_t layers : {24, 100}) {  // also more than there are candidates
    Recogniser recogniser;
    EqualLayers loop(layers);
    loop.load(recogniser);
    loop.turn(recogniser);
    loop.turn(recogniser);
    loop.turn(recogniser);
    ASSERT_TRUE(recogniser.following());
    EXPECT_EQ(recogniser.period(), 2 * layers);
  }
}

TEST(Recogniser, MovesToWhereTheBuffersBelongWhenLayersAreSkipped) {
  Recogniser recogniser;
  EqualLayers loop(24);
  loop.load(recogniser);
  for (int turn = 0; turn < 4; ++turn) loop.turn(recogniser);
  ASSERT_TRUE(recogniser.following());
  const std::size_t at_end = recogniser.position();
  loop.pass(recogniser, 0, 10);  // it leaves early
  loop.turn(recogniser);
  EXPECT_EQ(recogniser.position(), at_end);
  EXPECT_EQ(recogniser.period(), 48u);
  EXPECT_EQ(loop.divergences(), 0);
}

TEST(Recogniser, AnExchangedBufferDoesNotMoveIt) {
  Recogniser recogniser;
  EqualLayers loop(24);
  loop.load(recogniser);
  for (int turn = 0; turn < 4; ++turn) loop.turn(recogniser);
  const std::size_t at_end = recogniser.position();
  for (int turn = 0; turn < 3; ++turn) {
    loop.pass(recogniser, 0, 5);
    loop.pass(recogniser, 900, 903);  // three others, from now on
    loop.pass(recogniser, 8, 24);
    EXPECT_EQ(recogniser.position(), at_end);
  }
}

TEST(Recogniser, ResumesAmongEqualLayersByTheirBuffers) {
  Recogniser recogniser;
  EqualLayers loop(24);
  loop.load(recogniser);
  for (int turn = 0; turn < 4; ++turn) loop.turn(recogniser);
  ASSERT_TRUE(recogniser.following());
  const std::size_t at_end = recogniser.position();
  for (std::uint64_t i = 0; i < 20; ++i) loop.use(recogniser, 500 + i, 5000 + i);
  EXPECT_FALSE(recogniser.following());
  loop.turn(recogniser);
  ASSERT_TRUE(recogniser.following());
  EXPECT_EQ(recogniser.position(), at_end);
}

// A few buffers that come round after many iterations do not hide the iteration.
TEST(Recogniser, ARingOfInputsIsNoReasonToWait) {
  Recogniser recogniser;
  EqualLayers loop(1);
  const auto iteration = [&](std::uint64_t input) {
    Event last = loop.use(recogniser, 100, 1000 + input);
    for (std::uint64_t i = 0; i < 40; ++i) last = loop.use(recogniser, 200 + i, 2000 + i);
    return last;
  };
  for (std::uint64_t i = 0; i < 4; ++i) iteration(i);
  ASSERT_TRUE(recogniser.following());
  EXPECT_EQ(recogniser.period(), 41u);
  for (std::uint64_t i = 4; i < 12; ++i) EXPECT_EQ(iteration(i % 10), Event::kMatch);
}

}  // namespace
}  // namespace thermocline
