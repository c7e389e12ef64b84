// SPDX-License-Identifier: Apache-2.0
// A stream's queue is limited: a call that adds to a full one returns when an operation of it has completed.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/simulated_cuda/device_fixture.h"

namespace {

class QueueTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    word_ = allocate(64);
    data_ = allocate(64);
    write<unsigned>(word_, {0, 0});
    ASSERT_OK(cuCtxSynchronize());
    blocked_ = make_stream();
    ASSERT_OK(cuStreamWaitValue32(blocked_, word_, 1, CU_STREAM_WAIT_VALUE_EQ));
  }
  void TearDown() override { control().configure("queue-limit", "1024"); }

  // Checks how many such calls return before the stream continues, and that all return when it has.
  void expect_room_for(unsigned calls, unsigned more, const std::function<CUresult()>& call) {
    std::atomic<unsigned> back{0};
    std::thread other([&] {
      EXPECT_OK(cuCtxSetCurrent(context_));
      for (unsigned i = 0; i < calls + more; ++i) {
        EXPECT_OK(call());
        ++back;
      }
    });
    while (back < calls) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(cuStreamQuery(blocked_), CUDA_ERROR_NOT_READY);
      std::this_thread::yield();
    }
    EXPECT_EQ(back, calls);
    ASSERT_OK(cuMemsetD32(word_, 1, 1));
    other.join();
    ASSERT_OK(cuStreamSynchronize(blocked_));
    EXPECT_EQ(back, calls + more);
  }

  CUdeviceptr word_ = 0, data_ = 0;
  CUstream blocked_ = nullptr;
};

TEST_F(QueueTest, ALaunchIntoAFullQueueWaits) {
  expect_room_for(1023, 50, [&] { return cuMemsetD32Async(data_, 1, 1, blocked_); });
}

TEST_F(QueueTest, SoDoEventsAndWaitsForThem) {
  CUevent event = nullptr, before = nullptr;
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  ASSERT_OK(cuEventCreate(&before, CU_EVENT_DEFAULT));
  ASSERT_OK(cuEventRecord(before, nullptr));
  bool records = false;
  expect_room_for(1023, 50, [&] {
    records = !records;
    return records ? cuEventRecord(event, blocked_) : cuStreamWaitEvent(blocked_, before, 0);
  });
}

TEST_F(QueueTest, AGraphIsOneOfThem) {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  const CUstream recording = make_stream();
  ASSERT_OK(cuStreamBeginCapture(recording, CU_STREAM_CAPTURE_MODE_RELAXED));
  for (int i = 0; i < 5; ++i) ASSERT_OK(cuMemsetD32Async(data_, 1, 1, recording));
  ASSERT_OK(cuStreamEndCapture(recording, &graph));
  ASSERT_OK(cuGraphInstantiate(&executable, graph, 0));
  expect_room_for(1023, 50, [&] { return cuGraphLaunch(executable, blocked_); });
}

TEST_F(QueueTest, AnotherStreamHasItsOwn) {
  const CUstream free_one = make_stream();
  for (int i = 0; i < 1023; ++i) ASSERT_OK(cuMemsetD32Async(data_, 1, 1, blocked_));
  for (int i = 0; i < 5000; ++i) ASSERT_OK(cuMemsetD32Async(data_ + 32, 2, 1, free_one));
  ASSERT_OK(cuMemsetD32(word_, 1, 1));
  ASSERT_OK(cuCtxSynchronize());
}

TEST_F(QueueTest, ItsEndIsASetting) {
  control().reset();
  ASSERT_NE(control().configure("queue-limit", "some"), nullptr);
  ASSERT_EQ(control().configure("queue-limit", "0"), nullptr);
  SetUp();
  for (int i = 0; i < 5000; ++i) ASSERT_OK(cuMemsetD32Async(data_, 1, 1, blocked_));
  ASSERT_OK(cuMemsetD32(word_, 1, 1));
  ASSERT_OK(cuCtxSynchronize());
  control().reset();
  ASSERT_EQ(control().configure("queue-limit", "8"), nullptr);
  SetUp();
  expect_room_for(7, 50, [&] { return cuMemsetD32Async(data_, 1, 1, blocked_); });
}

}  // namespace
