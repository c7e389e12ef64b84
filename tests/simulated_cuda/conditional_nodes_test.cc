// SPDX-License-Identifier: Apache-2.0
// Conditional nodes: which body runs, how often, what else may be done with such graphs; and that the race checker and
// the access checks apply to what runs in a body as to anything else.
#include "tests/simulated_cuda/device_fixture.h"

namespace {

constexpr char kDecide[] = R"(
.version 9.0
.target sm_80
.address_size 64
.visible .entry decide(.param .u64 handle, .param .u64 word) { ret; }
.visible .entry count_down(.param .u64 handle, .param .u64 word, .param .u64 total) { ret; }
)";

struct Dim3 {
  unsigned x, y, z;
};

template <typename T>
T parameter(void** args, unsigned i) {
  return *static_cast<T*>(args[i]);
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) void simulated_decide(void** args, Dim3, Dim3) {
  simulated_device_control()->set_condition(parameter<std::uint64_t>(args, 0),
                                            *parameter<const std::uint32_t*>(args, 1));
}

// Adds the counter to the total, decrements it, and continues while it is not zero.
__attribute__((visibility("default"))) void simulated_count_down(void** args, Dim3, Dim3) {
  auto* const left = parameter<std::uint32_t*>(args, 1);
  *parameter<std::uint32_t*>(args, 2) += *left;
  simulated_device_control()->set_condition(parameter<std::uint64_t>(args, 0), --*left);
}
}

namespace {

class ConditionalNodesTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    stream_ = make_stream();
    ASSERT_OK(cuGraphCreate(&graph_, 0));
    CUmodule module = nullptr;
    ASSERT_OK(cuModuleLoadData(&module, kDecide));
    ASSERT_OK(cuModuleGetFunction(&decide_, module, "decide"));
    ASSERT_OK(cuModuleGetFunction(&count_down_, module, "count_down"));
    words_ = allocate(kPage);
    set_words({0, 0, 0, 0, 0, 0, 0, 0});
  }

  CUgraphConditionalHandle make_handle(unsigned value = 0, unsigned flags = CU_GRAPH_COND_ASSIGN_DEFAULT) {
    CUgraphConditionalHandle handle = 0;
    EXPECT_OK(cuGraphConditionalHandleCreate(&handle, graph_, context_, value, flags));
    return handle;
  }

  static CUgraphNodeParams conditional(CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                                       unsigned size) {
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    return params;
  }

  std::vector<CUgraph> add(CUgraph graph, CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                           unsigned size, CUgraphNode after = nullptr) {
    CUgraphNodeParams params = conditional(handle, type, size);
    EXPECT_OK(cuGraphAddNode_v2(&node_, graph, &after, nullptr, after != nullptr ? 1 : 0, &params));
    return {params.conditional.phGraph_out, params.conditional.phGraph_out + size};
  }

  CUgraphNode add_set(CUgraph graph, CUdeviceptr at, unsigned value, CUgraphNode after = nullptr) {
    CUDA_MEMSET_NODE_PARAMS params{};
    params.dst = at;
    params.value = value;
    params.elementSize = 4;
    params.width = params.height = 1;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddMemsetNode(&node, graph, &after, after != nullptr ? 1 : 0, &params, context_));
    return node;
  }

  static CUgraphNode add_kernel(CUgraph graph, CUfunction function, std::vector<std::uint64_t> values) {
    std::vector<void*> parameters;
    for (std::uint64_t& value : values) parameters.push_back(&value);
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = parameters.data();
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params));
    return node;
  }

  CUgraphExec instantiate() {
    CUgraphExec exec = nullptr;
    EXPECT_OK(cuGraphInstantiate(&exec, graph_, 0));
    return exec;
  }

  void launch(CUgraphExec exec) {
    EXPECT_OK(cuGraphLaunch(exec, stream_));
    EXPECT_OK(cuStreamSynchronize(stream_));
  }

  // Non-blocking streams may run before a copy that was only staged.
  void set_words(const std::vector<std::uint32_t>& values) {
    write<std::uint32_t>(words_, values);
    EXPECT_OK(cuCtxSynchronize());
  }

  std::uint32_t word(unsigned i) { return read<std::uint32_t>(words_ + i * 4, 1)[0]; }

  CUstream stream_ = nullptr;
  CUgraph graph_ = nullptr;
  CUgraphNode node_ = nullptr;
  CUfunction decide_ = nullptr, count_down_ = nullptr;
  CUdeviceptr words_ = 0;
};

