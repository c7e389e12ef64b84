// SPDX-License-Identifier: Apache-2.0
// Nodes that copy and set, changed before instantiation.
#include "tests/preload/programs/small.h"

static CUDA_MEMCPY3D copy_of(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D copy = {0};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = BYTES / 2;
  copy.Height = copy.Depth = 1;
  return copy;
}

int main(void) {
  begin();
  make_buffers();
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CUgraphNode copying, setting;
  CHECK(cuGraphCreate(&graph, 0));
  CUDA_MEMCPY3D copy = copy_of(buffers[0], buffers[1]);
  CUDA_MEMSET_NODE_PARAMS set = {0};
  set.dst = buffers[1];
  set.elementSize = 4;
  set.value = 5;
  set.width = 1000;
  set.height = 1;
  CHECK(cuGraphAddMemcpyNode(&copying, graph, NULL, 0, &copy, context));
  CHECK(cuGraphAddMemsetNode(&setting, graph, &copying, 1, &set, context));
  set.dst = buffers[0];
  CHECK(cuGraphMemsetNodeSetParams(setting, &set));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphLaunch(step, NULL));
  mix_all(NULL);
  copy = copy_of(buffers[2], buffers[0]);
  CHECK(cuGraphExecMemcpyNodeSetParams(step, copying, &copy, context));
  set.dst = buffers[2];
  CHECK(cuGraphExecMemsetNodeSetParams(step, setting, &set, context));
  CHECK(cuGraphLaunch(step, NULL));
  CHECK(cuStreamSynchronize(NULL));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  return finish();
}
