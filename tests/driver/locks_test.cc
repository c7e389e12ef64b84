// SPDX-License-Identifier: Apache-2.0
#include "driver/locks.h"

#include <gtest/gtest.h>

#include <thread>

namespace thermocline {
namespace {

// A broken rule ends the process, so each test sets the switch in a process of its own.
class Locks : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    locks_are_checked.store(true);
  }
  void TearDown() override { locks_are_checked.store(false); }

  // Code that clang's analysis rejects, and gcc compiles.
  void take_twice(Mutex& mutex) THERMOCLINE_NOT_ANALYSED {
    mutex.lock();
    mutex.lock();
  }

  void leave_as_it_was(Mutex& mutex) THERMOCLINE_NOT_ANALYSED {
    ASSERT_TRUE(mutex.try_lock_at_once());
    mutex.unlock_as_it_was();
  }

  bool takes_again(Mutex& mutex) THERMOCLINE_NOT_ANALYSED {
    if (!mutex.try_lock_again()) return false;
    mutex.unlock_as_it_was();
    return true;
  }

  void read_and_write(SharedMutex& mutex) THERMOCLINE_NOT_ANALYSED {
    mutex.lock_shared();
    mutex.lock();
  }

  Mutex outer_{"outer", 1};
  Mutex inner_{"inner", 2};
  Mutex other_inner_{"other inner", 2};
  Mutex innermost_{"innermost", 3};
};

TEST_F(Locks, RisingLevelsAreTakenTogether) {
  const MutexLock one(outer_);
  const MutexLock two(inner_);
  EXPECT_EQ(locks_held(), 2);
}

TEST_F(Locks, AFallingLevelEndsTheProcess) {
  EXPECT_DEATH(
      {
        const MutexLock one(inner_);
        const MutexLock two(outer_);
      },
      "lock outer \\(level 1\\) is taken out of order, behind: inner \\(level 2\\)");
}

TEST_F(Locks, OneThatIsHeldAlreadyEndsTheProcessRatherThanDeadlock) { EXPECT_DEATH(take_twice(outer_), "lock outer"); }

TEST_F(Locks, IsTakenAgainOnlyIfNobodyElseHasHadIt) {
  locks_are_checked.store(false);
  Mutex mutex("again", 1);
  EXPECT_FALSE(takes_again(mutex));
  leave_as_it_was(mutex);
  EXPECT_TRUE(takes_again(mutex));
  EXPECT_TRUE(takes_again(mutex));
  {
    const MutexLock by_somebody(mutex);
    EXPECT_FALSE(takes_again(mutex));
  }
  EXPECT_FALSE(takes_again(mutex));
  leave_as_it_was(mutex);
  const bool taken = mutex.try_lock();
  ASSERT_TRUE(taken);
  if (taken) mutex.unlock();
  EXPECT_FALSE(takes_again(mutex));
}