TEST_F(ConditionalNodesTest, AKernelChoosesBetweenTwoBodies) {
  const auto handle = make_handle();
  CUgraphNode deciding = add_kernel(graph_, decide_, {handle, words_});
  const auto bodies = add(graph_, handle, CU_GRAPH_COND_TYPE_IF, 2, deciding);
  add_set(bodies[0], words_ + 4, 11);
  add_set(bodies[1], words_ + 8, 22);
  CUgraphExec exec = instantiate();
  launch(exec);
  EXPECT_EQ(word(1), 0u);
  EXPECT_EQ(word(2), 22u);
  set_words({1, 0, 0});
  launch(exec);
  EXPECT_EQ(word(1), 11u);
  EXPECT_EQ(word(2), 0u);
  EXPECT_EQ(statistics().races, 0u);
}

TEST_F(ConditionalNodesTest, ALoopGoesRoundUntilItsKernelSaysOtherwise) {
  const auto handle = make_handle(1);
  const auto bodies = add(graph_, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
  add_kernel(bodies[0], count_down_, {handle, words_, words_ + 4});
  CUgraphExec exec = instantiate();
  for (std::uint32_t rounds : {5u, 3u}) {
    set_words({rounds, 0});
    const std::uint64_t kernels = statistics().kernels;
    const std::int64_t busy = statistics().compute_busy_ns;
    launch(exec);
    EXPECT_EQ(word(0), 0u);
    EXPECT_EQ(word(1), rounds * (rounds + 1) / 2);
    EXPECT_EQ(statistics().kernels - kernels, rounds);
    EXPECT_GE(statistics().compute_busy_ns - busy, static_cast<std::int64_t>(rounds) * 1000) << "each round takes time";
  }
}

TEST_F(ConditionalNodesTest, ASwitchRunsTheBodyOfItsNumberOrNone) {
  const auto handle = make_handle();
  CUgraphNode deciding = add_kernel(graph_, decide_, {handle, words_});
  const auto bodies = add(graph_, handle, CU_GRAPH_COND_TYPE_SWITCH, 3, deciding);
  for (unsigned i = 0; i < 3; ++i) add_set(bodies[i], words_ + 4, 100 + i);
  CUgraphExec exec = instantiate();
  for (std::uint32_t choice : {2u, 0u, 1u, 3u}) {
    set_words({choice, 0});
    launch(exec);
    EXPECT_EQ(word(1), choice < 3 ? 100 + choice : 0);
  }
}

TEST_F(ConditionalNodesTest, ALaunchBeginsWithTheDefaultWhereThereIsOne) {
  const auto with = make_handle(1), without = make_handle(1, 0);
  const auto first = add(graph_, with, CU_GRAPH_COND_TYPE_IF, 1);
  CUgraphNode deciding = add_kernel(graph_, decide_, {without, words_});
  const auto second = add(graph_, without, CU_GRAPH_COND_TYPE_IF, 1, deciding);
  add_set(first[0], words_ + 4, 7);
  add_kernel(first[0], decide_, {with, words_ + 8});  // contains zero
  add_set(second[0], words_ + 12, 8);
  CUgraphExec exec = instantiate();
  for (int round = 0; round < 2; ++round) {
    set_words({1, 0, 0, 0});
    launch(exec);
    EXPECT_EQ(word(1), 7u);
    EXPECT_EQ(word(3), 8u);
  }
}

TEST_F(ConditionalNodesTest, BodiesHoldConditionsAndGraphsAndWhatStreamsRecord) {
  const auto outer = make_handle(1), inner = make_handle(1);
  const auto loop = add(graph_, outer, CU_GRAPH_COND_TYPE_WHILE, 1);
  ASSERT_OK(cuStreamBeginCaptureToGraph(stream_, loop[0], nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUdeviceptr left = words_, total = words_ + 4;
  CUgraphConditionalHandle handle = outer;
  void* parameters[] = {&handle, &left, &total};
  ASSERT_OK(cuLaunchKernel(count_down_, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr));
  ASSERT_OK(cuStreamEndCapture(stream_, nullptr));
  const auto within = add(loop[0], inner, CU_GRAPH_COND_TYPE_IF, 1);
  CUgraph child = nullptr;
  ASSERT_OK(cuGraphCreate(&child, 0));
  add_kernel(child, count_down_, {inner, words_ + 8, words_ + 12});
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&node, within[0], nullptr, 0, child));
  CUgraphExec exec = instantiate();
  set_words({6, 0, 4, 0});
  launch(exec);
  EXPECT_EQ(word(1), 21u);
  EXPECT_EQ(word(2), 0u) << "until its own kernel said no";
  EXPECT_EQ(word(3), 10u);
}

TEST_F(ConditionalNodesTest, NodesOfBodiesCanBeChanged) {
  const auto handle = make_handle(1);
  const auto bodies = add(graph_, handle, CU_GRAPH_COND_TYPE_IF, 1);
  CUgraphNode node = add_set(bodies[0], words_, 5);
  CUgraphExec exec = instantiate();
  CUDA_MEMSET_NODE_PARAMS params{};
  ASSERT_OK(cuGraphMemsetNodeGetParams(node, &params));
  params.value = 6;
  EXPECT_OK(cuGraphExecMemsetNodeSetParams(exec, node, &params, context_));
  launch(exec);
  EXPECT_EQ(word(0), 6u);
  CUgraphExecUpdateResultInfo info{};
  EXPECT_OK(cuGraphExecUpdate(exec, graph_, &info));
  launch(exec);
  EXPECT_EQ(word(0), 5u);
}

TEST_F(ConditionalNodesTest, SuchGraphsAreInstantiatedOnceAndNotCopied) {
  const auto handle = make_handle();
  const auto bodies = add(graph_, handle, CU_GRAPH_COND_TYPE_IF, 1);
  CUgraph other = nullptr;
  CUgraphNode node = nullptr;
  EXPECT_EQ(cuGraphClone(&other, graph_), CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_OK(cuGraphCreate(&other, 0));
  EXPECT_EQ(cuGraphAddChildGraphNode(&node, other, nullptr, 0, graph_), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphDestroy(bodies[0]), CUDA_ERROR_INVALID_VALUE) << "the node's";
  CUgraphExec exec = instantiate(), second = nullptr;
  EXPECT_EQ(cuGraphInstantiate(&second, graph_, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphInstantiate(&second, graph_, 0));
}

TEST_F(ConditionalNodesTest, HandlesAreForOneNodeEach) {
  const auto handle = make_handle();
  CUgraphNodeParams twice = conditional(handle, CU_GRAPH_COND_TYPE_IF, 1);
  CUgraphNodeParams unknown = conditional(handle + 1000, CU_GRAPH_COND_TYPE_IF, 1);
  CUgraphNodeParams two_loops = conditional(handle, CU_GRAPH_COND_TYPE_WHILE, 2);
  CUgraphNode node = nullptr;
  EXPECT_EQ(cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &unknown), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &two_loops), CUDA_ERROR_INVALID_VALUE);
  add(graph_, handle, CU_GRAPH_COND_TYPE_IF, 1);
  EXPECT_EQ(cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &twice), CUDA_ERROR_INVALID_VALUE);
  make_handle();
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  EXPECT_NE(cuGraphInstantiateWithParams(&exec, graph_, &params), CUDA_SUCCESS);
  EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
}

