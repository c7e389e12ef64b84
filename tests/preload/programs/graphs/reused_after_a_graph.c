// SPDX-License-Identifier: Apache-2.0
// The memory to which a graph copied is freed with the graph, and its addresses are reused for another buffer. What the
// source of the graph's copy contains after that must not count as pointers there: everything together would not fit.
#include <string.h>

#include "tests/preload/programs/small.h"

#define WORDS 512

int main(void) {
  begin();
  make_buffers();
  CUdeviceptr* table = NULL;
  CUdeviceptr to = 0, again = 0;
  CUgraphNode node;
  CUgraph first = NULL, second = NULL;
  CUgraphExec step = NULL;
  CHECK(cuMemAllocHost((void**)&table, WORDS * sizeof *table));
  memset(table, 0, WORDS * sizeof *table);
  CHECK(cuMemAlloc(&to, WORDS * sizeof *table));
  CUDA_MEMCPY3D copy = {0};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = table;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = to;
  copy.WidthInBytes = WORDS * sizeof *table;
  copy.Height = copy.Depth = 1;
  CHECK(cuGraphCreate(&first, 0));
  CHECK(cuGraphAddMemcpyNode(&node, first, NULL, 0, &copy, context));
  CHECK(cuGraphInstantiate(&step, first, 0));
  CHECK(cuGraphLaunch(step, NULL));
  CHECK(cuCtxSynchronize());
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(first));
  CHECK(cuMemFree(to));
  CHECK(cuMemAlloc(&again, WORDS * sizeof *table));
  CHECK(cuMemsetD32(again, 1, 2 * WORDS));
  for (int i = 0; i < BUFFERS; ++i) table[i] = buffers[i];
  CUDA_MEMSET_NODE_PARAMS set = {0};
  set.dst = buffers[0];
  set.elementSize = 4;
  set.value = 5;
  set.width = 1000;
  set.height = 1;
  CHECK(cuGraphCreate(&second, 0));
  CHECK(cuGraphAddMemsetNode(&node, second, NULL, 0, &set, context));
  CHECK(cuGraphInstantiate(&step, second, 0));
  CHECK(cuGraphLaunch(step, NULL));
  launch_mix(mix, NULL, again, buffers[1], WORDS * sizeof *table);
  CHECK(cuCtxSynchronize());
  printf("the addresses came again: %d\n", again == to);
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(second));
  show("again", again, WORDS * sizeof *table);
  CHECK(cuMemFree(again));
  CHECK(cuMemFreeHost(table));
  return finish();
}