// Two threads by turns, each of which takes it in either way and sometimes waits.
TEST_F(Locks, ThoseWhoTakeItAgainExcludeTheOthers) {
  locks_are_checked.store(false);
  Mutex mutex("again", 1);
  int counted = 0;
  const auto count = [&]() THERMOCLINE_NOT_ANALYSED {
    for (int i = 0; i < 20'000; ++i) {
      if (!mutex.try_lock_again()) mutex.lock();
      ++counted;
      i % 3 == 0 ? mutex.unlock() : mutex.unlock_as_it_was();
    }
  };
  std::thread other(count);
  count();
  other.join();
  EXPECT_EQ(counted, 40'000);
}

TEST_F(Locks, TwoOfOneLevelEndTheProcess) {
  EXPECT_DEATH(
      {
        const MutexLock one(inner_);
        const MutexLock two(other_inner_);
      },
      "lock other inner");
}

TEST_F(Locks, WhatWouldNotWaitMayBeTriedInAnyOrder) {
  const MutexLock one(inner_);
  const bool taken = outer_.try_lock();
  EXPECT_TRUE(taken);
  if (taken) outer_.unlock();
  EXPECT_EQ(locks_held(), 1);
}

TEST_F(Locks, TheFirstMayBeGivenBackFirst) {
  MutexLock one(outer_);
  const MutexLock two(inner_);
  one.unlock();
  // Behind `inner` alone.
  const MutexLock three(innermost_);
  EXPECT_EQ(locks_held(), 2);
  EXPECT_DEATH({ const MutexLock four(outer_); }, "behind: inner \\(level 2\\) innermost \\(level 3\\)");
}

TEST_F(Locks, ReadersAndWritersTakeTurnsInOrderToo) {
  SharedMutex table("table", 2);
  {
    const MutexLock one(outer_);
    const ReaderLock two(table);
    const MutexLock three(innermost_);
    EXPECT_EQ(locks_held(), 3);
  }
  EXPECT_DEATH(read_and_write(table), "lock table \\(level 2\\) is taken out of order");
  const WriterLock two(table);
  EXPECT_DEATH({ const MutexLock one(outer_); }, "lock outer \\(level 1\\) is taken out of order, behind: table");
  EXPECT_DEATH(about_to_wait("cuCtxSynchronize"), "while a lock is held: table");
}

TEST_F(Locks, WaitsAreForgivenWithOneThatSaysSoButNotItsOrder) {
  SharedMutex in_use("in use", 2, LockLevel::Waits::kForgiven);
  const ReaderLock one(in_use);
  about_to_wait("cuCtxSynchronize");
  EXPECT_EQ(locks_held(), 0);
  EXPECT_DEATH({ const MutexLock two(outer_); }, "lock outer \\(level 1\\) is taken out of order, behind: in use");
  const MutexLock two(innermost_);
  EXPECT_DEATH(about_to_wait("cuCtxSynchronize"), "while a lock is held: in use \\(level 2\\) innermost");
}

TEST_F(Locks, ACallThatAddsToAStreamEndsTheProcessUnlessItWasAskedForRoom) {
  const MutexLock one(outer_);
  about_to_queue("cuLaunchKernel");  // nobody has blocked a stream
  queues_are_counted.store(true);
  EXPECT_DEATH(about_to_queue("cuLaunchKernel"), "cuLaunchKernel may wait for room in a stream's queue while a lock");
  queue_has_room(true);
  about_to_queue("cuLaunchKernel");
  queue_has_room(false);
  EXPECT_DEATH(about_to_queue("cuLaunchKernel"), "room in a stream's queue");
  queues_are_counted.store(false);
}

TEST_F(Locks, AMappingCallEndsTheProcessUnlessItWasAskedWhetherItWaits) {
  mapping_may_be_called();  // no lock is held: what it was asked for is over
  MutexLock one(outer_);
  about_to_map("cuMemUnmap");  // the driver has not been found to wait
  mapping_waits_for_streams.store(true);
  EXPECT_DEATH(about_to_map("cuMemUnmap"), "cuMemUnmap may wait for a blocked stream while a lock is held: outer");
  mapping_may_be_called();
  about_to_map("cuMemUnmap");
  one.unlock();
  one.lock();
  EXPECT_DEATH(about_to_map("cuMemUnmap"), "cuMemUnmap may wait");
  const WaitsInPlace in_place;
  about_to_map("cuMemUnmap");
  mapping_waits_for_streams.store(false);
}

TEST_F(Locks, AWaitForTheDeviceEndsTheProcessUnlessItIsMarked) {
  const MutexLock one(outer_);
  EXPECT_DEATH(about_to_wait("cuCtxSynchronize"), "cuCtxSynchronize waits for the device while a lock is held: outer");
  const WaitsInPlace in_place;
  about_to_wait("cuCtxSynchronize");
}

}  // namespace
}  // namespace thermocline
