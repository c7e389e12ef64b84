// SPDX-License-Identifier: Apache-2.0
// Order and virtual time of operations on the reference device.
#include <atomic>
#include <vector>

#include "tests/simulator/core_fixture.h"

namespace simulator {
namespace {

constexpr Time kMicrosecond = 1000;
constexpr Bytes kOneMillisecondOfLink = 50'000'000;  // 50 GB/s

class CoreTimelineTest : public CoreTest {
 protected:
  void SetUp() override {
    start({{"memory", "tagged"}});
    const auto machine = Machine::enter();
    for (StreamId& stream : blocking_) stream = machine->create_stream(false);
    for (StreamId& stream : free_) stream = machine->create_stream(true);
    device_ = buffer(*machine, kOneMillisecondOfLink);
    device_2_ = buffer(*machine, kOneMillisecondOfLink);
    ASSERT_EQ(machine->allocate_host(kOneMillisecondOfLink, &host_), CUDA_SUCCESS);
    begin_ = machine->now();
  }

  // From the start of the test's work to its end, without the host's calls, which take microseconds, while the work
  // takes milliseconds.
  static Time whole_milliseconds(const Machine& machine, Time begin) {
    return (machine.device_now() - begin + 500 * kMicrosecond) / (1000 * kMicrosecond);
  }

