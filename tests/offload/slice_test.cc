// SPDX-License-Identifier: Apache-2.0
// Time slices for processes that thrash together: who has one, for how long, and that nobody waits for one that stands
// still.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "offload/sharing/slice_policy.h"
#include "offload/sharing/slice_watch.h"
#include "tests/support/seeds.h"

namespace thermocline {
namespace {

constexpr std::uint64_t kMs = 1'000'000, kLook = 10 * kMs, kLongest = 2'000 * kMs;

SliceSharer sharer(std::uint64_t begun, std::uint64_t until, std::uint64_t looked = 100,
                   std::uint64_t marked = 10'000) {
  return {.is_active = true,
          .record = {.looked_ns = looked * kMs,
                     .marked_until_ns = marked * kMs,
                     .begun_ns = begun * kMs,
                     .until_ns = until * kMs}};
}

TEST(SlicePolicy, OneAloneTakesNoTurns) {
  const std::array all{sharer(0, 500), sharer(0, 0, 100, 0)};
  EXPECT_FALSE(any_slices(all, 100 * kMs));
  EXPECT_FALSE(slice_holder(all, 100 * kMs).has_value());
  EXPECT_FALSE(may_begin_slice(all, 100 * kMs, 0));
}

TEST(SlicePolicy, TheEarlierOfTwoHasTheSlice) {
  const std::array all{sharer(60, 500), sharer(50, 400), sharer(0, 0)};
  EXPECT_EQ(slice_holder(all, 100 * kMs), 1u);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_FALSE(may_begin_slice(all, 100 * kMs, i));
}

TEST(SlicePolicy, WhoeverHadTheLastGoesOnUntilTheNextBegins) {
  const std::array all{sharer(10, 50), sharer(50, 90), sharer(5, 10)};
  EXPECT_EQ(slice_holder(all, 100 * kMs), 1u);
  EXPECT_FALSE(may_begin_slice(all, 100 * kMs, 0));
  EXPECT_FALSE(may_begin_slice(all, 100 * kMs, 1));
  EXPECT_TRUE(may_begin_slice(all, 100 * kMs, 2));
}

TEST(SlicePolicy, OneThatStandsStillLosesItsSlice) {
  const std::array all{sharer(10, 5'000, 100), sharer(0, 0, 400), sharer(0, 0, 400)};
  EXPECT_EQ(slice_holder(all, 300 * kMs), 0u);
  EXPECT_FALSE(slice_holder(all, 400 * kMs).has_value()) << "none of the others has had one";
  EXPECT_TRUE(may_begin_slice(all, 400 * kMs, 1));
}

TEST(SlicePolicy, OneThatWaitsCountsAsIdleWhereMemoryIsDivided) {
  const std::array slices{sharer(50, 500), sharer(0, 0), sharer(0, 0, 100, 0)};
  std::array sharers{Sharer{.is_active = true}, Sharer{.is_active = true}, Sharer{.is_active = true}};
  rest_out_of_turn(slices, 100 * kMs, sharers);
  EXPECT_TRUE(sharers[0].is_active);
  EXPECT_FALSE(sharers[1].is_active);
  EXPECT_TRUE(sharers[2].is_active) << "it takes no turns";
}

SliceSharer measured(std::uint32_t computed, std::uint32_t copied) {
  return {
      .is_active = true,
      .record = {
          .looked_ns = 100 * kMs, .measured_ns = 90 * kMs, .computed_permille = computed, .copied_permille = copied}};
}

TEST(SlicePolicy, OnlyProgramsThatCopyMoreThanTheyComputeThrash) {
  std::uint32_t computed = 0;
  const auto thrash = [&](const SliceSharer& a, const SliceSharer& b) {
    return thrashes_with_others(std::array{a, b}, 100 * kMs, 0, &computed);
  };
  EXPECT_TRUE(thrash(measured(100, 400), measured(50, 300)));
  EXPECT_EQ(computed, 150u);
  EXPECT_FALSE(thrash(measured(100, 400), measured(500, 300))) << "the other one computes";
  EXPECT_FALSE(thrash(measured(500, 300), measured(50, 400))) << "this one computes";
  EXPECT_FALSE(thrash(measured(350, 400), measured(300, 400))) << "slices would hardly gain anything";
  EXPECT_FALSE(thrash(measured(10, 100), measured(10, 100))) << "they do something else";
  SliceSharer idle = measured(50, 300);
  idle.is_active = false;
  EXPECT_FALSE(thrash(measured(100, 400), idle));
}

// Processes that look at each other's records every 10 ms. At once each computes for a tenth of the time; in a slice,
// always, after its working set has come.
struct World {
  struct Process {
    explicit Process(std::uint64_t longest) : watch(longest) {}
    SliceWatch watch;
    StallTimes times;
    std::uint64_t stalls_left_ns = 0, waits_since_ns = 0, ran_ns = 0;
    bool lives = true, stands = false, works = true;
  };

  explicit World(std::size_t count, std::uint64_t longest = kLongest) {
    for (std::size_t i = 0; i < count; ++i) {
      processes.emplace_back(longest);
      records.push_back({.is_active = true});
    }
  }

  bool runs(const Process& one) const { return one.lives && !one.stands && one.works; }

  void look(std::size_t i) {
    Process& one = processes[i];
    if (!one.lives || one.stands) return;
    const bool waited = one.watch.is_out_of_turn();
    records[i].is_active = one.works;
    std::vector<SliceSharer> seen;
    std::size_t self = 0;
    for (std::size_t k = 0; k < records.size(); ++k) {
      if (k == i) self = seen.size();
      if (processes[k].lives) seen.push_back(records[k]);
    }
    records[i].record = one.watch.look(now_ns, one.times, seen, self, lacks);
    if (one.watch.is_out_of_turn()) {
      if (!waited) one.waits_since_ns = now_ns;
      one.stalls_left_ns = wait_ns;
    }
  }

  void pass() {
    now_ns += kLook;
    for (Process& one : processes) {
      if (!runs(one) || one.watch.is_out_of_turn()) continue;
      const bool alone = records[0].record.looked_ns != 0 && any_slices(records, now_ns);
      one.times.measured_ns += kLook;
      const std::uint64_t stalls = alone ? std::min(one.stalls_left_ns, kLook) : kLook / 10 * 9;
      one.stalls_left_ns -= alone ? stalls : 0;
      one.times.stalled_ns += stalls;
      one.times.computed_ns += kLook - stalls;
      one.times.copied_in_ns += stalls / 2;
      one.ran_ns += kLook - stalls;
    }
  }

  void go_on(std::uint64_t ns) {
    for (const std::uint64_t end = now_ns + ns; now_ns < end;) {
      pass();
      for (std::size_t i = 0; i < processes.size(); ++i) look(i);
    }
  }

  std::uint64_t now_ns = 1'000 * kMs;
  std::uint64_t wait_ns = 20 * kMs;
  bool lacks = true;
  std::vector<Process> processes;
  std::vector<SliceSharer> records;
};

TEST(SliceWatch, ProgramsThatThrashTakeTurnsOfEqualLength) {
  World world(3);
  world.go_on(60'000 * kMs);
  EXPECT_TRUE(any_slices(world.records, world.now_ns));
  std::uint64_t all_ns = 0;
  for (const auto& one : world.processes) all_ns += one.ran_ns;
  EXPECT_GT(all_ns, 60'000 * kMs * 8 / 10);
  for (const auto& one : world.processes) EXPECT_GT(one.ran_ns, all_ns / 4);
  // Twenty times the wait for what the others have displaced.
  for (const auto& one : world.records) {
    const std::uint64_t length = one.record.until_ns - one.record.begun_ns;
    EXPECT_GE(length, 300 * kMs);
    EXPECT_LE(length, 500 * kMs);
  }
}

TEST(SliceWatch, TheLongestSliceIsTheBound) {
  World world(2);
  world.wait_ns = 300 * kMs;
  world.go_on(20'000 * kMs);
  ASSERT_TRUE(any_slices(world.records, world.now_ns));
  for (const auto& one : world.records) EXPECT_LE(one.record.until_ns - one.record.begun_ns, kLongest);
}

TEST(SliceWatch, WeightsScaleTheLength) {
  World world(2);
  world.wait_ns = 40 * kMs;
  world.records[1].weight = 300;
  world.records[0].weight = 100;
  world.go_on(60'000 * kMs);
  EXPECT_GT(world.processes[1].ran_ns, 2 * world.processes[0].ran_ns);
  EXPECT_GT(world.processes[0].ran_ns, 60'000 * kMs / 8);
}

TEST(SliceWatch, NobodyTakesTurnsWhereMemorySuffices) {
  World world(2);
  world.lacks = false;
  world.go_on(20'000 * kMs);
  EXPECT_FALSE(any_slices(world.records, world.now_ns));
}

TEST(SliceWatch, NobodyTakesTurnsUnlessAsked) {
  World world(2, 0);
  world.go_on(20'000 * kMs);
  EXPECT_EQ(world.records[0].record, SliceRecord());
}

// Each alone would thrash as well.
TEST(SliceWatch, TurnsThatGainNothingEnd) {
  World world(2);
  world.wait_ns = 1'000'000 * kMs;
  world.go_on(1'200 * kMs);
  ASSERT_TRUE(any_slices(world.records, world.now_ns));
  world.go_on(15'000 * kMs);
  EXPECT_FALSE(any_slices(world.records, world.now_ns));
  world.go_on(20'000 * kMs);
  EXPECT_FALSE(any_slices(world.records, world.now_ns)) << "not tried again at once";
}

TEST(SliceWatch, TurnsEndWhenOneOfTwoRests) {
  World world(2);
  world.go_on(10'000 * kMs);
  ASSERT_TRUE(any_slices(world.records, world.now_ns));
  world.processes[0].works = false;
  world.go_on(100 * kMs);
  EXPECT_FALSE(world.processes[1].watch.is_out_of_turn());
}

// At any time some are stopped, go on, are killed, rest. Whoever lives and works has its turn in bounded time.
TEST(SliceWatch, NobodyStarvesWhateverHappensToOthers) {
  for (unsigned seed = 0; seed < scaled_seeds(40); ++seed) {
    std::mt19937 random(seed);
    const std::size_t count = 2 + random() % 5;
    World world(count);
    world.wait_ns = random() % 200 * kMs;
    for (int step = 0; step < 3'000; ++step) {
      world.pass();
      if (random() % 50 == 0) {
        auto& one = world.processes[random() % count];
        const unsigned what = random() % 8;
        if (what == 0 && random() % 4 == 0) one.lives = false;
        if (what < 4) one.stands = !one.stands;
        if (what >= 4) one.works = !one.works;
        one.waits_since_ns = world.now_ns;
      }
      // Not every process looks each time, nor in the same order.
      for (std::size_t i = 0; i < count; ++i) {
        if (random() % 8 != 0) world.look(random() % 2 == 0 ? i : count - 1 - i);
      }
      for (const auto& one : world.processes) {
        if (!world.runs(one) || !one.watch.is_out_of_turn()) continue;
        ASSERT_LE(world.now_ns - one.waits_since_ns, count * (kLongest + 2 * kStoppedNs)) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace thermocline
