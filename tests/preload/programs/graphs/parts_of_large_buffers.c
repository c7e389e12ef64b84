// SPDX-License-Identifier: Apache-2.0
// Copies and sets of small parts of large buffers are captured, and added to a graph as nodes, while the program's own
// mappings take most of the room: what each names fits, the buffer that contains it does not.
#include "tests/preload/programs/small.h"

#define LARGE ((size_t)80 << 20)
#define LITTLE ((size_t)4096)

static CUdeviceptr large, other;

static CUgraph recorded(CUstream stream) {
  CUgraph graph = NULL;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuMemcpyDtoDAsync(other, large + ((size_t)70 << 20), LITTLE, stream));
  CHECK(cuMemsetD32Async(large + ((size_t)3 << 20), 5, LITTLE / 4, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  return graph;
}

static CUgraph added(void) {
  CUgraph graph = NULL;
  CUgraphNode node = NULL;
  const CUDA_MEMSET_NODE_PARAMS set = {
      .dst = large + ((size_t)40 << 20), .elementSize = 4, .value = 6, .width = LITTLE / 4, .height = 1};
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
  return graph;
}

static void run(CUgraph graph, CUstream stream) {
  CUgraphExec exec = NULL;
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
}

int main(void) {
  CUstream stream = NULL;
  CUmemGenericAllocationHandle physical = 0;
  const CUmemAllocationProp own = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  begin();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&large, LARGE));
  CHECK(cuMemAlloc(&other, (size_t)4 << 20));
  fill(large, LARGE, 1);
  fill(other, (size_t)4 << 20, 2);
  CHECK(cuCtxSynchronize());
  CHECK(cuMemCreate(&physical, (size_t)30 << 20, &own, 0));
  CUgraph first = recorded(stream), second = added();
  CHECK(cuMemRelease(physical));
  run(first, stream);
  run(second, stream);
  show("large", large, LARGE);
  show("other", other, (size_t)4 << 20);
  CHECK(cuMemFree(large));
  CHECK(cuMemFree(other));
  CHECK(cuStreamDestroy(stream));
  make_buffers();
  return finish();
}
