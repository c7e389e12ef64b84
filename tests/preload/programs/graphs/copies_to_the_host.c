// SPDX-License-Identifier: Apache-2.0
// A graph copies addresses of all buffers to pinned host memory, which is given by its device address. This must not
// count as storing pointers on the device: all buffers together would not fit.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUdeviceptr *from = NULL, *to = NULL;
  CUgraph graph = NULL;
  CUgraphNode node;
  CUgraphExec step = NULL;
  CHECK(cuMemAllocHost((void**)&from, sizeof buffers));
  CHECK(cuMemAllocHost((void**)&to, sizeof buffers));
  CUDA_MEMCPY3D copy = {0};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = (CUdeviceptr)from;
  copy.dstDevice = (CUdeviceptr)to;
  copy.WidthInBytes = sizeof buffers;
  copy.Height = copy.Depth = 1;
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  for (int i = 0; i < BUFFERS; ++i) from[i] = buffers[i];
  CHECK(cuGraphLaunch(step, NULL));
  mix_on(NULL, buffers[2], buffers[3]);
  CHECK(cuCtxSynchronize());
  printf("copied: %d\n", to[BUFFERS - 1] == buffers[BUFFERS - 1]);
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuMemFreeHost(from));
  CHECK(cuMemFreeHost(to));
  return finish();
}
