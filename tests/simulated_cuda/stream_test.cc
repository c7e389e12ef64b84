// SPDX-License-Identifier: Apache-2.0
// Streams: order, queries, default streams, host functions.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "tests/simulated_cuda/device_fixture.h"

namespace {

class StreamTest : public DeviceTest {};

TEST_F(StreamTest, WorkIsPendingUntilSomebodyWaits) {
  CUstream stream = make_stream();
  busy(stream, 1000);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_OK(cuStreamQuery(stream));
  EXPECT_GE(control().now_ns(), 1'000'000);
}

TEST_F(StreamTest, SynchronizingAStreamLeavesOthersAlone) {
  CUstream quick = make_stream(), slow = make_stream();
  busy(quick, 1);
  busy(slow, 100000);
  EXPECT_OK(cuStreamSynchronize(quick));
  EXPECT_EQ(cuStreamQuery(slow), CUDA_ERROR_NOT_READY);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuStreamQuery(slow));
}

TEST_F(StreamTest, HostFunctionsRunInOrderAndMayNotCallTheDriver) {
  struct Seen {
    std::vector<int> numbers;
    CUresult inside = CUDA_SUCCESS;
  } seen;
  CUstream stream = make_stream();
  const CUhostFn first = [](void* data) { static_cast<Seen*>(data)->numbers.push_back(1); };
  const CUstreamCallback second = [](CUstream, CUresult status, void* data) {
    static_cast<Seen*>(data)->numbers.push_back(status == CUDA_SUCCESS ? 2 : -1);
    static_cast<Seen*>(data)->inside = cuCtxSynchronize();
  };
  EXPECT_OK(cuLaunchHostFunc(stream, first, &seen));
  EXPECT_OK(cuStreamAddCallback(stream, second, &seen, 0));
  EXPECT_TRUE(seen.numbers.empty());
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(seen.numbers, (std::vector<int>{1, 2}));
  EXPECT_EQ(seen.inside, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(cuLaunchHostFunc(stream, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamTest, ADestroyedStreamIsUnknownAndItsWorkStillHappens) {
  static bool happened;
  happened = false;
  CUstream stream = make_stream();
  EXPECT_OK(cuLaunchHostFunc(
      stream, [](void*) { happened = true; }, nullptr));
  EXPECT_OK(cuStreamDestroy(stream));
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_TRUE(happened);
}

TEST_F(StreamTest, TheDefaultStreamsCanNotBeDestroyed) {
  EXPECT_EQ(cuStreamDestroy(nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(CU_STREAM_LEGACY), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(CU_STREAM_PER_THREAD), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamTest, EachThreadHasAStreamOfItsOwn) {
  unsigned long long here = 0, again = 0, there = 0, legacy = 0;
  EXPECT_OK(cuStreamGetId(CU_STREAM_PER_THREAD, &here));
  EXPECT_OK(cuStreamGetId(CU_STREAM_PER_THREAD, &again));
  EXPECT_OK(cuStreamGetId(nullptr, &legacy));
  std::thread([&] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuStreamGetId(CU_STREAM_PER_THREAD, &there));
  }).join();
  EXPECT_EQ(here, again);
  EXPECT_NE(here, there);
  EXPECT_NE(here, legacy);
}

TEST_F(StreamTest, TheLegacyStreamWaitsForBlockingStreamsOnly) {
  CUstream blocking = make_stream(CU_STREAM_DEFAULT), free_blocked = make_stream(CU_STREAM_NON_BLOCKING);
  busy(blocking, 1000);
  busy(free_blocked, 100000);
  EXPECT_OK(cuStreamSynchronize(CU_STREAM_LEGACY));
  EXPECT_OK(cuStreamQuery(blocking));
  EXPECT_EQ(cuStreamQuery(free_blocked), CUDA_ERROR_NOT_READY);
}

TEST_F(StreamTest, PropertiesAreTold) {
  CUstream stream = nullptr;
  int least = 1, greatest = 1, priority = 1;
  unsigned flags = 0;
  CUcontext context = nullptr;
  EXPECT_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  EXPECT_LT(greatest, least);
  EXPECT_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 7));
  EXPECT_OK(cuStreamGetPriority(stream, &priority));
  EXPECT_EQ(priority, greatest);
  EXPECT_OK(cuStreamGetFlags(stream, &flags));
  EXPECT_EQ(flags, unsigned{CU_STREAM_NON_BLOCKING});
  EXPECT_OK(cuStreamGetCtx(stream, &context));
  EXPECT_EQ(context, context_);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  EXPECT_OK(cuStreamIsCapturing(stream, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(StreamTest, AGarbageHandleIsRefused) {
  int not_a_stream = 0;
  EXPECT_EQ(cuStreamQuery(reinterpret_cast<CUstream>(&not_a_stream)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, 8), CUDA_ERROR_INVALID_VALUE);
}

// Its work is ordered before the origin's, so nothing is lost with it.
TEST_F(StreamTest, AStreamThatWasJoinedMayEndWhileItsCaptureGoesOn) {
  for (const bool joins : {true, false}) {
    const CUstream origin = make_stream(), other = make_stream();
    CUevent forked = nullptr, joined = nullptr;
    ASSERT_OK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    ASSERT_OK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    const CUdeviceptr at = allocate(4);
    ASSERT_OK(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASSERT_OK(cuEventRecord(forked, origin));
    ASSERT_OK(cuStreamWaitEvent(other, forked, 0));
    ASSERT_OK(cuMemsetD32Async(at, 7, 1, other));
    ASSERT_OK(cuEventRecord(joined, other));
    if (joins) {
      ASSERT_OK(cuStreamWaitEvent(origin, joined, 0));
    }
    ASSERT_OK(cuStreamDestroy(other));
    CUgraph graph = nullptr;
    const CUresult ended = cuStreamEndCapture(origin, &graph);
    EXPECT_EQ(ended, joins ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    std::size_t nodes = 0;
    if (joins) {
      EXPECT_OK(cuGraphGetNodes(graph, nullptr, &nodes));
    }
    EXPECT_EQ(nodes, joins ? 1u : 0u);
  }
}

// As on a device, where they run on a thread of the driver's.
TEST_F(StreamTest, AHostFunctionMayWaitForTheThreadThatGoesOn) {
  struct Gate {
    std::atomic<bool> open = false, passed = false;
    std::thread::id runs_on;
  } gate;
  CUstream waiting = make_stream(), other = make_stream();
  const CUdeviceptr data = allocate(64);
  write<unsigned>(data, {1});
  const auto wait = [](void* user) {
    auto& mine = *static_cast<Gate*>(user);
    mine.runs_on = std::this_thread::get_id();
    while (!mine.open) std::this_thread::yield();
    mine.passed = true;
  };
  EXPECT_OK(cuLaunchHostFunc(waiting, wait, &gate));
  EXPECT_OK(cuMemsetD32Async(data, 2, 1, waiting));
  EXPECT_EQ(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
  busy(other, 1000);
  EXPECT_OK(cuStreamSynchronize(other));
  EXPECT_EQ(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
  EXPECT_FALSE(gate.passed);
  gate.open = true;
  EXPECT_OK(cuStreamSynchronize(waiting));
  EXPECT_TRUE(gate.passed);
  EXPECT_NE(gate.runs_on, std::this_thread::get_id());
  EXPECT_EQ(read<unsigned>(data, 1)[0], 2u);
}

// It tells the host that what came before it has ended, and what comes behind it is ordered after what the host knew then.
TEST_F(StreamTest, AHostFunctionThatWaitsOrdersWhatItTellsAndWhatItIsTold) {
  struct Gate {
    std::atomic<bool> has_begun = false, open = false;
  };
  // With or without its return being waited for.
  for (const bool begins_first : {true, false}) {
    for (const char* seed : {"", "1", "2", "3"}) {
      SCOPED_TRACE(seed);
      control().reset();
      ASSERT_EQ(control().configure("check", "1"), nullptr);
      ASSERT_EQ(control().configure("progress", "off"), nullptr);
      if (*seed != 0) {
        ASSERT_EQ(control().configure("seed", seed), nullptr);
      }
      ASSERT_OK(cuInit(0));
      ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
      ASSERT_OK(cuCtxSetCurrent(context_));
      Gate gate;
      const CUstream waiting = make_stream(), other = make_stream();
      const CUdeviceptr before = allocate(64), behind = allocate(64), unordered = allocate(64);
      ASSERT_OK(cuMemsetD32Async(before, 1, 1, waiting));
      const auto wait = [](void* user) {
        auto& mine = *static_cast<Gate*>(user);
        mine.has_begun = true;
        while (!mine.open) std::this_thread::yield();
      };
      ASSERT_OK(cuLaunchHostFunc(waiting, wait, &gate));
      ASSERT_OK(cuMemsetD32Async(behind, 2, 1, waiting));
      ASSERT_OK(cuMemsetD32Async(unordered, 2, 1, waiting));
      if (begins_first) {
        while (!gate.has_begun) EXPECT_EQ(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
        ASSERT_OK(cuMemsetD32Async(before, 2, 1, other));
      }
      ASSERT_OK(cuMemsetD32Async(behind, 1, 1, other));
      ASSERT_OK(cuStreamSynchronize(other));
      ASSERT_OK(cuMemsetD32Async(unordered, 1, 1, other));
      gate.open = true;
      ASSERT_OK(cuStreamSynchronize(waiting));
      EXPECT_EQ(read<unsigned>(before, 1)[0], begins_first ? 2u : 1u);
      EXPECT_EQ(read<unsigned>(behind, 1)[0], 2u);
      ASSERT_OK(cuCtxSynchronize());
      EXPECT_EQ(statistics().races, 1u) << "of the one that is not ordered";
    }
  }
}

// Some return at once and some long after the thread that made them run has gone on; meanwhile the process forks.
TEST_F(StreamTest, HostFunctionsOfSeveralThreadsRunInTheOrderOfTheirStreams) {
  control().reset();
  ASSERT_EQ(control().configure("progress", "on"), nullptr);
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
  constexpr int kFunctions = 12;
  struct Call {
    std::vector<int>* order;
    int number;
    bool takes_time;
  };
  const auto run = [](void* user) {
    const Call& call = *static_cast<Call*>(user);
    if (call.takes_time) std::this_thread::sleep_for(std::chrono::milliseconds(70));
    call.order->push_back(call.number);
  };
  std::vector<int> orders[3];
  std::vector<std::thread> threads;
  for (std::vector<int>& order : orders) {
    threads.emplace_back([&, this] {
      EXPECT_OK(cuCtxSetCurrent(context_));
      const CUstream stream = make_stream();
      std::vector<Call> calls;
      calls.reserve(kFunctions);
      for (int i = 0; i < kFunctions; ++i) {
        calls.push_back({&order, i, i % 5 == 2});
        EXPECT_OK(cuLaunchHostFunc(stream, run, &calls.back()));
        if (i % 4 == 3) {
          EXPECT_OK(cuStreamSynchronize(stream));
        }
      }
      EXPECT_OK(cuStreamDestroy(stream));
    });
  }
  for (int i = 0; i < 5; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK(cuCtxSetCurrent(context_));
  std::vector<int> expected(kFunctions);
  std::iota(expected.begin(), expected.end(), 0);
  for (const std::vector<int>& order : orders) EXPECT_EQ(order, expected);
}

}  // namespace
