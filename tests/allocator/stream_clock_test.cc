// SPDX-License-Identifier: Apache-2.0
#include "allocator/stream_clock.h"

#include <thread>

#include <gtest/gtest.h>

#include "tests/allocator/fake_driver.h"

namespace thermocline {
namespace {

class StreamClockTest : public testing::Test {
 protected:
  FakeDriver fake;
  Driver driver{fake.table()};
  std::unique_ptr<StreamClock> clock = std::make_unique<StreamClock>(driver);
  StreamHandle handle_a = fake.create_stream();
  StreamHandle handle_b = fake.create_stream();
  StreamIndex a = clock->index_of(handle_a);
  StreamIndex b = clock->index_of(handle_b);

  Use submit(StreamIndex stream) {
    fake.submit(clock->handle_of(stream));
    return {stream, clock->advance(stream)};
  }
  void TearDown() override {
    if (clock != nullptr) clock->validate();
    clock.reset();
    EXPECT_EQ(fake.events(), 0u) << "every event is destroyed";
    for (const std::string& error : fake.errors()) ADD_FAILURE() << error;
  }
};

TEST_F(StreamClockTest, KnowsAHandleAgain) {
  EXPECT_NE(a, b);
  EXPECT_EQ(clock->index_of(handle_a), a);
  EXPECT_EQ(clock->handle_of(b), handle_b);
  EXPECT_NE(clock->index_of(StreamHandle{0}), clock->index_of(StreamHandle{1}))
      << "the legacy handles are streams of their own";
}

TEST_F(StreamClockTest, WorkPassesOnlyWhenItHasRun) {
  const Use use = submit(a);
  EXPECT_FALSE(clock->passed(use));
  fake.run_all();
  EXPECT_TRUE(clock->passed(use));
  const std::uint64_t calls = fake.calls();
  EXPECT_TRUE(clock->passed(use));
  EXPECT_EQ(fake.calls(), calls) << "what has passed is not asked again";
}

TEST_F(StreamClockTest, EarlierWorkPassesBeforeLaterWork) {
  const Use first = submit(a);
  ASSERT_TRUE(clock->fence(a).ok());
  const Use second = submit(a);
  EXPECT_FALSE(clock->passed(second));
  ASSERT_TRUE(fake.step(handle_a));
  EXPECT_TRUE(clock->passed(first));
  EXPECT_FALSE(clock->passed(second));
}

TEST_F(StreamClockTest, AskingRecordsTheFenceThatALaterQuestionFinds) {
  const Use first = submit(a);
  EXPECT_FALSE(clock->passed(first));
  const Use second = submit(a);
  EXPECT_FALSE(clock->passed(second));
  EXPECT_EQ(fake.calls("cuEventRecord"), 2u);
}

TEST_F(StreamClockTest, AFenceIsRecordedOncePerState) {
  submit(a);
  ASSERT_TRUE(clock->fence(a).ok());
  ASSERT_TRUE(clock->fence(a).ok());
  EXPECT_EQ(fake.calls("cuEventRecord"), 1u);
  ASSERT_TRUE(clock->fence(b).ok());
  EXPECT_EQ(fake.calls("cuEventRecord"), 1u) << "nothing was submitted to b";
}

TEST_F(StreamClockTest, WaitingTwiceForTheSameCostsOneWait) {
  const Use first = submit(a);
  const Use second = submit(a);
  ASSERT_TRUE(clock->wait(b, second).ok());
  EXPECT_EQ(fake.calls("cuStreamWaitEvent"), 1u);
  ASSERT_TRUE(clock->wait(b, second).ok());
  ASSERT_TRUE(clock->wait(b, first).ok());
  EXPECT_EQ(fake.calls("cuStreamWaitEvent"), 1u);
  EXPECT_EQ(fake.calls("cuEventRecord"), 1u);
}

TEST_F(StreamClockTest, AStreamNeedNotWaitForItself) {
  const Use use = submit(a);
  const std::uint64_t calls = fake.calls();
  ASSERT_TRUE(clock->wait(a, use).ok());
  EXPECT_EQ(fake.calls(), calls);
}

TEST_F(StreamClockTest, NobodyWaitsForWhatHasPassed) {
  const Use use = submit(a);
  fake.run_all();
  clock->synchronized(a);
  const std::uint64_t calls = fake.calls();
  ASSERT_TRUE(clock->wait(b, use).ok());
  EXPECT_EQ(fake.calls(), calls);
}

TEST_F(StreamClockTest, AWaiterRunsAfterWhatItWaitsFor) {
  const Use use = submit(a);
  UseSet uses;
  uses.add(use);
  ASSERT_TRUE(clock->wait_all(b, uses).ok());
  submit(b);
  EXPECT_FALSE(fake.step(handle_b));
  EXPECT_TRUE(fake.step(handle_a));
  EXPECT_TRUE(fake.step(handle_b));
}

TEST_F(StreamClockTest, SynchronizeBlocksUntilPassed) {
  UseSet uses;
  uses.add(submit(a));
  uses.add(submit(b));
  ASSERT_TRUE(clock->synchronize(uses).ok());
  EXPECT_TRUE(clock->passed(uses));
  EXPECT_EQ(clock->host_waits(), 2u);
  ASSERT_TRUE(clock->synchronize(uses).ok());
  EXPECT_EQ(clock->host_waits(), 2u);
}

TEST_F(StreamClockTest, SynchronizedAllMeansEverythingSubmitted) {
  const Use first = submit(a);
  const Use second = submit(b);
  clock->synchronized_all();
  EXPECT_TRUE(clock->passed(first));
  EXPECT_TRUE(clock->passed(second));
  EXPECT_EQ(fake.calls("cuEventQuery"), 0u);
}

TEST_F(StreamClockTest, EventsAreUsedAgain) {
  for (int i = 0; i < 100; ++i) {
    const Use use = submit(a);
    ASSERT_TRUE(clock->synchronize(use).ok());
  }
  EXPECT_EQ(fake.calls("cuEventCreate"), 1u);
}

TEST_F(StreamClockTest, ManyFencesAreThinnedOutAndStillTellTheTruth) {
  std::vector<Use> uses;
  for (int i = 0; i < 10000; ++i) {
    uses.push_back(submit(a));
    ASSERT_TRUE(clock->fence(a).ok());
  }
  EXPECT_LE(fake.events(), 5000u);
  clock->validate();
  for (std::size_t i = 0; i < uses.size(); ++i) {
    EXPECT_FALSE(clock->passed(uses[i])) << i;
    ASSERT_TRUE(fake.step(handle_a));
  }
  EXPECT_TRUE(clock->passed(uses.back()));
}

TEST_F(StreamClockTest, ARetiredStreamKeepsItsOrdinals) {
  const Use use = submit(a);
  clock->retire(handle_a);
  const StreamIndex again = clock->index_of(handle_a);
  EXPECT_NE(again, a) << "work of the old stream is still running";
  EXPECT_FALSE(clock->passed(use));
  ASSERT_TRUE(clock->wait(b, use).ok());
  fake.run_all();
  EXPECT_TRUE(clock->passed(use));
}

TEST_F(StreamClockTest, AnIndexIsGivenAgainWhenAllHasPassedAndCountsOn) {
  const Use old_use = submit(a);
  clock->retire(handle_a);
  fake.run_all();
  EXPECT_TRUE(clock->passed(old_use));
  const StreamHandle handle_c = fake.create_stream();
  const StreamIndex c = clock->index_of(handle_c);
  EXPECT_EQ(c, a);
  const Use new_use = submit(c);
  EXPECT_GT(new_use.ordinal, old_use.ordinal);
  EXPECT_TRUE(clock->passed(old_use));
  EXPECT_FALSE(clock->passed(new_use));
}

TEST_F(StreamClockTest, ANewStreamHasSeenNothingOfWhatTheIndexSawBefore) {
  const Use use = submit(b);
  ASSERT_TRUE(clock->wait(a, use).ok());
  clock->retire(handle_a);
  const StreamHandle handle_c = fake.create_stream();
  ASSERT_EQ(clock->index_of(handle_c), a);
  ASSERT_TRUE(clock->wait(a, use).ok());
  fake.submit(handle_c);
  EXPECT_FALSE(fake.step(handle_c)) << "the new stream waits too";
}

TEST_F(StreamClockTest, ACapturingStreamIsNotAccessed) {
  const Use use = submit(a);
  fake.set_capturing(handle_a, true);
  EXPECT_EQ(clock->fence(a), Status::not_supported());
  EXPECT_EQ(clock->wait(b, use), Status::not_supported());
  EXPECT_FALSE(clock->passed(use));
  fake.set_capturing(handle_a, false);
  EXPECT_TRUE(clock->wait(b, use).ok());
}

TEST_F(StreamClockTest, ACapturingStreamIsNotMadeToWait) {
  const Use use = submit(a);
  fake.set_capturing(handle_b, true);
  EXPECT_EQ(clock->wait(b, use), Status::not_supported());
  fake.set_capturing(handle_b, false);
  ASSERT_TRUE(clock->wait(b, use).ok());
  EXPECT_EQ(fake.calls("cuStreamWaitEvent"), 1u) << "the refused wait was not taken for done";
}

TEST_F(StreamClockTest, WhatWasSubmittedBeforeACaptureCanBeWaitedForDuringIt) {
  const Use before = submit(a);
  clock->recording(true);
  fake.set_capturing(handle_a, true);
  EXPECT_TRUE(clock->wait(b, before).ok());
  fake.run_all();
  EXPECT_TRUE(clock->passed(before));
  clock->recording(false);
}

TEST_F(StreamClockTest, AStreamThatJoinsACaptureWasFencedBefore) {
  clock->recording(true);
  const Use between = submit(b);
  fake.set_capturing(handle_b, true);
  EXPECT_TRUE(clock->wait(a, between).ok());
  fake.set_capturing(handle_b, false);
  clock->recording(false);
  const std::uint64_t records = fake.calls("cuEventRecord");
  submit(b);
  EXPECT_EQ(fake.calls("cuEventRecord"), records) << "nothing records any more";
}

TEST_F(StreamClockTest, AStreamRetiredWithoutAFenceIsAwaitedWithTheWholeContext) {
  const Use use = submit(a);
  fake.set_capturing(handle_a, true);
  clock->retire(handle_a);
  fake.set_capturing(handle_a, false);
  EXPECT_FALSE(clock->passed(use));
  fake.set_capturing(handle_b, true);
  EXPECT_EQ(clock->wait(b, use), Status::not_supported()) << "that would end the capture";
  fake.set_capturing(handle_b, false);
  ASSERT_TRUE(clock->wait(b, use).ok()) << "there is no event left that b could wait for";
  EXPECT_EQ(fake.calls("cuCtxSynchronize"), 1u);
  EXPECT_TRUE(clock->passed(use));
}

TEST_F(StreamClockTest, TheHandleOfThePerThreadStreamNamesAnotherStreamInEveryThread) {
  const StreamHandle per_thread{2};
  const StreamIndex mine = clock->index_of(per_thread);
  EXPECT_EQ(clock->index_of(per_thread), mine);
  StreamIndex theirs{};
  Use use;
  std::thread([&] {
    theirs = clock->index_of(per_thread);
    fake.submit(per_thread);
    use = {theirs, clock->advance(theirs)};
  }).join();
  EXPECT_NE(mine, theirs);
  EXPECT_EQ(fake.calls("cuEventRecord"), 1u) << "fenced by its own thread, since no other can";
  ASSERT_TRUE(clock->wait(mine, use).ok());
  fake.run_all();
  EXPECT_TRUE(clock->passed(use));
}

TEST_F(StreamClockTest, StreamsOfThreadsThatHaveEndedGiveTheirPlacesToOthers) {
  const StreamHandle per_thread{2};
  const std::size_t before = clock->streams();
  std::vector<Use> uses;
  for (int round = 0; round < 50; ++round) {
    std::thread([&] {
      const StreamIndex theirs = clock->index_of(per_thread);
      fake.submit(per_thread);
      uses.push_back({theirs, clock->advance(theirs)});
    }).join();
    if (round % 2 == 0) fake.run_all();
    clock->validate();
  }
  EXPECT_LE(clock->streams(), before + 4);
  fake.run_all();
  for (const Use& use : uses) EXPECT_TRUE(clock->passed(use));
}

// The thread that owns it still exists.
TEST_F(StreamClockTest, AStreamOfAThreadStaysAsLongAsTheThread) {
  const StreamHandle per_thread{2};
  const StreamIndex mine = clock->index_of(per_thread);
  std::thread([&] { EXPECT_NE(clock->index_of(per_thread), mine); }).join();
  std::thread([&] { EXPECT_NE(clock->index_of(per_thread), mine); }).join();
  EXPECT_EQ(clock->index_of(per_thread), mine);
  EXPECT_TRUE(clock->is_alive(mine));
}

TEST_F(StreamClockTest, AFailedRecordChangesNothing) {
  const Use use = submit(a);
  fake.fail("cuEventRecord", 1, CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(clock->fence(a).code(), CUDA_ERROR_INVALID_HANDLE);
  clock->validate();
  EXPECT_TRUE(clock->fence(a).ok());
  EXPECT_EQ(fake.calls("cuEventCreate"), 1u);
  fake.run_all();
  EXPECT_TRUE(clock->passed(use));
}

// Another thread, or a stream that is capturing by then, could not provide a new fence.
TEST_F(StreamClockTest, WhatIsCoveredStaysSoThoughNoNewFenceCanBeHad) {
  Use covered;
  for (int i = 0; i < 4096; ++i) {
    covered = submit(a);
    ASSERT_TRUE(clock->fence(a).ok());
  }
  submit(a);
  fake.fail("cuEventRecord", 1, CUDA_ERROR_INVALID_HANDLE);
  ASSERT_FALSE(clock->fence(a).ok()) << "it made the others thin";
  const std::uint64_t recorded = fake.calls("cuEventRecord");
  ASSERT_TRUE(clock->wait(b, covered).ok());
  EXPECT_EQ(fake.calls("cuEventRecord"), recorded) << "its own fence is still there";
}

TEST_F(StreamClockTest, AFenceOfAnotherThreadsStreamIsNotRecordedInOnesOwn) {
  const StreamHandle per_thread{2};
  Use use;
  std::thread([&] {
    fake.submit(per_thread);
    fake.fail("cuEventRecord", 1, CUDA_ERROR_INVALID_HANDLE);
    const StreamIndex theirs = clock->index_of(per_thread);
    use = {theirs, clock->advance(theirs)};
  }).join();
  const std::uint64_t recorded = fake.calls("cuEventRecord");
  EXPECT_FALSE(clock->passed(use));
  EXPECT_FALSE(clock->wait(a, use).ok());
  EXPECT_EQ(fake.calls("cuEventRecord"), recorded);
  ASSERT_TRUE(clock->synchronize(use).ok());
  EXPECT_EQ(fake.calls("cuCtxSynchronize"), 1u);
}

TEST_F(StreamClockTest, AFailedWaitIsTriedAgain) {
  const Use use = submit(a);
  fake.fail("cuStreamWaitEvent", 1, CUDA_ERROR_INVALID_HANDLE);
  EXPECT_FALSE(clock->wait(b, use).ok());
  EXPECT_TRUE(clock->wait(b, use).ok());
  EXPECT_EQ(fake.calls("cuStreamWaitEvent"), 2u);
}

TEST_F(StreamClockTest, AFailedSynchronizeDoesNotCountAsPassed) {
  const Use use = submit(a);
  fake.fail("cuEventSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(clock->synchronize(use).code(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_FALSE(clock->passed(use));
}

// A blocked stream is one whose work the fake driver is not told to run.
TEST_F(StreamClockTest, WhatIsBlockedIsAskedForAndNotWaitedFor) {
  const Use before = submit(a);
  clock->about_to_block();
  const Use wait = submit(a);
  clock->may_block(a);
  const Use behind = submit(a);
  EXPECT_TRUE(clock->any_blocked());
  EXPECT_TRUE(clock->is_blocked(wait));
  EXPECT_TRUE(clock->is_blocked(behind));
  EXPECT_EQ(clock->synchronize(wait), Status::not_ready());
  EXPECT_EQ(clock->synchronize(behind), Status::not_ready());
  EXPECT_EQ(clock->host_waits(), 0u);
  EXPECT_FALSE(clock->is_blocked(before)) << "it was fenced before";
  EXPECT_TRUE(clock->synchronize(before).ok());
  ASSERT_TRUE(fake.step(handle_a));
  EXPECT_FALSE(clock->is_blocked(wait));
  EXPECT_FALSE(clock->is_blocked(behind)) << "what is behind runs by now";
  EXPECT_FALSE(clock->any_blocked());
  EXPECT_TRUE(clock->synchronize(behind).ok());
}

TEST_F(StreamClockTest, OthersThanTheBlockedStreamAreWaitedFor) {
  clock->about_to_block();
  UseSet uses;
  uses.add(submit(a));
  clock->may_block(a);
  const Use other = submit(b);
  uses.add(other);
  EXPECT_TRUE(clock->is_blocked(uses));
  UseSet rest;
  clock->join_without_blocking(uses, &rest);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(*rest.begin(), other);
  EXPECT_TRUE(clock->synchronize(rest).ok());
}

TEST_F(StreamClockTest, WhoComesBehindABlockedStreamIsBlocked) {
  clock->about_to_block();
  const Use wait = submit(a);
  clock->may_block(a);
  const Use early = submit(b);
  clock->comes_behind(b);
  const Use late = submit(b);
  EXPECT_FALSE(clock->is_blocked(early));
  EXPECT_TRUE(clock->is_blocked(late));
  const StreamHandle handle_c = fake.create_stream();
  const StreamIndex c = clock->index_of(handle_c);
  ASSERT_TRUE(clock->wait(c, wait).ok());
  EXPECT_TRUE(clock->is_blocked(submit(c))) << "by an order of ours";
  fake.run_all();
  EXPECT_FALSE(clock->any_blocked());
}

// The fake driver does not report which of its streams are blocking streams: all are.
TEST_F(StreamClockTest, LegacyStreamIsBlockedBehindBlockingOnesAndTheyBehindIt) {
  const StreamIndex legacy = clock->index_of(StreamHandle{});
  const Use before = submit(b);
  clock->about_to_block();
  submit(a);
  clock->may_block(a);
  EXPECT_FALSE(clock->is_blocked(submit(b)));
  EXPECT_TRUE(clock->is_blocked(submit(legacy)));
  EXPECT_TRUE(clock->is_blocked(submit(b)));
  EXPECT_FALSE(clock->is_blocked(before));
  fake.run_all();
  EXPECT_FALSE(clock->any_blocked());
}

TEST_F(StreamClockTest, AStreamIsHeldUpBehindWhatIsBlocked) {
  const StreamIndex legacy = clock->index_of(StreamHandle{});
  EXPECT_FALSE(clock->is_behind_blocked(a));
  clock->about_to_block();
  submit(a);
  clock->may_block(a);
  EXPECT_TRUE(clock->is_behind_blocked(a));
  EXPECT_FALSE(clock->is_behind_blocked(b));
  EXPECT_TRUE(clock->is_behind_blocked(legacy)) << "whatever it is given next comes behind";
  submit(b);
  EXPECT_FALSE(clock->is_behind_blocked(b)) << "busy is not blocked";
  clock->comes_behind(b);
  EXPECT_TRUE(clock->is_behind_blocked(b)) << "whatever is submitted to it next";
  fake.run_all();
  EXPECT_FALSE(clock->is_behind_blocked(a));
  EXPECT_FALSE(clock->is_behind_blocked(b));
  EXPECT_FALSE(clock->is_behind_blocked(legacy));
}

// The library made a stream wait for an operation that was not submitted after all.
TEST_F(StreamClockTest, WhatWasNotSubmittedHoldsNobodyUp) {
  const StreamIndex legacy = clock->index_of(StreamHandle{});
  clock->about_to_block();
  const Use wait = submit(a);
  clock->may_block(a);
  ASSERT_TRUE(clock->wait(b, wait).ok());
  fake.run_all();
  EXPECT_FALSE(clock->is_behind_blocked(b));
  EXPECT_FALSE(clock->is_behind_blocked(legacy));
}

// Until that is detected, every operation is fenced, which costs a call each.
TEST_F(StreamClockTest, ThatNothingIsBlockedAnyMoreIsFoundOutWithoutBeingAskedFor) {
  clock->about_to_block();
  submit(a);
  clock->may_block(a);
  fake.run_all();
  for (int i = 0; i < 100; ++i) submit(b);
  const std::uint64_t records = fake.calls("cuEventRecord");
  for (int i = 0; i < 100; ++i) submit(b);
  EXPECT_EQ(fake.calls("cuEventRecord"), records);
}

TEST_F(StreamClockTest, DestroyedStreamIsBlockedUntilItHasPassed) {
  clock->about_to_block();
  const Use wait = submit(a);
  clock->may_block(a);
  clock->retire(handle_a);
  EXPECT_TRUE(clock->is_blocked(wait));
  fake.run_all();
  EXPECT_FALSE(clock->is_blocked(wait));
}

TEST_F(StreamClockTest, ADeferredWaitAnswersWithoutWaiting) {
  const Use use = submit(a);
  {
    const StreamClock::Deferring defers(*clock, true);
    EXPECT_EQ(clock->synchronize(use), Status::not_ready());
    EXPECT_EQ(fake.calls("cuEventSynchronize"), 0u);
    const StreamClock::Deferring none(*clock, false);
    EXPECT_TRUE(clock->has_deferred());
  }
  const EventHandle event = clock->reference_deferred();
  ASSERT_TRUE(driver.synchronize(event).ok());
  clock->release_reference(event);
  EXPECT_TRUE(clock->passed(use));
  EXPECT_TRUE(clock->synchronize(submit(b)).ok()) << "others wait as ever";
}

// Another thread waits for the event without the lock: if it were recorded again, it would stand for other work.
TEST_F(StreamClockTest, AnEventThatIsWaitedForIsRecordedForNothingElse) {
  const Use use = submit(a);
  {
    const StreamClock::Deferring defers(*clock, true);
    ASSERT_EQ(clock->synchronize(use), Status::not_ready());
  }
  const EventHandle event = clock->reference_deferred();
  fake.run_all();
  ASSERT_TRUE(clock->passed(use));
  submit(b);
  ASSERT_TRUE(clock->fence(b).ok());
  EXPECT_TRUE(driver.query(event).ok()) << "it is recorded behind what still runs";
  clock->release_reference(event);
  submit(a);
  ASSERT_TRUE(clock->fence(a).ok());
  EXPECT_EQ(fake.events(), 2u) << "and comes again when nobody waits for it any more";
}

}  // namespace
}  // namespace thermocline
