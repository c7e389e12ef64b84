// SPDX-License-Identifier: Apache-2.0
#include "offload/planning/unsteady_kinds.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "offload/planning/period_detector.h"

namespace thermocline {
namespace {

using Event = PeriodDetector::Event;

struct Op {
  std::uint64_t kind;
  std::uint64_t token;
};

// A step of `count` kernels, each of another kind. Those of `noise` get other operands in each turn.
std::vector<Op> step_of(std::uint64_t count, std::uint64_t turn, const std::vector<std::uint64_t>& noise) {
  std::vector<Op> step;
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool noisy = std::find(noise.begin(), noise.end(), i) != noise.end();
    step.push_back({1000 + i, (1000 + i) * 7919 + (noisy ? turn * 104729 : 0)});
  }
  return step;
}

struct Feeding {
  PeriodDetector detector;
  Event feed(const std::vector<Op>& step) {
    Event last = Event::kNothing;
    for (const Op& op : step) {
      last = detector.add(op.token, 1000 * kMiB, {}, op.kind);
      if (last == Event::kDiverged) ++diverged;
    }
    return last;
  }
  int diverged = 0;
};

// As PyTorch's optimizers: a number of launches in a row, whose lists of pointers have ends that nobody sets.
TEST(UnsteadyKinds, DoNotHideAnIteration) {
  std::vector<std::uint64_t> noise;
  for (std::uint64_t i = 300; i < 318; ++i) noise.push_back(i);
  Feeding all;
  bool found = false;
  for (std::uint64_t turn = 0; turn < 4 && !found; ++turn) {
    all.feed(step_of(600, turn, noise));
    found = all.detector.following();
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(all.detector.period(), 600U);
  for (std::uint64_t turn = 10; turn < 20; ++turn) EXPECT_EQ(all.feed(step_of(600, turn, noise)), Event::kMatch);
  EXPECT_EQ(all.diverged, 0);
}

// Kinds found at one place are not lost when others are found at the next.
TEST(UnsteadyKinds, AreFoundAtManyPlacesInOneTurn) {
  std::vector<std::uint64_t> noise;
  for (std::uint64_t i = 100; i < 2900; i += 200) noise.push_back(i);
  Feeding all;
  for (std::uint64_t turn = 0; turn < 3; ++turn) all.feed(step_of(3000, turn, noise));
  EXPECT_TRUE(all.detector.following());
}

TEST(UnsteadyKinds, ThatShowLaterDoNotEndAnIteration) {
  Feeding all;
  for (std::uint64_t turn = 0; turn < 3; ++turn) all.feed(step_of(600, turn, {}));
  ASSERT_TRUE(all.detector.following());
  for (std::uint64_t turn = 3; turn < 9; ++turn) EXPECT_EQ(all.feed(step_of(600, turn, {200})), Event::kMatch);
  EXPECT_EQ(all.diverged, 0);
  // Two at once are a change, as is an operation of another kind.
  auto changed = step_of(600, 20, {});
  changed[250].token += 1;
  changed[251].token += 1;
  all.feed(changed);
  EXPECT_EQ(all.diverged, 1);
}

TEST(UnsteadyKinds, AreToldOfTheOperation) {
  Feeding all;
  for (std::uint64_t turn = 0; turn < 3; ++turn) all.feed(step_of(600, turn, {}));
  ASSERT_TRUE(all.detector.following());
  const auto step = step_of(600, 9, {200});
  for (std::size_t i = 0; i < step.size(); ++i) {
    all.detector.add(step[i].token, 1000 * kMiB, {}, step[i].kind);
    EXPECT_EQ(all.detector.matched_by_kind(), i == 200) << i;
  }
}

// Without a kind the whole token counts.
TEST(UnsteadyKinds, AreKernelsOnly) {
  PeriodDetector detector;
  for (std::uint64_t turn = 0; turn < 6; ++turn) {
    for (const Op& op : step_of(600, turn, {300})) detector.add(op.token, 1000 * kMiB);
    EXPECT_FALSE(detector.following()) << turn;
  }
}

// A batch of another size: nearly everything differs, so nothing is unsteady.
TEST(UnsteadyKinds, AreNotWhatAllChanges) {
  Feeding all;
  std::vector<std::uint64_t> everything;
  for (std::uint64_t i = 0; i < 400; ++i) everything.push_back(i);
  for (std::uint64_t turn = 0; turn < 6; ++turn) {
    all.feed(step_of(400, turn / 2, everything));
    if (turn % 2 == 1) {
      EXPECT_TRUE(all.detector.following()) << turn;
    }
  }
  for (const Op& op : step_of(400, 0, {})) EXPECT_FALSE(all.detector.is_unsteady(op.kind));
}

// The running hash and count are those of a context that is looked at anew.
TEST(UnsteadyKinds, AreFoundAsIfEachContextWereComparedAnew) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    UnsteadyKinds running;
    std::vector<std::uint64_t> kinds, tokens;
    const std::size_t period = 150 + random() % 100;
    for (std::size_t i = 0; i < 6 * period; ++i) {
      const std::uint64_t kind = 1 + i % period;
      kinds.push_back(kind);
      tokens.push_back(kind % 10 == 3 ? random() : kind);
      running.watch(kinds, tokens);
    }
    for (std::uint64_t kind = 1; kind <= period; ++kind) EXPECT_EQ(running.contains(kind), kind % 10 == 3) << kind;
  }
}

}  // namespace
}  // namespace thermocline
