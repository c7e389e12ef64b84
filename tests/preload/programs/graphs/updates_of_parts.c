// SPDX-License-Identifier: Apache-2.0
// A graph with more memory than the tests' budget, a kernel for each buffer, whose executable graph is updated:
// `disabled`: while a node is disabled, which stays so; `late`: when it has grown from a small graph with such a node.
// `grows`, `shrinks`: from and to a graph with little memory, with launches in two streams without a wait.
// `child`: a node of a child graph is disabled, then the node gets another child.
// `capturing`: launched while another stream captures in the mode in which that is most easily disturbed.
#include "tests/preload/programs/small.h"

static CUstream streams[2];
static CUgraphNode nodes[BUFFERS];

// The only buffer of the graphs with little memory, less than a quarter of the larger budget: the large graph begins or ends
// with it.
static int alone = 0;

// A chain, so that every kernel has its place.
static CUgraph build(int is_large, int shift) {
  CUgraph graph = NULL;
  CHECK(cuGraphCreate(&graph, 0));
  for (int i = 0; i < BUFFERS; ++i) {
    const int out = is_large ? i : alone, in = is_large ? (i + shift) % BUFFERS : alone;
    void* parameters[] = {&buffers[out], &buffers[in]};
    CUDA_KERNEL_NODE_PARAMS node = {0};
    node.func = mix;
    node.gridDimX = 64;
    node.blockDimX = 128;
    node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = parameters;
    CHECK(cuGraphAddKernelNode(&nodes[i], graph, i == 0 ? NULL : &nodes[i - 1], i == 0 ? 0 : 1, &node));
  }
  return graph;
}

static CUgraphExec instantiated(CUgraph graph) {
  CUgraphExec exec = NULL;
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  return exec;
}

static void update(CUgraphExec exec, CUgraph newer) {
  CUgraphExecUpdateResultInfo why;
  CHECK(cuGraphExecUpdate(exec, newer, &why));
  CHECK(cuGraphDestroy(newer));
}

static void disable_and_update(int is_late) {
  CUgraph graph = build(!is_late, 3);
  CUgraphExec exec = instantiated(graph);
  CHECK(cuGraphNodeSetEnabled(exec, nodes[2], 0));
  CHECK(cuGraphLaunch(exec, streams[0]));
  update(exec, build(1, 5));
  TELL(cuGraphLaunch(exec, streams[0]));
  CHECK(cuStreamSynchronize(streams[0]));
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
}

static void launch_in_both(int grows) {
  alone = grows ? 0 : BUFFERS - 1;
  CUgraph graph = build(!grows, 3);
  CUgraphExec exec = instantiated(graph);
  for (int round = 0; round < 4; ++round) {
    CHECK(cuGraphLaunch(exec, streams[round % 2]));
    update(exec, build(grows ? round % 2 == 0 : round % 2 != 0, 3 + round));
    CHECK(cuGraphLaunch(exec, streams[1 - round % 2]));
  }
  CHECK(cuCtxSynchronize());
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
}

static void replace_a_child(void) {
  CUgraph inner = build(0, 0), outer = NULL;
  CUgraphNode child = NULL, within[BUFFERS];
  size_t count = BUFFERS;
  CHECK(cuGraphCreate(&outer, 0));
  CHECK(cuGraphAddChildGraphNode(&child, outer, NULL, 0, inner));
  CUgraph placed = NULL;
  CHECK(cuGraphChildGraphNodeGetGraph(child, &placed));
  CHECK(cuGraphGetNodes(placed, within, &count));
  for (int i = 2; i < BUFFERS; ++i) {
    void* parameters[] = {&buffers[i], &buffers[(i + 3) % BUFFERS]};
    CUDA_KERNEL_NODE_PARAMS node = {0};
    node.func = mix;
    node.gridDimX = 64;
    node.blockDimX = 128;
    node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = parameters;
    const CUgraphNode before = i == 2 ? child : nodes[i - 1];
    CHECK(cuGraphAddKernelNode(&nodes[i], outer, &before, 1, &node));
  }
  CUgraphExec exec = instantiated(outer);
  CHECK(cuGraphNodeSetEnabled(exec, within[1], 0));
  CHECK(cuGraphLaunch(exec, streams[0]));
  CHECK(cuGraphExecChildGraphNodeSetParams(exec, child, inner));
  TELL(cuGraphLaunch(exec, streams[0]));
  CHECK(cuStreamSynchronize(streams[0]));
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(outer));
  CHECK(cuGraphDestroy(inner));
}

static void launch_while_capturing(void) {
  CUgraph graph = build(1, 3), recorded = NULL;
  CUgraphExec exec = instantiated(graph);
  for (int round = 0; round < 3; ++round) {
    CHECK(cuStreamBeginCapture(streams[1], CU_STREAM_CAPTURE_MODE_GLOBAL));
    mix_on(streams[1], buffers[0], buffers[1]);
    CHECK(cuGraphLaunch(exec, streams[0]));
    CHECK(cuStreamEndCapture(streams[1], &recorded));
    CHECK(cuGraphDestroy(recorded));
  }
  CHECK(cuStreamSynchronize(streams[0]));
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
}

int main(int count, char** arguments) {
  const char* const what = count > 1 ? arguments[1] : "";
  begin();
  make_buffers();
  for (int i = 0; i < 2; ++i) CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  if (strcmp(what, "disabled") == 0) disable_and_update(0);
  if (strcmp(what, "late") == 0) disable_and_update(1);
  if (strcmp(what, "grows") == 0) launch_in_both(1);
  if (strcmp(what, "shrinks") == 0) launch_in_both(0);
  if (strcmp(what, "child") == 0) replace_a_child();
  if (strcmp(what, "capturing") == 0) launch_while_capturing();
  for (int i = 0; i < 2; ++i) CHECK(cuStreamDestroy(streams[i]));
  return finish();
}
