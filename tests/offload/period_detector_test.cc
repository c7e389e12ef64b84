// SPDX-License-Identifier: Apache-2.0
#include "offload/planning/period_detector.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace thermocline {
namespace {

using Event = PeriodDetector::Event;

struct Step {
  std::uint64_t token;
  Bytes live;
};

// A training step: memory grows through `layers` equal blocks of four operations and shrinks again, followed by a loop
// over parameters.
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

Event feed(PeriodDetector& period_detector, const std::vector<Step>& steps) {
  Event last = Event::kNothing;
  for (const Step& step : steps) last = period_detector.add(step.token, step.live);
  return last;
}

TEST(PeriodDetector, FindsTheIterationAtTheEndOfItsSecondTurn) {
  PeriodDetector period_detector;
  const auto step = training_step(50, 40);
  EXPECT_EQ(feed(period_detector, step), Event::kNothing);
  EXPECT_EQ(feed(period_detector, step), Event::kFound);
  EXPECT_EQ(period_detector.period(), step.size());
  EXPECT_EQ(period_detector.position(), step.size() - 1);
}

// Detection may begin anywhere: here behind the forward pass. The iteration is that of the parameter loop, the next forward
// pass and the next backward pass.
// In a long loop over the parameters, too, in which hundreds of operations look like the one where it begins.
TEST(PeriodDetector, MayBeginWhereTheFewestBytesAreLive) {
  const std::size_t forward = 200, backward = 300;
  for (const std::size_t parameters : {40u, 400u}) {
    auto step = training_step(50, parameters);
    const std::size_t lowest_place = forward + backward + 3 * parameters / 2;
    step[lowest_place].live -= 1;
    const std::vector<Step> rest(step.begin() + forward, step.end()), begin(step.begin(), step.begin() + forward);
    for (const bool lowest : {false, true}) {
      SCOPED_TRACE(std::to_string(parameters) + (lowest ? " parameters, lowest" : " parameters"));
      PeriodDetector period_detector;
      if (lowest) period_detector.begin_at_the_lowest();
      feed(period_detector, rest);
      feed(period_detector, step);
      EXPECT_EQ(feed(period_detector, begin), lowest ? Event::kNothing : Event::kFound);
      std::size_t more = 0;
      while (!period_detector.following() && more < rest.size()) {
        period_detector.add(rest[more].token, rest[more].live);
        ++more;
      }
      EXPECT_EQ(more, lowest ? lowest_place - forward : 0);
      EXPECT_EQ(period_detector.period(), step.size());
    }
  }
}

// The live buffers do not tell where a program that allocates once begins its step.
TEST(PeriodDetector, BeginsWhereTheFewestContentsAreReadLaterIfTheseVaryMore) {
  const auto step = training_step(50, 40);
  constexpr std::size_t kForward = 200, kPlace = 100;
  const std::vector<Step> rest(step.begin() + kForward, step.end()), begin(step.begin(), step.begin() + kForward);
  for (const Bytes most : {Bytes{1} << 60, Bytes{1}}) {
    PeriodDetector period_detector;
    period_detector.begin_at_the_lowest([&](std::size_t period) {
      EXPECT_EQ(period, step.size());
      std::vector<Bytes> contents(period, most);
      contents[kPlace] = 0;
      return contents;
    });
    feed(period_detector, rest);
    feed(period_detector, step);
    feed(period_detector, begin);
    std::size_t more = 0;
    while (!period_detector.following() && more < rest.size()) {
      period_detector.add(rest[more].token, rest[more].live);
      ++more;
    }
    EXPECT_EQ(more == kPlace, most > 1) << more;
    EXPECT_TRUE(period_detector.following());
  }
}

TEST(PeriodDetector, FollowsByPosition) {
  PeriodDetector period_detector;
  const auto step = training_step(20, 10);
  feed(period_detector, step);
  feed(period_detector, step);
  ASSERT_TRUE(period_detector.following());
  for (std::size_t i = 0; i < step.size(); ++i) {
    EXPECT_EQ(period_detector.add(step[i].token, step[i].live), Event::kMatch);
    EXPECT_EQ(period_detector.position(), i);
  }
}

TEST(PeriodDetector, DoesNotTakeALoopInsideForTheIteration) {
  PeriodDetector period_detector;
  // The parameter loop repeats 400 times with equal live bytes, the blocks 100 times with growing ones.
  feed(period_detector, training_step(100, 400));
  EXPECT_EQ(period_detector.period(), 0u);
}

TEST(PeriodDetector, ComparesTokensAndNotOnlyMemory) {
  PeriodDetector period_detector;
  std::uint64_t token = 1;
  for (int i = 0; i < 5000; ++i)
    EXPECT_EQ(period_detector.add(token = token * 6364136223846793005u + 1442695040888963407u, kMiB), Event::kNothing);
}

TEST(PeriodDetector, AGrowingProgramHasNoIteration) {
  PeriodDetector period_detector;
  for (std::uint64_t turn = 0; turn < 20; ++turn) {
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(period_detector.add(i, turn * kGiB), Event::kNothing);
  }
}

TEST(PeriodDetector, SaysAtOnceWhenTheProgramDepartsAndResumesWhenItIsBack) {
  PeriodDetector period_detector;
  const auto step = training_step(20, 10);
  feed(period_detector, step);
  feed(period_detector, step);
  period_detector.add(step[0].token, step[0].live);
  EXPECT_EQ(period_detector.add(999, kMiB), Event::kDiverged);
  EXPECT_FALSE(period_detector.following());
  EXPECT_EQ(feed(period_detector, step), Event::kMatch);
  EXPECT_EQ(period_detector.position(), step.size() - 1);
}

TEST(PeriodDetector, LearnsANewIteration) {
  PeriodDetector period_detector;
  const auto first = training_step(20, 10), second = training_step(30, 10);
  feed(period_detector, first);
  feed(period_detector, first);
  ASSERT_EQ(period_detector.period(), first.size());
  feed(period_detector, second);
  feed(period_detector, second);
  feed(period_detector, second);
  EXPECT_EQ(period_detector.period(), second.size());
}

// The tokens of another step, on the same memory.
std::vector<Step> another(std::vector<Step> steps) {
  for (Step& step : steps) step.token += 1000;
  return steps;
}

int departures(PeriodDetector& period_detector, const std::vector<Step>& steps) {
  int count = 0;
  for (const Step& step : steps) count += period_detector.add(step.token, step.live) == Event::kDiverged ? 1 : 0;
  return count;
}

TEST(PeriodDetector, KnowsSeveralIterationsAndTheWaysBetweenThem) {
  PeriodDetector period_detector;
  const auto training = training_step(20, 10), validation = another(training_step(20, 0));
  for (int i = 0; i < 2; ++i) feed(period_detector, training);
  const std::size_t first = period_detector.iteration();
  for (int i = 0; i < 2; ++i) feed(period_detector, validation);
  ASSERT_TRUE(period_detector.following());
  EXPECT_NE(period_detector.iteration(), first);
  EXPECT_EQ(departures(period_detector, training), 1) << "the way back is not known";
  EXPECT_EQ(period_detector.iteration(), first);
  EXPECT_EQ(departures(period_detector, validation), 1) << "it was not followed when it came first";
  for (const auto& step : {training, training, validation, training, validation, validation}) {
    EXPECT_EQ(departures(period_detector, step), 0);
    EXPECT_TRUE(period_detector.following());
    EXPECT_EQ(period_detector.token_at(period_detector.position()), step.back().token);
  }
}

TEST(PeriodDetector, FindsTheLongerIterationAroundTheOneThatItFollows) {
  PeriodDetector period_detector;
  auto micro = training_step(20, 0);
  std::vector<Step> whole;
  for (int i = 0; i < 4; ++i) whole.insert(whole.end(), micro.begin(), micro.end());
  for (std::uint64_t i = 0; i < 40; ++i) whole.push_back({400 + i % 3, 1000 * kMiB});
  feed(period_detector, whole);
  EXPECT_EQ(period_detector.period(), micro.size())
      << "four equal parts are an iteration, as long as nothing else is known";
  for (int i = 0; i < 2; ++i) feed(period_detector, whole);
  EXPECT_EQ(period_detector.period(), whole.size());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(departures(period_detector, whole), 0);
}

TEST(PeriodDetector, ForgetsTheIterationThatWasFollowedLongestAgo) {
  PeriodDetector period_detector;
  std::vector<std::vector<Step>> kinds;
  for (std::uint64_t kind = 0; kind <= PeriodDetector::kIterations; ++kind) {
    kinds.push_back(training_step(10, 5));
    for (Step& step : kinds.back()) step.token += 1000 * kind;
    for (int i = 0; i < 2; ++i) feed(period_detector, kinds.back());
    ASSERT_TRUE(period_detector.following());
    ASSERT_LT(period_detector.iteration(), PeriodDetector::kIterations);
  }
  feed(period_detector, kinds[1]);
  EXPECT_TRUE(period_detector.following()) << "the second one is still known";
  feed(period_detector, kinds[0]);
  EXPECT_FALSE(period_detector.following()) << "the first one is not";
  EXPECT_EQ(feed(period_detector, kinds[0]), Event::kFound);
}

TEST(PeriodDetector, ForgetsOldOperationsAndStillFindsNewIterations) {
  PeriodDetector period_detector;
  std::uint64_t token = 1;
  for (std::size_t i = 0; i < PeriodDetector::kHistory + 1000; ++i) {
    period_detector.add(token = token * 6364136223846793005u + 1442695040888963407u, kMiB);
  }
  const auto step = training_step(50, 40);
  feed(period_detector, step);
  EXPECT_EQ(feed(period_detector, step), Event::kFound);
}

// Followed operations are remembered all at once when somebody asks: also if they are more than the history has.
TEST(PeriodDetector, FindsTheLongerIterationBehindAnyNumberOfTurns) {
  const auto micro = training_step(20, 0);
  std::vector<Step> whole;
  for (int i = 0; i < 4; ++i) whole.insert(whole.end(), micro.begin(), micro.end());
  for (std::uint64_t i = 0; i < 40; ++i) whole.push_back({400 + i % 3, 1000 * kMiB});
  for (const std::size_t operations : {std::size_t{1'000}, PeriodDetector::kHistory, 2 * PeriodDetector::kHistory}) {
    SCOPED_TRACE(operations);
    PeriodDetector period_detector;
    std::size_t added = 0;
    for (; added < operations; added += micro.size()) feed(period_detector, micro);
    ASSERT_TRUE(period_detector.following());
    EXPECT_EQ(period_detector.operations(), added);
    for (int i = 0; i < 3; ++i) feed(period_detector, whole);
    EXPECT_EQ(period_detector.operations(), added + 3 * whole.size());
    EXPECT_EQ(period_detector.period(), whole.size());
    EXPECT_EQ(departures(period_detector, whole), 0);
  }
}

// Remembered late, most of them never: what comes behind them is found as if each had been added when it came.
TEST(PeriodDetector, OperationsThatPassAreRememberedAsIfAdded) {
  const auto micro = training_step(20, 0);
  std::vector<Step> whole;
  for (int i = 0; i < 4; ++i) whole.insert(whole.end(), micro.begin(), micro.end());
  for (std::uint64_t i = 0; i < 40; ++i) whole.push_back({400 + i % 3, 1000 * kMiB});
  for (const std::size_t operations :
       {std::size_t{1'001}, PeriodDetector::kHistory, 3 * PeriodDetector::kHistory + 77}) {
    SCOPED_TRACE(operations);
    PeriodDetector in_time, late;
    for (int i = 0; i < 4; ++i) feed(in_time, micro), feed(late, micro);
    ASSERT_TRUE(in_time.following() && late.following());
    ASSERT_TRUE(late.add_expected(late.next_position(), micro[0].token, micro[0].live, {}, 0));
    static_cast<void>(in_time.add(micro[0].token, micro[0].live));
    constexpr std::size_t kLeft = PeriodDetector::kLateAtOnce, kStep = PeriodDetector::kForgottenAtOnce;
    const std::size_t skipped = operations > kLeft ? (operations - kLeft) / kStep * kStep : 0;
    for (std::size_t i = 1; i <= operations; ++i) {
      const Step& step = micro[i % micro.size()];
      ASSERT_EQ(in_time.add(step.token, step.live), Event::kMatch);
      late.pass_expected(late.next_position());
    }
    EXPECT_EQ(late.position(), in_time.position());
    late.skip_passed(skipped);
    for (std::size_t i = skipped + 1; i <= operations; ++i) {
      const Step& step = micro[i % micro.size()];
      late.add_passed(step.token, step.live, {}, 0);
    }
    EXPECT_EQ(late.operations(), in_time.operations());
    for (int turn = 0; turn < 3; ++turn) {
      for (const Step& step : whole) ASSERT_EQ(late.add(step.token, step.live), in_time.add(step.token, step.live));
    }
    EXPECT_EQ(late.period(), whole.size());
    EXPECT_EQ(in_time.period(), whole.size());
  }
}

// In a program's first turn nothing was used before. Afterwards the buffers are those that are expected.
TEST(PeriodDetector, BuffersThatComeAgainAreExpectedAlsoIfTheFirstTurnHadNone) {
  constexpr std::uint64_t kOperations = 40;
  PeriodDetector period_detector;
  const auto turn = [&](bool is_first) {
    for (std::uint64_t i = 0; i < kOperations; ++i) {
      const Reuse reuse = is_first ? Reuse{} : Reuse{i + 1, kOperations, kOperations};
      static_cast<void>(period_detector.add(100 + i, 1000 * kMiB, reuse));
    }
  };
  for (int i = 0; i < 5; ++i) turn(i == 0);
  ASSERT_TRUE(period_detector.following());
  for (std::uint64_t i = 0; i < kOperations; ++i) {
    const std::size_t place = period_detector.next_position();
    ASSERT_TRUE(period_detector.add_expected(place, 100 + i, 1000 * kMiB, {i + 1, kOperations, 2 * kOperations}, 0))
        << i;
  }
}

TEST(PeriodDetector, WhatHappenedBeforeTrainingDoesNotCountForEver) {
  PeriodDetector period_detector;
  for (std::uint64_t i = 0; i < 100; ++i) period_detector.add(7000 + i, 100'000 * kMiB);
  const auto step = training_step(50, 40);
  std::size_t turns = 0;
  while (!period_detector.following() && turns < 1000) {
    feed(period_detector, step);
    ++turns;
  }
  EXPECT_EQ(period_detector.period(), step.size());
  EXPECT_LE(turns, PeriodDetector::kLevelWindow / step.size() + 2);
}

TEST(PeriodDetector, AStepThatIsMarkedTwiceIsAnIteration) {
  PeriodDetector period_detector;
  for (std::uint64_t i = 0; i < 100; ++i) period_detector.add(7000 + i, 100'000 * kMiB);
  const auto step = training_step(50, 40);
  EXPECT_FALSE(period_detector.mark());
  feed(period_detector, step);
  EXPECT_FALSE(period_detector.mark()) << "the first";
  feed(period_detector, step);
  EXPECT_TRUE(period_detector.mark());
  EXPECT_EQ(period_detector.period(), step.size());
  for (std::size_t i = 0; i < step.size(); ++i) {
    ASSERT_EQ(period_detector.add(step[i].token, step[i].live), Event::kMatch);
    EXPECT_EQ(period_detector.position(), i);
  }
  EXPECT_FALSE(period_detector.mark()) << "it is known already";
}

TEST(PeriodDetector, AMarkedStepThatWasAnotherIsNone) {
  PeriodDetector period_detector;
  feed(period_detector, training_step(50, 40));
  EXPECT_FALSE(period_detector.mark());
  feed(period_detector, training_step(51, 40));
  EXPECT_FALSE(period_detector.mark());
}

// A loop over equal layers, each with its own weights, described in the same way as by the recorder.
class EqualLayers {
 public:
  explicit EqualLayers(std::uint64_t layers) : layers_(layers) {}

  void load(PeriodDetector& period_detector) {
    for (std::uint64_t layer = 0; layer < layers_; ++layer) use(period_detector, 3, kFirstWeights + layer);
  }
  Event turn(PeriodDetector& period_detector) { return pass(period_detector, 0, layers_); }
  Event pass(PeriodDetector& period_detector, std::uint64_t begin, std::uint64_t end) {
    Event last = Event::kNothing;
    for (std::uint64_t layer = begin; layer < end; ++layer) {
      use(period_detector, 1, kActivations);
      last = use(period_detector, 2, kFirstWeights + layer);
      if (last == Event::kDiverged) ++divergences_;
    }
    return last;
  }
  Event use(PeriodDetector& period_detector, std::uint64_t token, std::uint64_t buffer) {
    const auto [known, fresh] = uses_.try_emplace(buffer, now_, now_);
    const Reuse reuse = fresh ? Reuse{} : Reuse{buffer, now_ - known->second.second, now_ - known->second.first};
    known->second.second = now_++;
    return period_detector.add(token, 1000 * kMiB, reuse);
  }
  int divergences() const { return divergences_; }

 private:
  static constexpr std::uint64_t kActivations = 1, kFirstWeights = 10;
  std::uint64_t layers_;
  std::uint32_t now_ = 0;
  int divergences_ = 0;
  std::map<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>> uses_;  // first and last use
};

TEST(PeriodDetector, EqualLayersAreOneIterationTogether) {
  for (const std::uint64_t layers : {24, 100}) {  // also more than there are candidates
    PeriodDetector period_detector;
    EqualLayers loop(layers);
    loop.load(period_detector);
    loop.turn(period_detector);
    loop.turn(period_detector);
    loop.turn(period_detector);
    ASSERT_TRUE(period_detector.following());
    EXPECT_EQ(period_detector.period(), 2 * layers);
  }
}

TEST(PeriodDetector, MovesToWhereTheBuffersBelongWhenLayersAreSkipped) {
  PeriodDetector period_detector;
  EqualLayers loop(24);
  loop.load(period_detector);
  for (int turn = 0; turn < 4; ++turn) loop.turn(period_detector);
  ASSERT_TRUE(period_detector.following());
  const std::size_t at_end = period_detector.position();
  loop.pass(period_detector, 0, 10);  // it leaves the loop early
  loop.turn(period_detector);
  EXPECT_EQ(period_detector.position(), at_end);
  EXPECT_EQ(period_detector.period(), 48u);
  EXPECT_EQ(loop.divergences(), 0);
}

TEST(PeriodDetector, AnExchangedBufferDoesNotMoveIt) {
  PeriodDetector period_detector;
  EqualLayers loop(24);
  loop.load(period_detector);
  for (int turn = 0; turn < 4; ++turn) loop.turn(period_detector);
  const std::size_t at_end = period_detector.position();
  for (int turn = 0; turn < 3; ++turn) {
    loop.pass(period_detector, 0, 5);
    loop.pass(period_detector, 900, 903);  // three different ones from now on
    loop.pass(period_detector, 8, 24);
    EXPECT_EQ(period_detector.position(), at_end);
  }
}

TEST(PeriodDetector, ResumesAmongEqualLayersByTheirBuffers) {
  PeriodDetector period_detector;
  EqualLayers loop(24);
  loop.load(period_detector);
  for (int turn = 0; turn < 4; ++turn) loop.turn(period_detector);
  ASSERT_TRUE(period_detector.following());
  const std::size_t at_end = period_detector.position();
  for (std::uint64_t i = 0; i < 20; ++i) loop.use(period_detector, 500 + i, 5000 + i);
  EXPECT_FALSE(period_detector.following());
  loop.turn(period_detector);
  ASSERT_TRUE(period_detector.following());
  EXPECT_EQ(period_detector.position(), at_end);
}

// A few buffers that repeat only after many iterations do not hide the iteration.
TEST(PeriodDetector, ARingOfInputsIsNoReasonToWait) {
  PeriodDetector period_detector;
  EqualLayers loop(1);
  const auto iteration = [&](std::uint64_t input) {
    Event last = loop.use(period_detector, 100, 1000 + input);
    for (std::uint64_t i = 0; i < 40; ++i) last = loop.use(period_detector, 200 + i, 2000 + i);
    return last;
  };
  for (std::uint64_t i = 0; i < 4; ++i) iteration(i);
  ASSERT_TRUE(period_detector.following());
  EXPECT_EQ(period_detector.period(), 41u);
  for (std::uint64_t i = 4; i < 12; ++i) EXPECT_EQ(iteration(i % 10), Event::kMatch);
}

}  // namespace
}  // namespace thermocline
