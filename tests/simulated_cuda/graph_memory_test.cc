// SPDX-License-Identifier: Apache-2.0
// Graphs that allocate: when the memory exists, who frees it, and what such graphs can not be used for.
#include "tests/simulated_cuda/device_fixture.h"

namespace {

class GraphMemoryTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    stream_ = make_stream();
    ASSERT_OK(cuGraphCreate(&graph_, 0));
  }

  // A node that allocates, after another one or none; the address is stored in `at`.
  CUgraphNode add_allocation(CUdeviceptr* at, CUgraphNode after = nullptr, std::size_t bytes = kPage) {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    params.bytesize = bytes;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddMemAllocNode(&node, graph_, &after, after != nullptr ? 1 : 0, &params));
    *at = params.dptr;
    return node;
  }

  CUgraphNode add_set(CUdeviceptr at, unsigned value, CUgraphNode after) {
    CUDA_MEMSET_NODE_PARAMS params{};
    params.dst = at;
    params.value = value;
    params.elementSize = 4;
    params.width = 16;
    params.height = 1;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddMemsetNode(&node, graph_, &after, after != nullptr ? 1 : 0, &params, context_));
    return node;
  }

  CUgraphNode add_free(CUdeviceptr at, CUgraphNode after) {
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddMemFreeNode(&node, graph_, &after, 1, at));
    return node;
  }

  CUgraphExec instantiate(unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    EXPECT_OK(cuGraphInstantiate(&exec, graph_, flags));
    return exec;
  }

  static cuuint64_t held(CUgraphMem_attribute attribute) {
    cuuint64_t value = 0;
    EXPECT_OK(cuDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
  }

  CUstream stream_ = nullptr;
  CUgraph graph_ = nullptr;
};

