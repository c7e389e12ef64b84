// SPDX-License-Identifier: Apache-2.0
// Rehearsals, and digests of what is dropped and made again, on the simulated device with real memory.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/offload/verification_fixture.h"

namespace thermocline {
namespace {

// Plans of all engines that counted on a kernel are out of date once it is refused.
TEST(KernelTrial, EachRefusalCountsOnceForTheProcess) {
  const std::uint64_t before = KernelTrial::refusals();
  KernelTrial trial("kernel");
  EXPECT_TRUE(trial.give_up());
  EXPECT_FALSE(trial.give_up());
  EXPECT_EQ(KernelTrial::refusals(), before + 1);
  EXPECT_TRUE(trial.differed());
  EXPECT_FALSE(trial.differed());
  EXPECT_EQ(KernelTrial::refusals(), before + 2);
}

// A shortage at one launch lasts for the next ones, too: these do not use up all tries that a kernel has.
TEST(KernelTrial, TriesThatCameToNothingAreApart) {
  KernelTrial trial("kernel");
  std::uint32_t launches = 0, tries = 0;
  for (; trial.state() == KernelTrial::State::kOnTrial && launches < 1000; ++launches) {
    if (!trial.begin_rehearsal()) continue;
    ++tries;
    trial.rehearsal_ended(KernelTrial::Outcome::kInVain);
  }
  EXPECT_EQ(trial.state(), KernelTrial::State::kGivenUp);
  EXPECT_EQ(tries, KernelTrial::kMostInVain);
  EXPECT_GT(launches, 6 * KernelTrial::kMostInVain);
  KernelTrial other("other");
  EXPECT_TRUE(other.begin_rehearsal());
  other.rehearsal_ended(KernelTrial::Outcome::kInVain);
  EXPECT_FALSE(other.begin_rehearsal());
  for (std::uint32_t i = 0; i < KernelTrial::kEqualRehearsals; ++i) {
    ASSERT_TRUE(other.begin_rehearsal());
    other.rehearsal_ended(KernelTrial::Outcome::kEqual);
  }
  EXPECT_TRUE(other.is_promoted());
}

TEST_F(VerificationTest, WhatAKernelOnTrialMadeIsNotDropped) {
  start();
  for (unsigned i = 0; i < 2 * KernelTrial::kEqualRehearsals; ++i) {
    make();
    if (trial_.is_promoted()) break;
    EXPECT_FALSE(engine_->drop(to_).ok());
    synchronize();
  }
  EXPECT_TRUE(trial_.is_promoted());
  EXPECT_TRUE(engine_->drop(to_).ok());
  const EngineStatistics s = statistics();
  EXPECT_EQ(s.rehearsed_launches, KernelTrial::kEqualRehearsals);
  EXPECT_EQ(s.verified_results, KernelTrial::kEqualRehearsals);
  EXPECT_EQ(s.promoted_kernels, 1u);
  EXPECT_EQ(s.demoted_kernels + s.mismatched_results, 0u);
  EXPECT_EQ(s.recomputed_operations, 0u);
  EXPECT_EQ(trial_.reruns(), 0u);
  for (const DeviceAddress into : ran_into_) EXPECT_NE(into, to_);
}

TEST_F(VerificationTest, AKernelWhoseRehearsalDiffersNeverRunsAgain) {
  start();
  std::memset(pinned_, 9, kSize);
  upload(other_);
  differs_ = true;
  for (int i = 0; i < 6; ++i) {
    make();
    EXPECT_FALSE(engine_->drop(to_).ok());
    synchronize();
  }
  EXPECT_EQ(trial_.state(), KernelTrial::State::kDemoted);
  ASSERT_EQ(told_.size(), 1u) << "once of each kernel";
  EXPECT_EQ(told_[0].kernel, &trial_);
  EXPECT_FALSE(told_[0].in_use);
  EXPECT_EQ(statistics().demoted_kernels, 1u);
  EXPECT_EQ(read(to_), 5) << "the program has its own";
  const std::size_t runs = ran_into_.size();
  make();
  EXPECT_EQ(ran_into_.size(), runs);
}

// Scratch memory holds what others left there.
TEST_F(VerificationTest, AKernelThatLeavesSomeOfItsOutputIsFound) {
  start();
  writes_less_ = true;
  for (int i = 0; i < 4; ++i) {
    make();
    synchronize();
  }
  read(other_);
  EXPECT_EQ(trial_.state(), KernelTrial::State::kDemoted);
}

TEST_F(VerificationTest, WhatIsUpdatedInPlaceIsUpdatedOnce) {
  start();
  for (unsigned char value = 10; value < 16; ++value) {
    std::memset(pinned_, value, kSize);
    upload(to_);
    update();
    EXPECT_EQ(read(to_, kHalf), value);
  }
  EXPECT_TRUE(trial_.is_promoted());
  for (const DeviceAddress into : ran_into_) EXPECT_NE(into, to_);
  EXPECT_TRUE(told_.empty());
}

TEST_F(VerificationTest, WhatIsMadeAgainIsComparedWithWhatWasDropped) {
  start();
  promote();
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  EXPECT_EQ(read(to_), 5);
  read(other_);
  EXPECT_EQ(statistics().verified_results, KernelTrial::kEqualRehearsals + 1);
  EXPECT_EQ(trial_.reruns(), 1u);
  EXPECT_TRUE(told_.empty());
}

TEST_F(VerificationTest, ADifferenceInUseIsReported) {
  start();
  promote();
  std::memset(pinned_, 9, kSize);
  upload(other_);
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  differs_ = true;
  EXPECT_EQ(read(to_), 9);
  read(other_);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(told_[0].in_use);
  EXPECT_EQ(told_[0].bytes, kSize);
  EXPECT_EQ(told_[0].kernel, &trial_);
  EXPECT_EQ(trial_.state(), KernelTrial::State::kDemoted);
  EXPECT_EQ(statistics().mismatched_results, 1u);
  EXPECT_EQ(statistics().demoted_kernels, 1u);
  make();
  EXPECT_FALSE(engine_->drop(to_).ok());
}

// The first kernel made what the second one read, and both ran again for it.
TEST_F(VerificationTest, AKernelThatIsDemotedBesideAnotherIsToldToo) {
  start(Safety::kStrict, 34 * kDefaultPageBytes);
  const DeviceAddress next = allocate();
  for (unsigned i = 0; i < KernelTrial::kEqualRehearsals + 3; ++i) {
    make();
    make_next(next);
    synchronize();
  }
  read(other_);
  ASSERT_TRUE(trial_.is_promoted() && next_trial_.is_promoted());
  std::memset(pinned_, 9, kSize);
  upload(other_);
  make();
  make_next(next);
  ASSERT_TRUE(engine_->drop(to_).ok());
  ASSERT_TRUE(engine_->drop(next).ok());
  differs_ = true;
  EXPECT_EQ(read(next), 9);
  read(other_);
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_TRUE(trial_.is_demoted() && next_trial_.is_demoted());
  for (const RerunMismatch& mismatch : told_) EXPECT_TRUE(mismatch.in_use);
  EXPECT_EQ(told_[0].maker, nullptr);
  EXPECT_EQ(told_[1].maker, told_[0].kernel);
  EXPECT_NE(told_[1].kernel, told_[0].kernel);
  EXPECT_EQ(statistics().demoted_kernels, 2u);
}

TEST_F(VerificationTest, ALaunchWithTwoOutputsIsRehearsedDroppedAndMadeAgain) {
  start(Safety::kStrict, 34 * kDefaultPageBytes);
  const DeviceAddress second = allocate();
  for (unsigned i = 0; i < KernelTrial::kEqualRehearsals + 2 && !trial_.is_promoted(); ++i) {
    make_two(second);
    synchronize();
  }
  read(other_);
  ASSERT_TRUE(trial_.is_promoted());
  EXPECT_EQ(statistics().digests, 4 * KernelTrial::kEqualRehearsals) << "of both, each time it ran";
  EXPECT_EQ(statistics().verified_results, KernelTrial::kEqualRehearsals);
  make_two(second);
  ASSERT_TRUE(engine_->drop(to_).ok());
  ASSERT_TRUE(engine_->drop(second).ok());
  engine_->validate();
  EXPECT_EQ(read(second), 5);
  EXPECT_EQ(read(to_), 5);
  read(other_);
  EXPECT_EQ(statistics().recomputed_buffers, 2u);
  EXPECT_EQ(statistics().mismatched_results + statistics().unverified_results, 0u);
  EXPECT_EQ(statistics().verified_results, KernelTrial::kEqualRehearsals + 2);
  EXPECT_TRUE(told_.empty());
}

TEST_F(VerificationTest, OfTwoOutputsEachHasToComeOutTheSame) {
  start(Safety::kStrict, 34 * kDefaultPageBytes);
  const DeviceAddress second = allocate();
  std::memset(pinned_, 9, kSize);
  upload(other_);
  second_differs_ = true;
  for (int i = 0; i < 3; ++i) {
    make_two(second);
    synchronize();
  }
  EXPECT_EQ(read(second), 5) << "the program has its own";
  EXPECT_TRUE(trial_.is_demoted());
  EXPECT_FALSE(engine_->drop(to_).ok());
  EXPECT_EQ(statistics().demoted_kernels, 1u);
}

// Whatever made it is the only one that can make it again.
TEST_F(VerificationTest, WhatWasDroppedBeforeItsKernelWasDemotedIsMadeAgain) {
  start();
  promote();
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  EXPECT_TRUE(trial_.differed());
  EXPECT_EQ(read(to_), 5);
  EXPECT_EQ(statistics().recomputed_operations, 1u);
}

TEST_F(VerificationTest, TrustingComparesNothingInUse) {
  start(Safety::kTrusting);
  promote();
  const std::uint64_t digests = statistics().digests;
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  EXPECT_EQ(read(to_), 5);
  EXPECT_EQ(statistics().digests, digests);
  EXPECT_EQ(statistics().recomputed_operations, 1u);
}

TEST_F(VerificationTest, WhatIsOverwrittenIsNotCompared) {
  start();
  promote();
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  std::memset(pinned_, 7, kSize);
  upload(to_);
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  ASSERT_TRUE(engine_->free(to_, kStream).ok());
  read(other_);
  EXPECT_EQ(statistics().verified_results, KernelTrial::kEqualRehearsals);
  EXPECT_EQ(statistics().unverified_results, 0u);
  EXPECT_EQ(statistics().mismatched_results, 0u);
}

TEST_F(VerificationTest, WithoutDigestsNothingIsDropped) {
  start(Safety::kTrusting, 24 * kDefaultPageBytes, refuse_modules);
  for (int i = 0; i < 6; ++i) {
    make();
    EXPECT_FALSE(engine_->drop(to_).ok());
    synchronize();
  }
  EXPECT_EQ(trial_.state(), KernelTrial::State::kGivenUp);
  EXPECT_TRUE(ran_into_.empty());
  EXPECT_EQ(statistics().digests_unavailable, 1u);
}

// A buffer updated in place and its scratch memory exceed the budget. The program's operation runs even so.
TEST_F(VerificationTest, WhereThereIsNoRoomNothingIsRehearsed) {
  start(Safety::kStrict, 8 * kDefaultPageBytes);
  for (unsigned i = 0; i < (KernelTrial::kMostInVain + 1) * (KernelTrial::kLargestGap + 1); ++i) {
    update();
    EXPECT_EQ(read(to_), 5);
  }
  EXPECT_EQ(trial_.state(), KernelTrial::State::kGivenUp);
  EXPECT_TRUE(ran_into_.empty());
  EXPECT_EQ(statistics().rehearsed_launches, KernelTrial::kMostInVain);
  EXPECT_EQ(statistics().out_of_memory, 0u);
}

// A launch that returns success, and nothing has run: its records are missing.
TEST_F(VerificationTest, ALostDigestProvesNothing) {
  start();
  promote();
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  launches.lost_from = launches.made;
  EXPECT_EQ(read(to_), 5);
  read(other_);
  EXPECT_EQ(statistics().unverified_results, 1u);
  EXPECT_TRUE(trial_.is_promoted());
  EXPECT_TRUE(told_.empty());
}

TEST_F(VerificationTest, WhileEverythingFitsNothingIsRehearsed) {
  start(Safety::kStrict, 64 * kDefaultPageBytes);
  for (int i = 0; i < 6; ++i) {
    make();
    synchronize();
  }
  EXPECT_EQ(statistics().rehearsed_launches, 0u);
  EXPECT_EQ(launches.made, 0u);
}

}  // namespace
}  // namespace thermocline
