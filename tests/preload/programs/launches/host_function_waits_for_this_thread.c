// SPDX-License-Identifier: Apache-2.0
// A host function that waits for the thread that launches, which goes on in another stream, or launches a graph whose host
// node waits. What it launches meanwhile needs more memory than there is: nothing may wait for what comes behind the
// function.
#include <unistd.h>

#include "tests/preload/programs/small.h"

static int go_on;

static void CUDA_CB until(void* nothing) {
  (void)nothing;
  while (__atomic_load_n(&go_on, __ATOMIC_ACQUIRE) == 0) usleep(1000);
}

static CUgraphExec graph_of(CUstream stream) {
  CUgraph graph;
  CUgraphExec exec;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuLaunchHostFunc(stream, until, NULL));
  mix_on(stream, buffers[0], buffers[0]);
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphDestroy(graph));
  return exec;
}

int main(void) {
  CUstream waiting, other;
  CUgraphExec exec;
  alarm(60);
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  exec = graph_of(waiting);
  for (int round = 0; round < 2; ++round) {
    __atomic_store_n(&go_on, 0, __ATOMIC_RELEASE);
    mix_on(waiting, buffers[0], buffers[0]);
    if (round == 0) {
      CHECK(cuLaunchHostFunc(waiting, until, NULL));
      mix_on(waiting, buffers[0], buffers[0]);
    } else {
      CHECK(cuGraphLaunch(exec, waiting));
    }
    for (int i = 1; i < BUFFERS; ++i) mix_on(other, buffers[i], buffers[i]);
    CHECK(cuStreamSynchronize(other));
    __atomic_store_n(&go_on, 1, __ATOMIC_RELEASE);
    CHECK(cuStreamSynchronize(waiting));
  }
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuStreamDestroy(waiting));
  CHECK(cuStreamDestroy(other));
  return finish();
}
