// SPDX-License-Identifier: Apache-2.0
// A graph of nodes of each kind that a launch in parts may have, with more memory than the tests' budget. Between launches
// every node of the executable graph is changed, disabled or given another child graph, and all of them by another
// recording; the graph itself is gone by then. Launches alternate between two streams without a wait, and follow each
// other; one is recorded into another graph. The executable graphs are destroyed while they run.
#include "tests/preload/programs/small.h"

static CUstream streams[2];
static CUevent inside, outside;
static CUgraphNode set, copy, kernels[BUFFERS], child, record, joined, waits;

static CUDA_KERNEL_NODE_PARAMS kernel_node(void** parameters) {
  CUDA_KERNEL_NODE_PARAMS node = {0};
  node.func = mix;
  node.gridDimX = 64;
  node.blockDimX = 128;
  node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = parameters;
  return node;
}

static CUDA_MEMSET_NODE_PARAMS set_of(CUdeviceptr at, unsigned value) {
  CUDA_MEMSET_NODE_PARAMS params = {0};
  params.dst = at;
  params.value = value;
  params.elementSize = 4;
  params.width = BYTES / 4;
  params.height = 1;
  return params;
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D params = {0};
  params.srcMemoryType = params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  params.srcDevice = from;
  params.dstDevice = to;
  params.WidthInBytes = BYTES;
  params.Height = params.Depth = 1;
  return params;
}

static CUgraph chain(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c) {
  CUgraph graph = NULL;
  CHECK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  mix_on(streams[0], a, b);
  mix_on(streams[0], c, a);
  CHECK(cuStreamEndCapture(streams[0], &graph));
  return graph;
}

// Two branches that meet: a set, and kernels; a copy of what is not written. Then a child graph, events, and a kernel for
// each buffer.
static CUgraph build(unsigned value) {
  CUgraph graph = NULL;
  CHECK(cuGraphCreate(&graph, 0));
  const CUDA_MEMSET_NODE_PARAMS zero = set_of(buffers[0], value);
  CHECK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &zero, context));
  const CUDA_MEMCPY3D one = copy_of(buffers[2], buffers[3]);
  CHECK(cuGraphAddMemcpyNode(&copy, graph, NULL, 0, &one, context));
  const CUgraphNode both[] = {set, copy};
  CHECK(cuGraphAddEmptyNode(&joined, graph, both, 2));
  CUgraph inner = chain(buffers[0], buffers[2], buffers[4]);
  CHECK(cuGraphAddChildGraphNode(&child, graph, &joined, 1, inner));
  CHECK(cuGraphDestroy(inner));
  CHECK(cuGraphAddEventRecordNode(&record, graph, &child, 1, inside));
  CHECK(cuGraphAddEventWaitNode(&waits, graph, &record, 1, outside));
  for (int i = 0; i < BUFFERS; ++i) {
    CUdeviceptr out = buffers[i], in = buffers[(i + 3) % BUFFERS];
    void* parameters[] = {&out, &in};
    const CUDA_KERNEL_NODE_PARAMS node = kernel_node(parameters);
    const CUgraphNode before[] = {i == 0 ? waits : kernels[i - 1]};
    CHECK(cuGraphAddKernelNode(&kernels[i], graph, before, 1, &node));
  }
  return graph;
}

static void set_kernel(CUgraphExec exec, int i, CUdeviceptr out, CUdeviceptr in, int any) {
  void* parameters[] = {&out, &in};
  const CUDA_KERNEL_NODE_PARAMS node = kernel_node(parameters);
  CUgraphNodeParams params = {0};
  params.type = CU_GRAPH_NODE_TYPE_KERNEL;
  params.kernel.func = mix;
  params.kernel.gridDimX = 64;
  params.kernel.blockDimX = 128;
  params.kernel.gridDimY = params.kernel.gridDimZ = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
  params.kernel.kernelParams = parameters;
  if (any) {
    CHECK(cuGraphExecNodeSetParams(exec, kernels[i], &params));
  } else {
    CHECK(cuGraphExecKernelNodeSetParams(exec, kernels[i], &node));
  }
}

