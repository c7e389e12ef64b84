// SPDX-License-Identifier: Apache-2.0
// Profiles and plans of small training steps whose right answers are obvious.
#include "offload/planning/planner.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "offload/planning/gap_choice.h"
#include "offload/planning/plan_timing.h"
#include "offload/planning/profile.h"
#include "tests/offload/chain.h"

namespace thermocline {
namespace {

// A block whose last buffer the program has freed, and the engine keeps for others, may get new ones (small buffers).
TEST(ProfileRecorder, WhatIsUsedAgainIsNoLongerFreed) {
  ProfileRecorder recorder;
  const auto use = [&](std::uint64_t serial) {
    const std::vector<ProfileRecorder::Operand> operands = {{serial, kActivation, kActivation, true}};
    static_cast<void>(recorder.add(operands, 1, 1000, 2 * kActivation));
  };
  use(1);
  recorder.freed(1);
  for (int turn = 0; turn < 4; ++turn) {
    use(1);
    use(2);
  }
  recorder.freed(1);
  const Profile profile = recorder.make(2);
  ASSERT_EQ(profile.buffers.size(), 2u);
  EXPECT_EQ(profile.buffers[0].death, 1u) << "behind the last operation";
}

void expect_the_same(const ProfileRecorder& one_recorder, const ProfileRecorder& other_recorder, std::size_t period) {
  ASSERT_EQ(one_recorder.size(), other_recorder.size());
  const Profile one = one_recorder.make(period), other = other_recorder.make(period);
  EXPECT_EQ(one.nanoseconds, other.nanoseconds);
  EXPECT_EQ(one.operand_buffers, other.operand_buffers);
  EXPECT_EQ(one.unplanned_bytes, other.unplanned_bytes);
  ASSERT_EQ(one.buffers.size(), other.buffers.size());
  for (std::size_t i = 0; i < one.buffers.size(); ++i) {
    EXPECT_EQ(one.buffers[i].latest_serial, other.buffers[i].latest_serial);
    EXPECT_EQ(one.buffers[i].uses, other.buffers[i].uses);
    EXPECT_EQ(one.buffers[i].birth, other.buffers[i].birth);
    EXPECT_EQ(one.buffers[i].death, other.buffers[i].death);
  }
}

// Adding an operation as an earlier one gives the same reuse and profile as adding it with its operands, also once half
// of the history has been forgotten, twice.
TEST(ProfileRecorder, AnOperationThatComesAgainIsStoredAsOneThatIsAdded) {
  ProfileRecorder plain, again;
  constexpr std::uint64_t kPeriod = 7;
  std::array<ProfileRecorder::Usage, kPeriod> usages;
  std::uint64_t stored_once = 0;
  for (std::uint64_t i = 0; i < 5 * PeriodDetector::kHistory / 2 + 3; ++i) {
    const std::uint64_t place = i % kPeriod, turn = i / kPeriod;
    // The last place gets a buffer of its own in every tenth turn.
    const std::uint64_t changing = place == 6 ? 100 + turn / 10 : place;
    const std::vector<ProfileRecorder::Operand> operands = {{1 + changing, kActivation, kActivation, true},
                                                            {50 + place / 2, kActivation, kActivation, true},
                                                            {90, kActivation, kActivation, false}};
    const Reuse expected = plain.add(operands, 2, 1000 + place, 9 * kActivation);
    ProfileRecorder::Usage& usage = usages[place];
    if (turn > 0 && again.is_stored(usage) && usage.used[0].serial == 1 + changing) {
      ASSERT_EQ(again.reuse_of(usage).buffer, expected.buffer) << i;
      ASSERT_EQ(again.reuse_of(usage).distance, expected.distance) << i;
      ASSERT_EQ(again.reuse_of(usage).age, expected.age) << i;
      again.add_again(usage, 1000 + place, 9 * kActivation);
      ++stored_once;
    } else {
      again.add(operands, 2, 1000 + place, 9 * kActivation);
      ASSERT_TRUE(again.usage_of_last(2, &usage));
    }
    if (i % 1001 == 1000) plain.freed(52), again.freed(52);
  }
  EXPECT_GT(stored_once, 2 * PeriodDetector::kHistory);
  for (const std::size_t period : {kPeriod, 10 * kPeriod}) expect_the_same(plain, again, period);
}

// As many as history has room for, and some that are never added, because nothing would be left of them.
TEST(ProfileRecorder, OperationsThatAreAddedLateAreStoredAsIfInTime) {
  constexpr std::uint64_t kPeriod = 7;
  for (const std::uint64_t steps : {std::uint64_t{3}, std::uint64_t{100}}) {
    const std::uint64_t unlearned = PeriodDetector::kLateAtOnce + steps * PeriodDetector::kForgottenAtOnce / 30 + 5;
    const std::uint64_t skipped =
        (unlearned - PeriodDetector::kLateAtOnce) / PeriodDetector::kForgottenAtOnce * PeriodDetector::kForgottenAtOnce;
    ProfileRecorder plain, late;
    std::array<ProfileRecorder::Usage, kPeriod> usages;
    std::uint64_t next = 0;
    const auto operands_of = [](std::uint64_t place) {
      return std::vector<ProfileRecorder::Operand>{{1 + place, kActivation, kActivation, true},
                                                   {50 + place / 2, kActivation, kActivation, true}};
    };
    for (; next < 1000 * kPeriod; ++next) {
      const std::uint64_t place = next % kPeriod;
      plain.add(operands_of(place), 2, 1000 + place, 9 * kActivation);
      late.add(operands_of(place), 2, 1000 + place, 9 * kActivation);
      ASSERT_TRUE(late.usage_of_last(2, &usages[place]));
    }
    for (std::uint64_t i = 0; i < unlearned; ++i, ++next) {
      const std::uint64_t place = next % kPeriod;
      plain.add(operands_of(place), 2, 1000 + place, 9 * kActivation);
    }
    late.skip(skipped);
    for (std::uint64_t i = next - (unlearned - skipped); i < next; ++i) {
      const std::uint64_t place = i % kPeriod;
      late.add_late(usages[place], 1000 + place, 9 * kActivation);
    }
    plain.freed(3), late.freed(3);
    expect_the_same(plain, late, kPeriod);
    expect_the_same(plain, late, 3 * kPeriod);
    const std::vector<ProfileRecorder::Operand> used = {{2, kActivation, kActivation, true}};
    const Reuse one = plain.add(used, 1, 1, 1), other = late.add(used, 1, 1, 1);
    EXPECT_EQ(one.distance, other.distance);
    EXPECT_EQ(one.age, other.age);
  }
}

// Programs allocate all that a step needs where it begins. What has not been used yet has no contents: it has no pages,
// or gives them up at once.
TEST(ProfileRecorder, WhatHasNotBeenUsedYetNeedsNoRoom) {
  ProfileRecorder recorder;
  constexpr Bytes kBuffers = 3;
  std::uint64_t serial = 100;
  recorder.allocated(1, kActivation);  // never used
  for (int turn = 0; turn < 2; ++turn) {
    for (Bytes i = 0; i < kBuffers; ++i) recorder.allocated(serial + i, kActivation);
    for (Bytes i = 0; i < kBuffers; ++i) {
      const std::vector<ProfileRecorder::Operand> operands = {{serial + i, kActivation, kActivation, true}};
      static_cast<void>(recorder.add(operands, 1, 1000, (kBuffers + 1) * kActivation));
    }
    for (Bytes i = 0; i < kBuffers; ++i) recorder.freed(serial + i);
    serial += kBuffers;
  }
  const Profile profile = recorder.make(kBuffers);
  ASSERT_EQ(profile.buffers.size(), kBuffers);
  for (std::uint32_t i = 0; i < kBuffers; ++i) {
    EXPECT_EQ(profile.buffers[i].birth, i);
    EXPECT_EQ(profile.unplanned_bytes[i], 0u);
  }
}

// It is freed without having been used.
TEST(ProfileRecorder, WhatIsFreedUnusedIsNotSubtractedFromOthers) {
  ProfileRecorder recorder;
  const std::vector<ProfileRecorder::Operand> operands = {{1, kActivation, kActivation, true}};
  for (int turn = 0; turn < 2; ++turn) {
    recorder.allocated(10, kActivation);
    recorder.freed(10);
    static_cast<void>(recorder.add(operands, 1, 1000, 3 * kActivation));
  }
  EXPECT_EQ(recorder.make(1).unplanned_bytes[0], 2 * kActivation);
}

// An operation that comes again counts it as little as one that is added.
TEST(ProfileRecorder, WhatHasNotBeenUsedYetNeedsNoRoomWhereAnOperationComesAgain) {
  ProfileRecorder recorder;
  const std::vector<ProfileRecorder::Operand> operands = {{1, kActivation, kActivation, true}};
  ProfileRecorder::Usage usage;
  static_cast<void>(recorder.add(operands, 1, 1000, 3 * kActivation));
  ASSERT_TRUE(recorder.usage_of_last(1, &usage));
  recorder.allocated(10, kActivation);
  recorder.add_again(usage, 1000, 4 * kActivation);
  EXPECT_EQ(recorder.make(1).unplanned_bytes[0], 2 * kActivation);
  recorder.add_late(usage, 1000, 4 * kActivation);
  EXPECT_EQ(recorder.make(1).unplanned_bytes[0], 2 * kActivation);
}

// A slab that small buffers have left and come to again.
TEST(ProfileRecorder, WhatHasBeenUsedStaysWhenItIsHandedOutAgain) {
  ProfileRecorder recorder;
  const std::vector<ProfileRecorder::Operand> operands = {{1, kActivation, kActivation, true}};
  for (int turn = 0; turn < 3; ++turn) {
    recorder.allocated(1, kActivation);
    static_cast<void>(recorder.add(operands, 1, 1000, 3 * kActivation));
    recorder.freed(1);
  }
  EXPECT_EQ(recorder.make(1).unplanned_bytes[0], 2 * kActivation);
}

TEST(Profile, NamesBuffersByTheirPlaceInTheIteration) {
  const Profile profile = profile_of(8);
  // Eight activations, the weights, and the gradient, a role that two blocks have alternately.
  EXPECT_EQ(profile.buffers.size(), 10u);
  EXPECT_EQ(profile.places(), 18u);
  int always = 0, around = 0;
  for (const ProfiledBuffer& buffer : profile.buffers) {
    always += buffer.always ? 1 : 0;
    around += !buffer.always && buffer.birth > buffer.death ? 1 : 0;
  }
  EXPECT_EQ(always, 1) << "the weights";
  EXPECT_EQ(around, 1) << "the gradient lives across the end of the iteration";
  EXPECT_EQ(peak_of(profile), 9 * kActivation) << "the gradient is gone before the last activation comes";
  for (const Bytes bytes : profile.unplanned_bytes) EXPECT_EQ(bytes, 0u);
}

// A copy takes as long as three operations, and memory becomes free long before it is needed.
TEST(Planner, AsksForReturnsBeforeTheLastMoment) {
  const Profile profile = profile_of(32, kOperationNs / 10);
  const Plan plan = plan_iteration(profile, peak_of(profile) - kActivation, kLink);
  ASSERT_TRUE(plan.fits);
  ASSERT_FALSE(plan.gaps.empty());
  const auto places = static_cast<std::uint32_t>(profile.places());
  for (const PlannedGap& gap : plan.gaps) {
    EXPECT_GE((gap.next_use + places - gap.fetch_after) % places, 3u) << "for the use at " << gap.next_use;
  }
}

TEST(Planner, PlansNothingWhenEverythingFits) {
  const Profile profile = profile_of(8);
  const Plan plan = plan_iteration(profile, peak_of(profile), kLink);
  EXPECT_TRUE(plan.fits);
  EXPECT_TRUE(plan.gaps.empty());
}

TEST(Planner, CoversThePeakAtEveryPlace) {
  const Profile profile = profile_of(24);
  for (const unsigned percent : {90u, 70u, 50u, 30u}) {
    const Bytes limit = peak_of(profile) / 100 * percent;
    const Plan plan = plan_iteration(profile, limit, kLink);
    ASSERT_TRUE(plan.fits) << percent;
    for (std::uint32_t q = 0; q < profile.places(); ++q) {
      Bytes load = profile.unplanned_bytes[q];
      for (std::uint32_t i = 0; i < profile.buffers.size(); ++i) {
        const ProfiledBuffer& buffer = profile.buffers[i];
        const bool alive = buffer.always || (buffer.birth <= buffer.death ? buffer.birth <= q && q <= buffer.death
                                                                          : q <= buffer.death || q >= buffer.birth);
        Bytes evicted = 0;
        for (const PlannedGap& gap : plan.gaps) {
          if (gap.buffer != i) continue;
          // Evicted from after `last_use` until after `fetch_after`.
          const std::uint32_t since = (q + static_cast<std::uint32_t>(profile.places()) - gap.last_use) %
                                      static_cast<std::uint32_t>(profile.places());
          const std::uint32_t until = (gap.fetch_after + static_cast<std::uint32_t>(profile.places()) - gap.last_use) %
                                      static_cast<std::uint32_t>(profile.places());
          if (since > 0 && since <= until) evicted += static_cast<Bytes>(nonresident_bytes(gap, profile));
        }
        EXPECT_LE(evicted, buffer.bytes);
        if (alive) load += buffer.bytes - evicted;
      }
      EXPECT_LE(load, limit) << "at place " << q << " with " << percent << " %";
    }
  }
}

// A launch waits where the driver's queue is full (1,024 operations), so a copy behind it begins no earlier either.
TEST(PlanTiming, ACopyBeginsWhenTheHostGetsThere) {
  constexpr std::uint32_t kPlaces = 4000, kFetchAfter = 3500, kQueued = 1024;
  constexpr std::uint64_t kNs = 10'000;
  const auto units = static_cast<std::uint32_t>(units_of(kActivation));
  Profile profile;
  profile.nanoseconds.assign(kPlaces, kNs);
  profile.buffers.push_back({.bytes = kActivation, .contents = kActivation, .always = true, .uses = {0, kPlaces - 1}});
  profile.first_operand.assign(kPlaces + 1, 1);
  profile.first_operand.front() = 0;
  profile.first_operand.back() = 2;
  profile.operand_buffers = {0, 0};
  profile.unplanned_bytes.assign(kPlaces, 0);
  Plan plan;
  plan.gaps.push_back(
      {.buffer = 0, .units = units, .last_use = 0, .next_use = kPlaces - 1, .fetch_after = kFetchAfter});
  plan.index(kPlaces);
  // It takes as long as 2,000 operations.
  const Link link{.out_bytes_per_ns = 1e6, .in_bytes_per_ns = static_cast<double>(kActivation) / (2000.0 * kNs)};
  const PlanTiming timing = PlanTimer(profile, kActivation, link).time(plan);
  ASSERT_TRUE(timing.runs);
  const double arrives = (kFetchAfter - kQueued + 2000) * static_cast<double>(kNs);
  EXPECT_NEAR(timing.starts.back(), arrives, 20 * kNs) << "of which each unit takes some to be mapped";
}

TEST(Planner, HidesTransfersBehindComputingWhenTheLinkAllows) {
  const Profile profile = profile_of(24);
  double compute = 0;
  for (const std::uint64_t ns : profile.nanoseconds) compute += static_cast<double>(ns);
  const Plan plan = plan_iteration(profile, peak_of(profile) / 2, kLink);
  ASSERT_TRUE(plan.fits);
  EXPECT_GT(plan.gaps.size(), 10u);
  EXPECT_LT(plan.predicted_ns, compute * 1.05);
}

TEST(Planner, IsBoundByASlowLinkAndSaysSo) {
  const Profile profile = profile_of(24);
  const Bytes limit = peak_of(profile) / 2;
  const Link slow{2, 2};
  const Plan plan = plan_iteration(profile, limit, slow);
  ASSERT_TRUE(plan.fits);
  // The bytes above the limit at the peak must be evicted before it and fetched after it.
  const double transfer = static_cast<double>(peak_of(profile) - limit - 2 * kActivation) / 2;
  EXPECT_GT(plan.predicted_ns, 2 * transfer);
}

TEST(Planner, WhatFreesTheSameMemoryForLessCopyingLeavesWhereTheLinkIsShort) {
  Chain chain(24, kOperationNs / 100, kActivation / 8);
  const Profile profile = chain.record(4).make(chain.operations_per_turn());
  const Plan plan = plan_iteration(profile, peak_of(profile) - 6 * kActivation, kLink);
  ASSERT_TRUE(plan.fits);
  ASSERT_FALSE(plan.gaps.empty());
  for (const PlannedGap& gap : plan.gaps) EXPECT_LT(profile.buffers[gap.buffer].density(), 0.2) << gap.last_use;
}

TEST(Planner, EvictsOnlyAsManyUnitsAsAreNeeded) {
  const Profile profile = profile_of(24);
  const Bytes missing = kUnitBytes;  // half an activation
  const Plan plan = plan_iteration(profile, peak_of(profile) - missing, kLink);
  ASSERT_TRUE(plan.fits);
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(static_cast<Bytes>(nonresident_bytes(plan.gaps.front(), profile)), missing);
}

// Programs may keep buffers that they no longer use until a step ends. Two such buffers, one of which fits.
TEST(Planner, WhatIsNotUsedAgainLeavesForGood) {
  Profile profile;
  profile.nanoseconds.assign(6, 10 * kOperationNs);
  profile.unplanned_bytes.assign(6, 0);
  profile.buffers = {{.bytes = kActivation, .contents = kActivation, .birth = 0, .death = 5, .uses = {0}},
                     {.bytes = kActivation, .contents = kActivation, .birth = 2, .death = 4, .uses = {2, 3, 4}}};
  profile.first_operand = {0, 1, 1, 2, 3, 4, 4};
  profile.operand_buffers = {0, 1, 1, 1};
  const Plan plan = plan_iteration(profile, kActivation, kLink);
  ASSERT_TRUE(plan.fits);
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(plan.gaps.front().buffer, 0u);
  EXPECT_EQ(plan.gaps.front().last_use, 0u);
  EXPECT_FALSE(plan.gaps.front().is_fetched);
  for (std::size_t place = 0; place < plan.fetches.size(); ++place) EXPECT_TRUE(plan.fetches[place].empty());
}

// Also a buffer whose life begins in one iteration and ends in the next.
TEST(Planner, WhatIsNotUsedAgainLeavesForGoodAcrossTheEndOfAnIteration) {
  Profile profile;
  profile.nanoseconds.assign(6, 10 * kOperationNs);
  profile.unplanned_bytes.assign(6, 0);
  profile.buffers = {{.bytes = kActivation, .contents = kActivation, .birth = 3, .death = 2, .uses = {3}},
                     {.bytes = kActivation, .contents = kActivation, .birth = 0, .death = 1, .uses = {0, 1}}};
  profile.first_operand = {0, 1, 2, 2, 3, 3, 3};
  profile.operand_buffers = {1, 1, 0};
  const Plan plan = plan_iteration(profile, kActivation, kLink);
  ASSERT_TRUE(plan.fits);
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(plan.gaps.front().buffer, 0u);
  EXPECT_FALSE(plan.gaps.front().is_fetched);
}

// At place 2 one of two buffers has to leave: the first is not used again, the second is, but later than the first dies.
TEST(Planner, MayPreferGapsAfterALastUse) {
  Profile profile;
  profile.nanoseconds.assign(6, kOperationNs);
  profile.unplanned_bytes.assign(6, 0);
  profile.buffers = {{.bytes = kActivation, .contents = kActivation, .birth = 0, .death = 3, .uses = {0}},
                     {.bytes = kActivation, .contents = kActivation, .birth = 0, .death = 5, .uses = {0, 5}},
                     {.bytes = kActivation, .contents = kActivation, .birth = 2, .death = 2, .uses = {2}}};
  profile.first_operand = {0, 2, 2, 3, 3, 3, 4};
  profile.operand_buffers = {0, 1, 2, 1};
  const GapChooser chooser(profile, 2.0 * kActivation);
  const auto is_evicted = [&](bool unreturned_first, std::uint32_t buffer) {
    const auto chosen = chooser.choose({.preference = Preference::kReach, .unreturned_first = unreturned_first});
    std::uint32_t units = 0;
    for (std::uint32_t g = 0; chosen && g < chosen->size(); ++g) {
      if (chooser.gaps()[g].buffer == buffer) units += (*chosen)[g];
    }
    return units > 0;
  };
  EXPECT_TRUE(is_evicted(true, 0));
  EXPECT_FALSE(is_evicted(true, 1));
  EXPECT_FALSE(is_evicted(false, 0));
  EXPECT_TRUE(is_evicted(false, 1));
}

TEST(Planner, RefusesWhatCanNotFit) {
  const Profile profile = profile_of(8);
  const Plan plan = plan_iteration(profile, kActivation, kLink);
  EXPECT_FALSE(plan.fits);
}

TEST(Planner, GivesTheSamePlanForTheSameProfile) {
  const Profile profile = profile_of(16);
  const Plan a = plan_iteration(profile, peak_of(profile) / 2, kLink),
             b = plan_iteration(profile, peak_of(profile) / 2, kLink);
  ASSERT_EQ(a.gaps.size(), b.gaps.size());
  for (std::size_t i = 0; i < a.gaps.size(); ++i) {
    EXPECT_EQ(a.gaps[i].buffer, b.gaps[i].buffer);
    EXPECT_EQ(a.gaps[i].fetch_after, b.gaps[i].fetch_after);
  }
  EXPECT_EQ(a.predicted_ns, b.predicted_ns);
}

}  // namespace
}  // namespace thermocline
