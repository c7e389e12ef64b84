// SPDX-License-Identifier: Apache-2.0
// Kernel nodes, and executable graphs whose nodes are given other buffers.
#include "tests/preload/programs/small.h"

static CUDA_KERNEL_NODE_PARAMS kernel_node(void** parameters) {
  CUDA_KERNEL_NODE_PARAMS node = {0};
  node.func = mix;
  node.gridDimX = 64;
  node.blockDimX = 128;
  node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = parameters;
  return node;
}

int main(void) {
  begin();
  make_buffers();
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CUgraphNode nodes[2];
  CHECK(cuGraphCreate(&graph, 0));
  CUdeviceptr out = buffers[0], in = buffers[1];
  void* parameters[] = {&out, &in};
  CUDA_KERNEL_NODE_PARAMS node = kernel_node(parameters);
  TELL(cuGraphAddKernelNode(&nodes[0], graph, NULL, 0, &node));
  CUgraphNodeParams any = {CU_GRAPH_NODE_TYPE_KERNEL};
  any.kernel.func = mix;
  any.kernel.gridDimX = any.kernel.gridDimY = any.kernel.gridDimZ = 1;
  any.kernel.blockDimX = any.kernel.blockDimY = any.kernel.blockDimZ = 1;
  any.kernel.kernelParams = parameters;
  CUgraph second = NULL;
  CHECK(cuGraphCreate(&second, 0));
  CHECK(cuGraphAddNode(&nodes[1], second, NULL, NULL, 0, &any));
  CHECK(cuGraphInstantiate(&step, second, 0));
  for (int i = 0; i < BUFFERS; ++i) {
    out = buffers[i % 2];
    in = buffers[2 - i % 2];
    CHECK(cuGraphExecNodeSetParams(step, nodes[1], &any));
    CHECK(cuGraphLaunch(step, NULL));
    mix_on(NULL, buffers[i], buffers[2]);
  }
  CHECK(cuStreamSynchronize(NULL));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(second));
  CHECK(cuGraphDestroy(graph));
  return finish();
}