static void change(CUgraphExec exec, int round) {
  const int to = round % BUFFERS, from = (round + 5) % BUFFERS;
  set_kernel(exec, round % BUFFERS, buffers[to], buffers[from], round % 2);
  const CUDA_MEMSET_NODE_PARAMS other = set_of(buffers[1], (unsigned)round);
  const CUDA_MEMCPY3D another = copy_of(buffers[5], buffers[6]);
  if (round == 1) CHECK(cuGraphExecMemsetNodeSetParams(exec, set, &other, context));
  if (round == 2) CHECK(cuGraphExecMemcpyNodeSetParams(exec, copy, &another, context));
  if (round == 3) CHECK(cuGraphNodeSetEnabled(exec, kernels[4], 0));
  if (round == 5) CHECK(cuGraphNodeSetEnabled(exec, kernels[4], 1));
  if (round == 6) {
    CUgraph inner = chain(buffers[7], buffers[6], buffers[5]);
    CHECK(cuGraphExecChildGraphNodeSetParams(exec, child, inner));
    CHECK(cuGraphDestroy(inner));
  }
  if (round == 7) {
    CHECK(cuGraphExecEventRecordNodeSetEvent(exec, record, outside));
    CHECK(cuGraphExecEventWaitNodeSetEvent(exec, waits, inside));
  }
}

// A launch into a stream that captures becomes a node of the captured graph.
static CUgraphExec launched_into_a_graph(CUgraphExec exec) {
  CUgraph graph = NULL;
  CUgraphExec outer = NULL;
  CHECK(cuStreamBeginCapture(streams[1], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  mix_on(streams[1], buffers[1], buffers[0]);
  TELL(cuGraphLaunch(exec, streams[1]));
  CHECK(cuStreamEndCapture(streams[1], &graph));
  CHECK(cuGraphInstantiate(&outer, graph, 0));
  CHECK(cuGraphDestroy(graph));
  return outer;
}

int main(void) {
  begin();
  make_buffers();
  for (int i = 0; i < 2; ++i) CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&inside, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventRecord(outside, streams[1]));
  CUgraph graph = build(3), newer = NULL;
  CUgraphExec exec = NULL;
  cuuint64_t flags = 1;
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphExecGetFlags(exec, &flags));
  printf("flags: %llu\n", (unsigned long long)flags);
  CHECK(cuGraphUpload(exec, streams[0]));
  for (int round = 0; round < 10; ++round) {
    if (round > 0) change(exec, round);
    CHECK(cuGraphLaunch(exec, streams[round % 2]));
    if (round % 3 == 0) CHECK(cuGraphLaunch(exec, streams[round % 2]));
  }
  newer = build(9);
  CUgraphExecUpdateResultInfo why;
  CHECK(cuGraphExecUpdate(exec, newer, &why));
  CHECK(cuGraphLaunch(exec, streams[0]));
  CHECK(cuGraphLaunch(exec, streams[1]));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuGraphDestroy(newer));
  CHECK(cuGraphLaunch(exec, streams[0]));
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuStreamSynchronize(streams[0]));
  show_buffers();
  graph = chain(buffers[0], buffers[1], buffers[2]);
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CUgraphExec outer = launched_into_a_graph(exec);
  CHECK(cuGraphLaunch(outer, streams[1]));
  CHECK(cuStreamSynchronize(streams[1]));
  CHECK(cuGraphExecDestroy(outer));
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
  mix_all(streams[1]);
  CHECK(cuStreamSynchronize(streams[1]));
  for (int i = 0; i < 2; ++i) CHECK(cuStreamDestroy(streams[i]));
  CHECK(cuEventDestroy(inside));
  CHECK(cuEventDestroy(outside));
  return finish();
}
