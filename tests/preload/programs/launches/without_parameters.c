// SPDX-License-Identifier: Apache-2.0
// A kernel without parameters, launched as nvcc's code does: with an array of parameters that is empty. It accesses no
// buffer, so it runs even when more is allocated than fits, and may be captured.
#include "tests/preload/programs/small.h"

static const char kEmpty[] = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry empty()\n{\n  ret;\n}\n";

int main(void) {
  CUmodule module = NULL;
  CUfunction empty = NULL;
  CUstream stream = NULL;
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  begin();
  CHECK(cuModuleLoadData(&module, kEmpty));
  CHECK(cuModuleGetFunction(&empty, module, "empty"));
  make_buffers();
  void* nothing[] = {&buffers[0]};
  for (int i = 0; i < BUFFERS; ++i) {
    void* two[] = {&buffers[i], &buffers[(i + 1) % BUFFERS]};
    CHECK(cuLaunchKernel(mix, 64, 1, 1, 128, 1, 1, 0, NULL, two, NULL));
    CHECK(cuLaunchKernel(empty, 1, 1, 1, 32, 1, 1, 0, NULL, nothing, NULL));
  }
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuLaunchKernel(empty, 1, 1, 1, 32, 1, 1, 0, stream, nothing, NULL));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  show_buffers();
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuModuleUnload(module));
  end();
  return 0;
}
