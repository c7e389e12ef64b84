// SPDX-License-Identifier: Apache-2.0
// Values that streams write to memory or wait for.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/simulated_cuda/device_fixture.h"

namespace {

class StreamValueTest : public DeviceTest {
 protected:
  static bool is_done(CUstream stream) { return cuStreamQuery(stream) == CUDA_SUCCESS; }
};

TEST_F(StreamValueTest, StreamIsBlockedUntilAnotherHasWrittenTheWord) {
  const CUstream waiting = make_stream(), writing = make_stream();
  const CUdeviceptr word = allocate(64), data = allocate(64);
  write<unsigned>(word, {0, 0});
  write<unsigned>(data, {0});
  ASSERT_OK(cuStreamWaitValue32(waiting, word, 7, CU_STREAM_WAIT_VALUE_GEQ));
  ASSERT_OK(cuMemsetD32Async(data, 5, 1, waiting));
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(is_done(waiting));
  ASSERT_OK(cuStreamWriteValue32(writing, word, 6, CU_STREAM_WRITE_VALUE_DEFAULT));
  ASSERT_OK(cuStreamSynchronize(writing));
  EXPECT_FALSE(is_done(waiting));
  EXPECT_EQ(read<unsigned>(word, 1)[0], 6u);
  ASSERT_OK(cuStreamWriteValue32(writing, word, 9, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
  ASSERT_OK(cuStreamSynchronize(waiting));
  EXPECT_EQ(read<unsigned>(data, 1)[0], 5u);
}

TEST_F(StreamValueTest, WaitsCompareAsTheirFlagsSay) {
  const CUstream stream = make_stream();
  const CUdeviceptr word = allocate(64);
  const auto holds = [&](std::uint64_t found, std::uint64_t wanted, unsigned flags, bool wide) {
    write<std::uint64_t>(word, {found});
    EXPECT_OK(cuCtxSynchronize());
    if (wide) {
      EXPECT_OK(cuStreamWaitValue64(stream, word, wanted, flags));
    } else {
      EXPECT_OK(cuStreamWaitValue32(stream, word, static_cast<unsigned>(wanted), flags));
    }
    const bool held = is_done(stream);
    // Writes every value that it may wait for.
    for (const std::uint64_t value : {std::uint64_t{0}, wanted, ~wanted}) write<std::uint64_t>(word, {value});
    EXPECT_OK(cuStreamSynchronize(stream));
    return held;
  };
  EXPECT_TRUE(holds(5, 5, CU_STREAM_WAIT_VALUE_GEQ, false));
  EXPECT_FALSE(holds(4, 5, CU_STREAM_WAIT_VALUE_GEQ, false));
  EXPECT_TRUE(holds(2, 0xfffffff0u, CU_STREAM_WAIT_VALUE_GEQ, false));  // by the sign of the difference
  EXPECT_FALSE(holds(2, 0xfffffff0u, CU_STREAM_WAIT_VALUE_GEQ, true));
  EXPECT_FALSE(holds(6, 5, CU_STREAM_WAIT_VALUE_EQ, false));
  EXPECT_TRUE(holds(std::uint64_t{1} << 40, std::uint64_t{1} << 40, CU_STREAM_WAIT_VALUE_EQ, true));
  EXPECT_TRUE(holds(6, 2, CU_STREAM_WAIT_VALUE_AND, false));
  EXPECT_FALSE(holds(4, 2, CU_STREAM_WAIT_VALUE_AND, false));
  EXPECT_TRUE(holds(0xffffff00u, 0x7f, CU_STREAM_WAIT_VALUE_NOR, false));
  EXPECT_FALSE(holds(0xffffff00u, 0xff, CU_STREAM_WAIT_VALUE_NOR, false));
}

TEST_F(StreamValueTest, HostLetsAStreamGoOnThroughMappedMemory) {
  const CUstream stream = make_stream();
  void* pinned = nullptr;
  alignas(64) std::uint64_t registered[8];
  ASSERT_OK(cuMemHostAlloc(&pinned, 64, CU_MEMHOSTALLOC_DEVICEMAP));
  ASSERT_OK(cuMemHostRegister(registered, sizeof registered, CU_MEMHOSTREGISTER_DEVICEMAP));
  for (void* at : {pinned, static_cast<void*>(registered)}) {
    auto* const word = static_cast<std::uint64_t*>(at);
    *word = 0;
    CUdeviceptr there = 0;
    ASSERT_OK(cuMemHostGetDevicePointer(&there, at, 0));
    ASSERT_OK(cuStreamWaitValue64(stream, there, 3, CU_STREAM_WAIT_VALUE_EQ));
    EXPECT_FALSE(is_done(stream));
    *word = 3;
    ASSERT_OK(cuStreamSynchronize(stream));
  }
  ASSERT_OK(cuMemHostUnregister(registered));
  ASSERT_OK(cuMemFreeHost(pinned));
}

TEST_F(StreamValueTest, ManagedMemoryIsRefused) {
  CUdeviceptr managed = 0;
  ASSERT_OK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
  EXPECT_EQ(cuStreamWriteValue32(nullptr, managed, 1, CU_STREAM_WRITE_VALUE_DEFAULT), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue32(nullptr, managed, 0, CU_STREAM_WAIT_VALUE_EQ), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuMemFree(managed));
}

TEST_F(StreamValueTest, AnotherThreadLetsTheWaitingHostGoOn) {
  const CUstream waiting = make_stream(), writing = make_stream();
  const CUdeviceptr word = allocate(64);
  write<unsigned>(word, {0});
  ASSERT_OK(cuCtxSynchronize());
  ASSERT_OK(cuStreamWaitValue32(waiting, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  std::atomic<bool> over{false};
  std::thread other([&] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(over.load());
    EXPECT_OK(cuStreamWriteValue32(writing, word, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
  });
  EXPECT_OK(cuStreamSynchronize(waiting));
  over.store(true);
  other.join();
}

// As long as a host function runs, somebody may write the value; and so may whoever it has told that it has ended.
TEST_F(StreamValueTest, AHostFunctionTakesItsTimeWhileTheHostWaitsForAValue) {
  control().reset();
  ASSERT_EQ(control().configure("blocked_timeout", "0.3"), nullptr);
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
  ASSERT_OK(cuCtxSetCurrent(context_));
  void* pinned = nullptr;
  ASSERT_OK(cuMemHostAlloc(&pinned, 64, CU_MEMHOSTALLOC_DEVICEMAP));
  std::atomic_ref<unsigned> word(*static_cast<unsigned*>(pinned));
  word = 0;
  CUdeviceptr mapped = 0;
  ASSERT_OK(cuMemHostGetDevicePointer(&mapped, pinned, 0));
  const CUstream waiting = make_stream(), busy = make_stream();
  std::atomic<bool> has_ended{false};
  const auto take_time = [](void* ended) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    *static_cast<std::atomic<bool>*>(ended) = true;
  };
  ASSERT_OK(cuLaunchHostFunc(busy, take_time, &has_ended));
  ASSERT_OK(cuStreamWaitValue32(waiting, mapped, 1, CU_STREAM_WAIT_VALUE_EQ));
  std::thread other([&] {
    while (!has_ended) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    word = 1;
  });
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(word, 1u);
  other.join();
  EXPECT_OK(cuMemFreeHost(pinned));
}

TEST_F(StreamValueTest, BatchesWriteAndWaitInOrder) {
  const CUstream stream = make_stream();
  const CUdeviceptr word = allocate(64);
  write<unsigned>(word, {0, 0, 0, 0});
  ASSERT_OK(cuCtxSynchronize());
  CUstreamBatchMemOpParams all[4] = {};
  all[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, word, {.value = 7}, 0, 0};
  all[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, word, {.value = 7}, CU_STREAM_WAIT_VALUE_EQ, 0};
  all[2].memoryBarrier = {CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEMORY_BARRIER_TYPE_SYS};
  all[3].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, word + 8, {.value64 = 0x100000002}, 0, 0};
  ASSERT_OK(cuStreamBatchMemOp(stream, 4, all, 0));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(read<unsigned>(word, 4), (std::vector<unsigned>{7, 0, 2, 1}));
  EXPECT_EQ(cuStreamBatchMemOp(stream, 4, all, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamBatchMemOp(stream, 0, all, 0), CUDA_ERROR_INVALID_VALUE);
  all[1].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
  EXPECT_EQ(cuStreamBatchMemOp(stream, 2, all, 0), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(StreamValueTest, GraphsTellWhatTheirNodesWriteAndWaitFor) {
  const CUstream stream = make_stream();
  const CUdeviceptr word = allocate(64);
  write<unsigned>(word, {0, 0, 0, 0});
  ASSERT_OK(cuCtxSynchronize());
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuStreamWaitValue64(stream, word + 8, 0x100000001, CU_STREAM_WAIT_VALUE_EQ));
  ASSERT_OK(cuStreamWriteValue32(stream, word, 5, CU_STREAM_WRITE_VALUE_DEFAULT));
  ASSERT_OK(cuStreamEndCapture(stream, &graph));
  CUgraphNode nodes[2] = {};
  std::size_t count = 2;
  ASSERT_OK(cuGraphGetNodes(graph, nodes, &count));
  ASSERT_EQ(count, 2u);
  CUDA_BATCH_MEM_OP_NODE_PARAMS params{};
  ASSERT_OK(cuGraphBatchMemOpNodeGetParams(nodes[0], &params));
  ASSERT_EQ(params.count, 1u);
  EXPECT_EQ(params.paramArray[0].operation, CU_STREAM_MEM_OP_WAIT_VALUE_64);
  EXPECT_EQ(params.paramArray[0].waitValue.address, word + 8);
  EXPECT_EQ(params.paramArray[0].waitValue.value64, 0x100000001u);
  EXPECT_EQ(params.paramArray[0].waitValue.flags, unsigned{CU_STREAM_WAIT_VALUE_EQ});
  ASSERT_OK(cuGraphBatchMemOpNodeGetParams(nodes[1], &params));
  EXPECT_EQ(params.paramArray[0].operation, CU_STREAM_MEM_OP_WRITE_VALUE_32);
  EXPECT_EQ(params.paramArray[0].writeValue.value, 5u);
  // The node itself writes the value that it waits for, before the wait.
  CUstreamBatchMemOpParams all[2] = {};
  all[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, word + 8, {.value64 = 0x100000001}, 0, 0};
  all[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_64, word + 8, {.value64 = 0x100000001}, CU_STREAM_WAIT_VALUE_EQ, 0};
  params = {nullptr, 2, all, 0};
  ASSERT_OK(cuGraphBatchMemOpNodeSetParams(nodes[0], &params));
  params.flags = 1;
  EXPECT_EQ(cuGraphBatchMemOpNodeSetParams(nodes[0], &params), CUDA_ERROR_INVALID_VALUE);
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  ASSERT_OK(cuGraphLaunch(exec, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(read<unsigned>(word, 4), (std::vector<unsigned>{5, 0, 1, 1}));
  all[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, word + 4, {.value = 9}, 0, 0};
  params = {nullptr, 1, all, 0};
  ASSERT_OK(cuGraphExecBatchMemOpNodeSetParams(exec, nodes[1], &params));
  // An executable graph keeps the number of operations and their types.
  CUgraphExecUpdateResultInfo why{};
  all[1] = all[0];
  params.count = 2;
  EXPECT_EQ(cuGraphExecBatchMemOpNodeSetParams(exec, nodes[1], &params), CUDA_ERROR_INVALID_VALUE);
  params.count = 1;
  EXPECT_EQ(cuGraphExecBatchMemOpNodeSetParams(exec, nodes[0], &params), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuGraphBatchMemOpNodeSetParams(nodes[0], &params));
  EXPECT_EQ(cuGraphExecUpdate(exec, graph, &why), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(why.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
  EXPECT_EQ(why.errorNode, nodes[0]);
  ASSERT_OK(cuGraphLaunch(exec, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(read<unsigned>(word, 4), (std::vector<unsigned>{5, 9, 1, 1}));
  ASSERT_OK(cuGraphExecDestroy(exec));
  ASSERT_OK(cuGraphDestroy(graph));
}

TEST_F(StreamValueTest, WhatIsNoWordIsRefused) {
  const CUdeviceptr word = allocate(64);
  unsigned pageable = 0;
  EXPECT_EQ(cuStreamWriteValue32(nullptr, word + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue64(nullptr, word + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue32(nullptr, word, 1, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue32(nullptr, word, 1, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue32(nullptr, reinterpret_cast<CUdeviceptr>(&pageable), 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue32(nullptr, word, 1, CU_STREAM_WAIT_VALUE_FLUSH), CUDA_ERROR_NOT_SUPPORTED);
  int value = -1;
  EXPECT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
  EXPECT_EQ(value, 1);
  EXPECT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 0));
  EXPECT_EQ(value, 1);
  EXPECT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0));
  EXPECT_EQ(value, 0);
}

// The write after the wait, and the one before the value was written, access the same bytes.
TEST_F(StreamValueTest, WhoeverHasWaitedComesBehindWhoWrote) {
  for (const char* seed : {"1", "2", "3", "4"}) {
    control().reset();
    ASSERT_EQ(control().configure("check", "1"), nullptr);
    ASSERT_EQ(control().configure("seed", seed), nullptr);
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_OK(cuCtxSetCurrent(context_));
    const CUstream waiting = make_stream(), writing = make_stream(), third = make_stream();
    CUevent event = nullptr;
    ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    const CUdeviceptr word = allocate(64), data = allocate(64);
    write<unsigned>(word, {0});
    ASSERT_OK(cuCtxSynchronize());
    ASSERT_OK(cuStreamWaitValue32(waiting, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    ASSERT_OK(cuMemsetD32Async(data, 2, 1, waiting));
    ASSERT_OK(cuEventRecord(event, waiting));
    ASSERT_OK(cuStreamWaitEvent(third, event, 0));
    ASSERT_OK(cuMemsetD32Async(data, 3, 1, third));
    ASSERT_OK(cuMemsetD32Async(data, 1, 1, writing));
    ASSERT_OK(cuStreamWriteValue32(writing, word, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    ASSERT_OK(cuStreamSynchronize(third));
    EXPECT_EQ(read<unsigned>(data, 1)[0], 3u);
    ASSERT_OK(cuCtxSynchronize());
    EXPECT_EQ(statistics().races, 0u);
    // Without the wait there is a race.
    ASSERT_OK(cuMemsetD32Async(data, 4, 1, waiting));
    ASSERT_OK(cuMemsetD32Async(data, 5, 1, third));
    ASSERT_OK(cuCtxSynchronize());
    EXPECT_GT(statistics().races, 0u);
  }
}

TEST_F(StreamValueTest, RecordedOnesAreNodes) {
  const CUstream recording = make_stream(), stream = make_stream();
  const CUdeviceptr word = allocate(64);
  write<unsigned>(word, {0, 0});
  ASSERT_OK(cuCtxSynchronize());
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_OK(cuStreamBeginCapture(recording, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuStreamWaitValue32(recording, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  ASSERT_OK(cuStreamWriteValue32(recording, word + 4, 2, CU_STREAM_WRITE_VALUE_DEFAULT));
  ASSERT_OK(cuStreamEndCapture(recording, &graph));
  ASSERT_OK(cuGraphInstantiate(&executable, graph, 0));
  ASSERT_OK(cuGraphLaunch(executable, recording));
  EXPECT_FALSE(is_done(recording));
  ASSERT_OK(cuStreamWriteValue32(stream, word, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
  ASSERT_OK(cuStreamSynchronize(recording));
  EXPECT_EQ(read<unsigned>(word, 2)[1], 2u);
}

using StreamValueDeathTest = StreamValueTest;

TEST_F(StreamValueDeathTest, HostThatWaitsForNobodySaysWhatIsBlocked) {
  const auto waits = [] {
    control().reset();
    control().configure("progress", "off");
    control().configure("blocked_timeout", "0.05");
    EXPECT_OK(cuInit(0));
    CUcontext context = nullptr;
    EXPECT_OK(cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT_OK(cuCtxSetCurrent(context));
    const CUdeviceptr word = allocate(64);
    write<unsigned>(word, {0});
    EXPECT_OK(cuStreamWaitValue32(nullptr, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    EXPECT_OK(cuCtxSynchronize());
  };
  EXPECT_DEATH(waits(), "what can not go on: stream 0 .* waits for a value of 4 bytes .* nobody has written it");
}

}  // namespace
