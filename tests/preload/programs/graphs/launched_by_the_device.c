// SPDX-License-Identifier: Apache-2.0
// Graphs that kernels may launch: what they name must stay on the device as long as an executable graph names it, and no
// longer. The large buffers fit one at a time.
#include <string.h>

#include "tests/preload/programs/small.h"

#define LARGE ((size_t)12 << 20)
#define SMALL ((size_t)2 << 20)
#define FOR_DEVICE ((unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)

static CUstream stream;
static CUdeviceptr large, other, little;

static CUDA_MEMSET_NODE_PARAMS set_of(CUdeviceptr to) {
  CUDA_MEMSET_NODE_PARAMS set = {0};
  set.dst = to;
  set.value = 5;
  set.elementSize = 4;
  set.width = SMALL / 4;
  set.height = 1;
  return set;
}

static CUgraph graph_of(CUdeviceptr to, size_t nodes) {
  CUgraph graph = NULL;
  CHECK(cuGraphCreate(&graph, 0));
  for (size_t i = 0; i < nodes; ++i) {
    CUgraphNode node = NULL;
    const CUDA_MEMSET_NODE_PARAMS set = set_of(to);
    CHECK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
  }
  return graph;
}

// Succeeds only if nothing but `little` has to stay on the device.
static void use_the_other(const char* when) {
  printf("%s: %d\n", when, (int)cuMemsetD32Async(other, 9, LARGE / 4, stream));
  CHECK(cuStreamSynchronize(stream));
}

// Nothing may be left of it.
static void instantiate_what_is_refused(void) {
  CUgraphExec exec = NULL;
  const CUgraph graph = graph_of(large, 1);
  printf("refused: %d\n", (int)(cuGraphInstantiateWithFlags(&exec, graph, FOR_DEVICE) != CUDA_SUCCESS));
  CHECK(cuGraphDestroy(graph));
  use_the_other("after it was refused");
}

static void instantiate_and_set_another_node(void) {
  CUgraphExec exec = NULL;
  CUgraphNode nodes[2];
  size_t count = 2;
  const CUgraph graph = graph_of(large, 2);
  CHECK(cuGraphGetNodes(graph, nodes, &count));
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, FOR_DEVICE));
  use_the_other("while a graph needs the room");
  const CUDA_MEMSET_NODE_PARAMS set = set_of(little);
  CHECK(cuGraphExecMemsetNodeSetParams(exec, nodes[0], &set, context));
  CHECK(cuCtxSynchronize());
  use_the_other("while another node needs it");
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuCtxSynchronize());
}

static void destroy(void) {
  CUgraphExec exec = NULL;
  const CUgraph graph = graph_of(large, 1);
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, FOR_DEVICE));
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
  use_the_other("after it was destroyed");
}

static void instantiate_another(void) {
  CUgraphExec exec = NULL;
  CUgraph graph = graph_of(large, 1);
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, FOR_DEVICE));
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
  graph = graph_of(other, 1);
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, FOR_DEVICE));
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuCtxSynchronize());
}

static void update(void) {
  CUgraphExec exec = NULL;
  CUgraphExecUpdateResultInfo info;
  memset(&info, 0, sizeof info);
  const CUgraph first = graph_of(large, 1), second = graph_of(little, 1), third = graph_of(large, 2);
  CHECK(cuGraphInstantiateWithFlags(&exec, first, FOR_DEVICE));
  CHECK(cuGraphExecUpdate(exec, second, &info));
  use_the_other("after an update");
  TELL(cuGraphExecUpdate(exec, third, &info));
  use_the_other("after an update that failed");
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(first));
  CHECK(cuGraphDestroy(second));
  CHECK(cuGraphDestroy(third));
}

static void set_node(void) {
  CUgraphExec exec = NULL;
  CUgraphNode node = NULL;
  size_t nodes = 1;
  const CUgraph graph = graph_of(large, 1);
  CHECK(cuGraphGetNodes(graph, &node, &nodes));
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, FOR_DEVICE));
  CUDA_MEMSET_NODE_PARAMS set = set_of(little);
  CHECK(cuGraphExecMemsetNodeSetParams(exec, node, &set, context));
  use_the_other("after a node was set");
  set = set_of(large);
  TELL(cuGraphExecMemsetNodeSetParams(exec, NULL, &set, context));
  use_the_other("after a node was not set");
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuCtxSynchronize());
}

int main(int count, char** arguments) {
  begin();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&large, LARGE));
  CHECK(cuMemAlloc(&other, LARGE));
  CHECK(cuMemAlloc(&little, SMALL));
  fill(large, LARGE, 1);
  fill(other, LARGE, 2);
  fill(little, SMALL, 3);
  CHECK(cuCtxSynchronize());
  if (count > 1 && strcmp(arguments[1], "refused") == 0) {
    instantiate_what_is_refused();
  } else if (count > 1) {
    instantiate_and_set_another_node();
  } else {
    destroy();
    instantiate_another();
    update();
    set_node();
  }
  show("large", large, LARGE);
  show("other", other, LARGE);
  show("little", little, SMALL);
  CHECK(cuMemFree(large));
  CHECK(cuMemFree(other));
  CHECK(cuMemFree(little));
  CHECK(cuStreamDestroy(stream));
  end();
  return 0;
}