void CUDA_CB do_nothing(void*) {}

TEST_F(ConditionalNodesTest, BodiesHoldNoFunctionsOfTheHost) {
  const auto bodies = add(graph_, make_handle(), CU_GRAPH_COND_TYPE_IF, 1);
  CUDA_HOST_NODE_PARAMS host{do_nothing, nullptr};
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddHostNode(&node, bodies[0], nullptr, 0, &host));
  CUgraphExec exec = nullptr;
  EXPECT_NE(cuGraphInstantiate(&exec, graph_, 0), CUDA_SUCCESS);
}

TEST_F(ConditionalNodesTest, WhatABodyAccessesIsCheckedWhereItIsRun) {
  const auto handle = make_handle();
  CUgraphNode deciding = add_kernel(graph_, decide_, {handle, words_});
  const auto bodies = add(graph_, handle, CU_GRAPH_COND_TYPE_IF, 1, deciding);
  CUdeviceptr other = allocate(kPage);
  add_set(bodies[0], other, 1);
  CUgraphExec exec = instantiate();
  CUstream beside = make_stream();
  EXPECT_OK(cuMemsetD32Async(other, 2, 1, beside));
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(statistics().races, 0u) << "the body was not run";
  set_words({1});
  EXPECT_OK(cuMemsetD32Async(other, 2, 1, beside));
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(statistics().races, 1u);
  EXPECT_OK(cuMemFree(other));
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(ConditionalNodesTest, ALoopThatDoesNotEndEndsTheProgramWithALine) {
  const auto goes_round = [this] {
    SetUp();  // a new process begins from the initial state
    const auto bodies = add(graph_, make_handle(1), CU_GRAPH_COND_TYPE_WHILE, 1);
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddEmptyNode(&node, bodies[0], nullptr, 0));
    launch(instantiate());
  };
  EXPECT_DEATH(goes_round(), "a loop does not end: the condition of a node .* still holds");
}

}  // namespace