  StreamId blocking_[2];
  StreamId free_[2];
  Address device_ = 0;
  Address device_2_ = 0;
  void* host_ = nullptr;
  Time begin_ = 0;
};

TEST_F(CoreTimelineTest, CopiesInBothDirectionsAndKernelsOverlap) {
  const auto machine = Machine::enter();
  machine->submit(free_[0], to_device(device_, host_, kOneMillisecondOfLink));
  machine->submit(free_[1], to_host(host_, device_2_, kOneMillisecondOfLink));
  machine->submit(blocking_[0], timed(1000));
  EXPECT_EQ(machine->wait_all(), CUDA_SUCCESS);
  EXPECT_EQ(whole_milliseconds(*machine, begin_), 1);
}

TEST_F(CoreTimelineTest, OneDirectionOfTheLinkServesOneCopyAtATime) {
  const auto machine = Machine::enter();
  machine->submit(free_[0], to_device(device_, host_, kOneMillisecondOfLink));
  machine->submit(free_[1], to_device(device_2_, host_, kOneMillisecondOfLink));
  EXPECT_EQ(machine->wait_all(), CUDA_SUCCESS);
  EXPECT_EQ(whole_milliseconds(*machine, begin_), 2);
}

TEST_F(CoreTimelineTest, KernelsOfTwoStreamsShareTheComputeEngine) {
  const auto machine = Machine::enter();
  machine->submit(free_[0], timed(1000));
  machine->submit(free_[1], timed(1000));
  EXPECT_EQ(machine->wait_all(), CUDA_SUCCESS);
  EXPECT_EQ(whole_milliseconds(*machine, begin_), 2);
}

TEST_F(CoreTimelineTest, OperatorTakesTheLargerOfArithmeticAndTrafficPlusTheLaunch) {
  const auto machine = Machine::enter();
  Operator arithmetic = timed(-1);
  arithmetic.flops = 40e6 * 7;    // 7 us at 40 TFLOP/s
  arithmetic.bytes = 3500e3 * 2;  // 2 us at 3,500 GB/s
  Operator traffic = timed(-1);
  traffic.flops = 40e6 * 3;
  traffic.bytes = 3500e3 * 11;
  machine->submit(kLegacyStream, std::move(arithmetic));
  machine->wait_all();
  EXPECT_EQ(machine->device_now() - machine->now(), 0);
  SimulatedStatistics before{};
  before.size = sizeof before;
  machine->statistics(&before);
  EXPECT_EQ(before.compute_busy_ns, (7 + 4) * kMicrosecond);
  machine->submit(kLegacyStream, std::move(traffic));
  machine->wait_all();
  SimulatedStatistics after{};
  after.size = sizeof after;
  machine->statistics(&after);
  EXPECT_EQ(after.compute_busy_ns - before.compute_busy_ns, (11 + 4) * kMicrosecond);
}

TEST_F(CoreTimelineTest, LegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  const auto machine = Machine::enter();
  machine->submit(blocking_[0], to_device(device_, host_, kOneMillisecondOfLink));
  machine->submit(kLegacyStream, timed(1000));
  machine->submit(blocking_[1], to_host(host_, device_2_, kOneMillisecondOfLink));
  EXPECT_EQ(machine->wait_all(), CUDA_SUCCESS);
  EXPECT_EQ(whole_milliseconds(*machine, begin_), 3);
}

TEST_F(CoreTimelineTest, NonBlockingStreamsAndTheLegacyStreamIgnoreEachOther) {
  const auto machine = Machine::enter();
  machine->submit(free_[0], to_device(device_, host_, kOneMillisecondOfLink));
  machine->submit(kLegacyStream, timed(1000));
  machine->submit(free_[1], to_host(host_, device_2_, kOneMillisecondOfLink));
  EXPECT_EQ(machine->wait_all(), CUDA_SUCCESS);
  EXPECT_EQ(whole_milliseconds(*machine, begin_), 1);
}

TEST_F(CoreTimelineTest, LegacyStreamStillWaitsForADestroyedBlockingStream) {
  const auto machine = Machine::enter();
  machine->submit(blocking_[0], to_device(device_, host_, kOneMillisecondOfLink));
  machine->destroy_stream(blocking_[0]);
  machine->submit(kLegacyStream, timed(1000));
  EXPECT_EQ(machine->wait_stream(kLegacyStream), CUDA_SUCCESS);
  EXPECT_EQ(whole_milliseconds(*machine, begin_), 2);
}

TEST_F(CoreTimelineTest, WaitTakesTheRecordThatWasNewestWhenItWasCalled) {
  const auto machine = Machine::enter();
  const EventId event = machine->create_event();
  machine->submit(free_[0], timed(1000));
  machine->record_event(event, free_[0]);
  machine->stream_wait_event(free_[1], event);
  machine->submit(free_[0], timed(5000));
  machine->record_event(event, free_[0]);
  const OperationId behind = machine->submit(free_[1], to_device(device_, host_, kOneMillisecondOfLink));
  EXPECT_EQ(machine->wait(behind), CUDA_SUCCESS);
  EXPECT_EQ(whole_milliseconds(*machine, begin_), 2);
}

TEST_F(CoreTimelineTest, EventThatWasNeverRecordedOrdersNothing) {
  const auto machine = Machine::enter();
  const EventId event = machine->create_event();
  machine->submit(free_[0], timed(3000));
  machine->stream_wait_event(free_[1], event);
  const OperationId copy = machine->submit(free_[1], to_device(device_, host_, kOneMillisecondOfLink));
  EXPECT_EQ(machine->wait(copy), CUDA_SUCCESS);
  EXPECT_EQ(whole_milliseconds(*machine, begin_), 1);
  EXPECT_EQ(machine->recorded(event), 0u);
  Time elapsed = 0;
  EXPECT_EQ(machine->elapsed(event, event, &elapsed), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(CoreTimelineTest, ElapsedIsTheDeviceTimeBetweenTwoRecords) {
  const auto machine = Machine::enter();
  const EventId begin = machine->create_event();
  const EventId end = machine->create_event();
  machine->submit(free_[0], timed(1000));
  machine->record_event(begin, free_[0]);
  machine->submit(free_[0], timed(123));
  machine->record_event(end, free_[0]);
  Time elapsed = 0;
  EXPECT_EQ(machine->elapsed(begin, end, &elapsed), CUDA_ERROR_NOT_READY);
  machine->wait(machine->recorded(end));
  EXPECT_EQ(machine->elapsed(begin, end, &elapsed), CUDA_SUCCESS);
  EXPECT_EQ(elapsed, 123 * kMicrosecond);
}

TEST_F(CoreTimelineTest, ReusedEventDoesNotAnswerForTheOneBeforeIt) {
  const auto machine = Machine::enter();
  const EventId first = machine->create_event();
  machine->submit(free_[0], timed(1000));
  machine->record_event(first, free_[0]);
  machine->destroy_event(first);
  const EventId second = machine->create_event();
  ASSERT_EQ(second, first);
  EXPECT_EQ(machine->recorded(second), 0u);
  machine->wait_all();
  EXPECT_EQ(machine->recorded(second), 0u);
}

TEST_F(CoreTimelineTest, PollingLoopEndsWhenTheWorkHasEnded) {
  const auto machine = Machine::enter();
  const OperationId work = machine->submit(free_[0], timed(1000));
  int queries = 0;
  while (!machine->query(work)) {
    machine->charge(Cost::kStreamCall);
    ++queries;
  }
  EXPECT_EQ(queries, 1429);  // 1,000 us in steps of 0.7 us
}

TEST_F(CoreTimelineTest, HostRunsAheadUntilItWaits) {
  const auto machine = Machine::enter();
  for (int i = 0; i < 10; ++i) machine->submit(free_[0], timed(1000));
  EXPECT_EQ(machine->now() - begin_, 10 * 2500);
  EXPECT_FALSE(machine->query_stream(free_[0]));
  machine->wait_stream(free_[0]);
  EXPECT_EQ(machine->now() - begin_, 2500 + 10'000 * kMicrosecond);
  EXPECT_TRUE(machine->query_stream(free_[0]));
}

TEST_F(CoreTimelineTest, EngineServesWhatIsReadyFirstNotWhatWasSubmittedFirst) {
  const auto machine = Machine::enter();
  const EventId gate = machine->create_event();
  machine->submit(free_[0], to_device(device_, host_, kOneMillisecondOfLink));
  machine->record_event(gate, free_[0]);
  machine->stream_wait_event(blocking_[0], gate);
  const OperationId late = machine->submit(blocking_[0], timed(1000));
  const OperationId early = machine->submit(free_[1], timed(100));
  machine->wait(early);
  EXPECT_FALSE(machine->query(late));
}

TEST_F(CoreTimelineTest, HostFunctionRunsBehindItsStreamAndOnlyWhenTheHostNotices) {
  const auto machine = Machine::enter();
  std::vector<int> order;
  machine->submit(free_[0], timed(1000));
  machine->submit(free_[0], HostFunction{[&order] { order.push_back(1); }});
  machine->submit(free_[1], HostFunction{[&order] { order.push_back(2); }});
  EXPECT_TRUE(order.empty());
  machine->wait_all();
  EXPECT_EQ(order, (std::vector<int>{2, 1}));
}

TEST_F(CoreTimelineTest, DetachedOperationsFollowTheirOwnDependenciesAlone) {
  const auto machine = Machine::enter();
  machine->submit(free_[0], timed(5000));
  const OperationId first = machine->submit(free_[0], to_device(device_, host_, kOneMillisecondOfLink), {{}, true});
  const OperationId second =
      machine->submit(free_[0], to_host(host_, device_, kOneMillisecondOfLink), {{&first, 1}, true});
  machine->wait(second);
  EXPECT_EQ(whole_milliseconds(*machine, begin_), 2);
  EXPECT_FALSE(machine->query_stream(free_[0]));
}

TEST_F(CoreTimelineTest, ManyPendingOperationsKeepTheirOrder) {
  const auto machine = Machine::enter();
  std::vector<int> order;
  for (int i = 0; i < 5000; ++i) {
    machine->submit(free_[0], timed(100));
    machine->submit(free_[0], HostFunction{[&order, i] { order.push_back(i); }});
    if (i % 500 == 0) machine->validate();
  }
  machine->wait_all();
  ASSERT_EQ(order.size(), 5000u);
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  machine->validate();
}

TEST_F(CoreTimelineTest, SilentHostSeesAHostFunctionsFlag) {
  start({{"progress", "on"}});
  std::atomic<bool> flag = false;
  OperationId behind = 0;
  {
    const auto machine = Machine::enter();
    const StreamId stream = machine->create_stream(true);
    machine->submit(stream, timed(1e6));
    machine->submit(stream, HostFunction{[&flag] { flag = true; }});
    behind = machine->submit(stream, timed(1));
  }
  while (!flag) {
  }
  const auto machine = Machine::enter();
  // A host that saw the flag may rely on everything before it; its clock has not advanced meanwhile.
  EXPECT_TRUE(machine->query(behind - 1));
  EXPECT_LT(machine->now(), 1'000'000 * kMicrosecond);
  machine->wait(behind);
  EXPECT_GE(machine->now(), 1'000'001 * kMicrosecond);
}

}  // namespace
}  // namespace simulator
