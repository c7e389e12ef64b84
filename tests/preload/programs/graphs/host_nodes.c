// SPDX-License-Identifier: Apache-2.0
// Host functions, empty nodes and a disabled node.
#include "tests/preload/programs/small.h"

static int calls = 0;
static void CUDA_CB count(void* data) { calls += *(const int*)data; }

int main(void) {
  begin();
  make_buffers();
  CUstream stream;
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  int seven = 7;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  mix_on(stream, buffers[0], buffers[1]);
  CHECK(cuLaunchHostFunc(stream, count, &seven));
  mix_on(stream, buffers[1], buffers[0]);
  CHECK(cuStreamEndCapture(stream, &graph));
  CUgraphNode nothing;
  CHECK(cuGraphAddEmptyNode(&nothing, graph, NULL, 0));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  for (int i = 2; i < BUFFERS; ++i) {
    mix_on(stream, buffers[i], buffers[0]);
    CHECK(cuGraphLaunch(step, stream));
  }
  CHECK(cuStreamSynchronize(stream));
  printf("calls %d\n", calls);
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuStreamDestroy(stream));
  return finish();
}