TEST_F(GraphMemoryTest, AddressesAreThereAtOnceAndMemoryWithTheFirstLaunch) {
  CUdeviceptr at = 0;
  add_set(at, 1, add_allocation(&at, nullptr, 3 * kPage));
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_OK(cuMemGetAddressRange(&base, &bytes, at + kPage));
  EXPECT_EQ(base, at);
  EXPECT_EQ(bytes, 3 * kPage);
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph_, 0));
  EXPECT_EQ(held(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0u);
  EXPECT_OK(cuGraphUpload(exec, stream_));
  EXPECT_EQ(held(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 3 * kPage);
}

TEST_F(GraphMemoryTest, WhatTheGraphLeavesIsThereUntilItIsFreedInOrder) {
  CUdeviceptr at = 0;
  CUgraphNode allocation = add_allocation(&at);
  add_set(at, 7, allocation);
  CUgraphExec exec = instantiate();
  for (unsigned round = 0; round < 2; ++round) {
    EXPECT_OK(cuGraphLaunch(exec, stream_));
    EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_INVALID_VALUE) << "not freed yet";
    std::uint32_t* pinned = nullptr;
    ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), 128, 0));
    EXPECT_OK(cuMemcpyDtoHAsync(pinned, at, 128, stream_));
    EXPECT_OK(cuMemsetD32Async(at + 64, 9, 16, stream_));
    EXPECT_OK(cuMemFreeAsync(at, stream_));
    EXPECT_OK(cuStreamSynchronize(stream_));
    EXPECT_EQ(pinned[15], 7u);
    EXPECT_EQ(pinned[16], 0u) << "each launch allocates anew";
    EXPECT_OK(cuMemFreeHost(pinned));
  }
  EXPECT_EQ(cuMemFreeAsync(at, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(at), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(statistics().races, 0u);
}

TEST_F(GraphMemoryTest, WhatIsFreedIsAFault) {
  CUdeviceptr at = 0;
  CUgraphNode allocation = add_allocation(&at);
  add_free(at, add_set(at, 7, allocation));
  CUgraphExec exec = instantiate();
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(cuMemFree(at), CUDA_ERROR_INVALID_VALUE) << "its graph frees it";
  EXPECT_OK(cuMemsetD32Async(at, 1, 16, stream_));
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(GraphMemoryTest, WhatIsNotAllocatedYetIsAFault) {
  CUdeviceptr at = 0;
  add_allocation(&at);
  EXPECT_OK(cuMemsetD32Async(at, 1, 16, stream_));
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(GraphMemoryTest, ANodeThatIsNotBehindTheAllocationIsARace) {
  CUdeviceptr at = 0;
  CUgraphNode allocation = add_allocation(&at);
  add_free(at, add_set(at, 7, allocation));
  CUgraphExec exec = instantiate();
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(statistics().races, 0u);
  CUstream other = make_stream();
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuMemsetD32Async(at, 1, 16, other));
  cuCtxSynchronize();
  EXPECT_GT(statistics().races, 0u);
}

TEST_F(GraphMemoryTest, AllocationsThatTheEdgesKeepApartShareMemory) {
  CUdeviceptr first = 0, second = 0, third = 0;
  CUgraphNode freed = add_free(first, add_set(first, 1, add_allocation(&first)));
  add_free(second, add_set(second, 2, add_allocation(&second, freed)));
  add_free(third, add_set(third, 3, add_allocation(&third)));  // independent of the other two
  EXPECT_NE(first, second);
  CUgraphExec exec = instantiate();
  for (int round = 0; round < 3; ++round) EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(held(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 2 * kPage);
  EXPECT_EQ(statistics().races, 0u);
}

TEST_F(GraphMemoryTest, LaunchesFreeWhatIsLeftWhereTheyWereToldTo) {
  CUdeviceptr at = 0;
  CUgraphNode allocation = add_allocation(&at);
  add_set(at, 7, allocation);
  CUgraphExec exec = instantiate(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  for (int round = 0; round < 3; ++round) EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(read<std::uint32_t>(at, 16)[15], 7u) << "what is live outlives its graph";
  EXPECT_OK(cuMemFree(at));
  EXPECT_EQ(cuMemGetAddressRange(nullptr, nullptr, at), CUDA_ERROR_NOT_FOUND);
}

TEST_F(GraphMemoryTest, AnotherGraphMayFree) {
  CUdeviceptr at = 0;
  CUgraphNode node = nullptr;
  add_allocation(&at);
  CUgraph other = nullptr;
  ASSERT_OK(cuGraphCreate(&other, 0));
  EXPECT_OK(cuGraphAddMemFreeNode(&node, other, nullptr, 0, at));
  CUdeviceptr asked = 0;
  EXPECT_OK(cuGraphMemFreeNodeGetParams(node, &asked));
  EXPECT_EQ(asked, at);
  EXPECT_EQ(cuGraphAddMemFreeNode(&node, other, nullptr, 0, at), CUDA_ERROR_INVALID_VALUE) << "twice";
  EXPECT_EQ(cuGraphAddMemFreeNode(&node, graph_, nullptr, 0, at), CUDA_ERROR_INVALID_VALUE) << "and in its own";
  CUgraphExec allocating = instantiate(), freeing = nullptr;
  ASSERT_OK(cuGraphInstantiate(&freeing, other, 0));
  EXPECT_EQ(cuGraphLaunch(freeing, stream_), CUDA_ERROR_INVALID_VALUE) << "nothing is allocated";
  for (int round = 0; round < 2; ++round) {
    EXPECT_OK(cuGraphLaunch(allocating, stream_));
    EXPECT_OK(cuGraphLaunch(freeing, stream_));
  }
  EXPECT_OK(cuStreamSynchronize(stream_));
}

TEST_F(GraphMemoryTest, WrongNodesAreRefused) {
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph_, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE) << "of no size";
  params.bytesize = kPage;
  params.poolProps.location.id = 5;
  EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph_, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
  params.poolProps.location.id = 0;
  params.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph_, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph_, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddMemFreeNode(&node, graph_, nullptr, 0, allocate(kPage)), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphMemoryTest, SuchGraphsAreNeitherCopiedNorChildrenNorLaunchableTwice) {
  CUdeviceptr at = 0;
  CUgraphNode allocation = add_allocation(&at), node = nullptr;
  CUgraphNode freed = add_free(at, allocation);
  CUDA_MEM_ALLOC_NODE_PARAMS asked{};
  EXPECT_OK(cuGraphMemAllocNodeGetParams(allocation, &asked));
  EXPECT_EQ(asked.dptr, at);
  EXPECT_EQ(asked.bytesize, kPage);
  CUgraph copy = nullptr, parent = nullptr;
  EXPECT_EQ(cuGraphClone(&copy, graph_), CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_OK(cuGraphCreate(&parent, 0));
  EXPECT_EQ(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, graph_), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphDestroyNode(freed), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphRemoveDependencies(graph_, &allocation, &freed, nullptr, 1), CUDA_ERROR_NOT_SUPPORTED);
  CUgraphExec exec = instantiate(), second = nullptr;
  EXPECT_EQ(cuGraphInstantiate(&second, graph_, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphInstantiate(&second, graph_, 0));
}

TEST_F(GraphMemoryTest, UpdatesTakeNoOtherGraphsMemory) {
  CUdeviceptr at = 0;
  add_free(at, add_allocation(&at));
  CUgraphExec exec = instantiate();
  CUgraphExecUpdateResultInfo info{};
  EXPECT_OK(cuGraphExecUpdate(exec, graph_, &info));
  ASSERT_OK(cuGraphCreate(&graph_, 0));
  add_free(at, add_allocation(&at));
  EXPECT_EQ(cuGraphExecUpdate(exec, graph_, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
}

TEST_F(GraphMemoryTest, RecordedCallsBecomeNodes) {
  CUdeviceptr at = 0, before = allocate(kPage);
  CUgraph recorded = nullptr;
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_OK(cuMemAllocAsync(&at, 100, stream_));
  EXPECT_OK(cuMemsetD32Async(at, 5, 25, stream_));
  EXPECT_OK(cuMemcpyDtoDAsync(before, at, 100, stream_));
  EXPECT_OK(cuMemFreeAsync(at, stream_));
  ASSERT_OK(cuStreamEndCapture(stream_, &recorded));
  CUgraphNode nodes[4] = {};
  std::size_t count = 4;
  EXPECT_OK(cuGraphGetNodes(recorded, nodes, &count));
  EXPECT_EQ(count, 4u);
  auto type = CU_GRAPH_NODE_TYPE_EMPTY;
  EXPECT_OK(cuGraphNodeGetType(nodes[3], &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEM_FREE);
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, recorded, 0));
  for (int round = 0; round < 3; ++round) EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(read<std::uint32_t>(before, 25)[24], 5u);
}

TEST_F(GraphMemoryTest, OtherMemoryCanNotBeFreedInARecording) {
  CUdeviceptr at = allocate(kPage);
  CUgraph recorded = nullptr;
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(cuMemFreeAsync(at, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamEndCapture(stream_, &recorded), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(GraphMemoryTest, TrimGivesBackWhatNoLaunchNeeds) {
  CUdeviceptr freed = 0, left = 0;
  CUgraphNode allocation = add_allocation(&freed, nullptr, 5 * kPage);
  add_free(freed, add_allocation(&left, allocation));
  CUgraphExec exec = instantiate(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  std::size_t before = 0, after = 0, total = 0;
  EXPECT_OK(cuMemGetInfo(&before, &total));
  for (int round = 0; round < 2; ++round) {
    EXPECT_OK(cuGraphLaunch(exec, stream_));
    EXPECT_OK(cuStreamSynchronize(stream_));
    EXPECT_EQ(held(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 6 * kPage);
    EXPECT_OK(cuDeviceGraphMemTrim(0));
    EXPECT_EQ(held(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), kPage) << "what is live stays";
  }
  EXPECT_EQ(held(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 6 * kPage);
  cuuint64_t zero = 0;
  EXPECT_OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &zero));
  EXPECT_EQ(held(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), kPage);
  EXPECT_EQ(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFree(left));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph_));
  EXPECT_EQ(held(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_OK(cuDeviceGraphMemTrim(0));
  EXPECT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
  EXPECT_EQ(cuDeviceGraphMemTrim(1), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(GraphMemoryTest, ALaunchWithoutMemoryFailsAndCanBeMadeAgain) {
  CUdeviceptr at = 0;
  add_free(at, add_set(at, 3, add_allocation(&at, nullptr, 8 * kPage)));
  CUgraphExec exec = instantiate();
  std::size_t free = 0, total = 0;
  EXPECT_OK(cuMemGetInfo(&free, &total));
  CUdeviceptr all = allocate(free);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_OK(cuMemFree(all));
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
}

TEST_F(GraphMemoryTest, AContextTakesItsGraphsMemoryAlong) {
  CUdeviceptr at = 0;
  add_allocation(&at);
  CUgraphExec exec = instantiate();
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuDevicePrimaryCtxReset(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
  EXPECT_EQ(held(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0u);
}

}  // namespace
