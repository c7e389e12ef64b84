// SPDX-License-Identifier: Apache-2.0
// Graphs that together, and each over time, name more than fits, but never at once: several that are kept, captured and
// made of nodes; one whose nodes and child graph are changed between launches, which is updated as a whole, and whose
// nodes are disabled and enabled; some that are destroyed, or never instantiated. The memory of each is used outside of
// graphs in between.
#include "tests/preload/programs/small.h"

static CUstream stream;

static CUgraph record(CUdeviceptr out, CUdeviceptr in) {
  CUgraph graph = NULL;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  mix_on(stream, out, in);
  CHECK(cuMemcpyDtoDAsync(in, out, BYTES / 2, stream));
  CHECK(cuMemsetD32Async(out, 3, 1000, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  return graph;
}

static CUDA_KERNEL_NODE_PARAMS mixing(void** parameters) {
  CUDA_KERNEL_NODE_PARAMS work = {0};
  work.func = mix;
  work.gridDimX = 64;
  work.gridDimY = work.gridDimZ = work.blockDimY = work.blockDimZ = 1;
  work.blockDimX = 128;
  work.kernelParams = parameters;
  return work;
}

static void several(void) {
  CUgraphExec steps[BUFFERS];
  for (int i = 0; i < BUFFERS; ++i) {
    CUgraph graph = record(buffers[i], buffers[(i + 1) % BUFFERS]);
    CHECK(cuGraphInstantiate(&steps[i], graph, 0));
    CHECK(cuGraphDestroy(graph));
    // Never instantiated.
    CHECK(cuGraphDestroy(record(buffers[(i + 2) % BUFFERS], buffers[(i + 3) % BUFFERS])));
  }
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < BUFFERS; ++i) CHECK(cuGraphLaunch(steps[i], stream));
    CHECK(cuStreamSynchronize(stream));
    mix_all(NULL);
    CHECK(cuCtxSynchronize());
  }
  for (int i = 0; i < BUFFERS; ++i) CHECK(cuGraphExecDestroy(steps[i]));
}

struct nodes {
  CUgraphNode kernel, copy, set, child;
};

static CUgraph child_of(CUdeviceptr out, CUdeviceptr in) {
  CUgraph child = NULL;
  CUgraphNode node;
  void* parameters[] = {&out, &in};
  const CUDA_KERNEL_NODE_PARAMS work = mixing(parameters);
  CHECK(cuGraphCreate(&child, 0));
  CHECK(cuGraphAddKernelNode(&node, child, NULL, 0, &work));
  return child;
}

// The i-th use: of two adjacent buffers.
static void change(CUgraphExec step, const struct nodes* nodes, int i) {
  CUdeviceptr out = buffers[i % BUFFERS], in = buffers[(i + 1) % BUFFERS];
  void* parameters[] = {&out, &in};
  const CUDA_KERNEL_NODE_PARAMS work = mixing(parameters);
  CUDA_MEMCPY3D copy = {0};
  CUDA_MEMSET_NODE_PARAMS set = {0};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = out;
  copy.dstDevice = in;
  copy.WidthInBytes = 4096;
  copy.Height = copy.Depth = 1;
  set.dst = in;
  set.elementSize = 4;
  set.value = 5;
  set.width = 100;
  set.height = 1;
  CHECK(cuGraphExecKernelNodeSetParams(step, nodes->kernel, &work));
  CHECK(cuGraphExecMemcpyNodeSetParams(step, nodes->copy, &copy, context));
  CHECK(cuGraphExecMemsetNodeSetParams(step, nodes->set, &set, context));
  CUgraph child = child_of(in, out);
  CHECK(cuGraphExecChildGraphNodeSetParams(step, nodes->child, child));
  CHECK(cuGraphDestroy(child));
}

static void one_that_changes(void) {
  CUgraph graph = NULL, child = child_of(buffers[0], buffers[1]);
  CUgraphExec step = NULL;
  struct nodes nodes;
  void* parameters[] = {&buffers[0], &buffers[1]};
  const CUDA_KERNEL_NODE_PARAMS work = mixing(parameters);
  CUDA_MEMCPY3D copy = {0};
  CUDA_MEMSET_NODE_PARAMS set = {0};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = buffers[0];
  copy.dstDevice = buffers[1];
  copy.WidthInBytes = 4096;
  copy.Height = copy.Depth = 1;
  set.dst = buffers[1];
  set.elementSize = 4;
  set.value = 6;
  set.width = 100;
  set.height = 1;
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphAddKernelNode(&nodes.kernel, graph, NULL, 0, &work));
  CHECK(cuGraphAddMemcpyNode(&nodes.copy, graph, &nodes.kernel, 1, &copy, context));
  CHECK(cuGraphAddMemsetNode(&nodes.set, graph, &nodes.copy, 1, &set, context));
  CHECK(cuGraphAddChildGraphNode(&nodes.child, graph, &nodes.set, 1, child));
  CHECK(cuGraphDestroy(child));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  for (int i = 0; i < 2 * BUFFERS; ++i) {
    CHECK(cuGraphLaunch(step, stream));
    CHECK(cuStreamSynchronize(stream));
    mix_on(stream, buffers[(i + 4) % BUFFERS], buffers[(i + 5) % BUFFERS]);
    change(step, &nodes, i);
  }
  // A disabled node keeps its arguments, and uses them when it is enabled.
  CUdeviceptr out = buffers[6], in = buffers[7];
  void* others[] = {&out, &in};
  const CUDA_KERNEL_NODE_PARAMS far = mixing(others);
  CHECK(cuGraphExecKernelNodeSetParams(step, nodes.kernel, &far));
  for (unsigned on = 0; on < 4; ++on) {
    CHECK(cuGraphNodeSetEnabled(step, nodes.kernel, on % 2));
    for (int i = 0; i < BUFFERS; ++i) mix_on(stream, buffers[i], buffers[(i + 1) % BUFFERS]);
    CHECK(cuGraphLaunch(step, stream));
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
}

static void one_that_is_updated_whole(void) {
  CUgraph graph = record(buffers[0], buffers[1]);
  CUgraphExec step = NULL;
  CHECK(cuGraphInstantiate(&step, graph, 0));
  for (int i = 0; i < 2 * BUFFERS; ++i) {
    CUgraphExecUpdateResultInfo why;
    CHECK(cuGraphDestroy(graph));
    graph = record(buffers[i % BUFFERS], buffers[(i + 3) % BUFFERS]);
    CHECK(cuGraphExecUpdate(step, graph, &why));
    mix_on(stream, buffers[(i + 1) % BUFFERS], buffers[(i + 2) % BUFFERS]);
    CHECK(cuGraphLaunch(step, stream));
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuGraphExecDestroy(step));
}

int main(void) {
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  several();
  one_that_changes();
  one_that_is_updated_whole();
  CHECK(cuStreamDestroy(stream));
  return finish();
}
