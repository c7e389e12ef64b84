// SPDX-License-Identifier: Apache-2.0
// A graph whose child graphs each name more than the tests' budget: one of them has another one, with two branches, within.
// It is launched in two streams. Between launches a node within the first child graph is changed, and the second child
// graph is replaced. Then a node within is disabled, and enabled again.
#include "tests/preload/programs/small.h"

static CUstream streams[2];

// All buffers in turn, beginning with `from`.
static CUgraph chain(int from) {
  CUgraph graph = NULL;
  CHECK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (int i = 0; i < BUFFERS; ++i)
    mix_on(streams[0], buffers[(from + i + 1) % BUFFERS], buffers[(from + i) % BUFFERS]);
  CHECK(cuStreamEndCapture(streams[0], &graph));
  return graph;
}

// Two branches on half of the buffers each, and an empty graph behind one of them.
static CUgraph branches(void) {
  CUgraph graph = NULL, empty = NULL, half[2] = {NULL, NULL};
  CUgraphNode nodes[2], behind;
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphCreate(&empty, 0));
  for (int k = 0; k < 2; ++k) {
    CHECK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < BUFFERS / 2; ++i)
      mix_on(streams[0], buffers[k * BUFFERS / 2 + (i + 1) % (BUFFERS / 2)], buffers[k * BUFFERS / 2 + i]);
    CHECK(cuStreamEndCapture(streams[0], &half[k]));
    CHECK(cuGraphAddChildGraphNode(&nodes[k], graph, NULL, 0, half[k]));
    CHECK(cuGraphDestroy(half[k]));
  }
  CHECK(cuGraphAddChildGraphNode(&behind, graph, &nodes[1], 1, empty));
  CHECK(cuGraphDestroy(empty));
  return graph;
}

static CUgraphNode first_kernel_of(CUgraphNode child) {
  CUgraph graph = NULL;
  CUgraphNode node = NULL;
  size_t count = 1;
  CHECK(cuGraphChildGraphNodeGetGraph(child, &graph));
  CHECK(cuGraphGetRootNodes(graph, &node, &count));
  return node;
}

static void launch_twice(CUgraphExec step) {
  for (int i = 0; i < 2; ++i) CHECK(cuGraphLaunch(step, streams[i]));
}

static void change_within(CUgraphExec step, CUgraphNode node) {
  CUDA_KERNEL_NODE_PARAMS params = {0};
  CHECK(cuGraphKernelNodeGetParams(node, &params));
  // Mixes into the same buffer, from another one.
  void* parameters[] = {params.kernelParams[0], &buffers[5]};
  params.kernelParams = parameters;
  CHECK(cuGraphExecKernelNodeSetParams(step, node, &params));
}

int main(void) {
  begin();
  make_buffers();
  for (int i = 0; i < 2; ++i) CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  CUgraph outer = NULL;
  CUgraphExec step = NULL;
  CUgraphNode first, second, third, between;
  CUgraph one = chain(0), other = chain(3), wide = branches(), newer = chain(6);
  CHECK(cuGraphCreate(&outer, 0));
  CHECK(cuGraphAddChildGraphNode(&first, outer, NULL, 0, one));
  CHECK(cuGraphAddEmptyNode(&between, outer, &first, 1));
  CHECK(cuGraphAddChildGraphNode(&third, outer, &between, 1, wide));
  CHECK(cuGraphAddChildGraphNode(&second, outer, &third, 1, other));
  CHECK(cuGraphInstantiate(&step, outer, 0));
  launch_twice(step);
  CHECK(cuCtxSynchronize());
  change_within(step, first_kernel_of(first));
  launch_twice(step);
  CHECK(cuCtxSynchronize());
  CHECK(cuGraphExecChildGraphNodeSetParams(step, second, newer));
  launch_twice(step);
  CHECK(cuCtxSynchronize());
  for (unsigned enabled = 0; enabled < 2; ++enabled) {
    CHECK(cuGraphNodeSetEnabled(step, first_kernel_of(first), enabled));
    launch_twice(step);
    CHECK(cuCtxSynchronize());
  }
  CHECK(cuGraphExecDestroy(step));
  for (int i = 0; i < 2; ++i) CHECK(cuStreamDestroy(streams[i]));
  CHECK(cuGraphDestroy(outer));
  CHECK(cuGraphDestroy(one));
  CHECK(cuGraphDestroy(other));
  CHECK(cuGraphDestroy(wide));
  CHECK(cuGraphDestroy(newer));
  return finish();
}
