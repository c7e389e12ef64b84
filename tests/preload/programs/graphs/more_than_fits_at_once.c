// SPDX-License-Identifier: Apache-2.0
// A graph names more than fits at once. With "host" it has a node that keeps it from being launched in parts: its launch is
// refused completely, and nothing of it has run. Everything else continues, while the graph exists and after that, with
// its memory and in a new context.
#include "tests/preload/programs/small.h"

static void work(void) {
  make_buffers();
  mix_all(NULL);
  show_buffers();
}

static void CUDA_CB nothing(void* unused) { (void)unused; }

int main(int count, char** arguments) {
  CUstream stream;
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (int i = 0; i < BUFFERS; ++i) mix_on(stream, buffers[i], buffers[(i + 1) % BUFFERS]);
  if (count > 1 && strcmp(arguments[1], "host") == 0) CHECK(cuLaunchHostFunc(stream, nothing, NULL));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  printf("launch: %d\n", (int)cuGraphLaunch(step, stream));
  CHECK(cuStreamSynchronize(stream));
  show_buffers();
  mix_all(stream);
  CHECK(cuStreamSynchronize(stream));
  show_buffers();
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  free_buffers();
  printf("behind\n");
  work();
  // The graph is left behind with its context.
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  mix_on(stream, buffers[0], buffers[1]);
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphLaunch(step, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuDevicePrimaryCtxReset(0));
  CHECK(cuDevicePrimaryCtxRelease(0));
  begin();
  work();
  free_buffers();
  end();
  return 0;
}
