// SPDX-License-Identifier: Apache-2.0
// A buffer that a graph names is freed, and a graph that no longer names it must not access the buffer's successor.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream stream;
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  mix_on(stream, buffers[0], buffers[1]);
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphLaunch(step, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuMemFree(buffers[0]));
  CHECK(cuMemAlloc(&buffers[0], BYTES));
  fill(buffers[0], BYTES, 99);
  mix_all(NULL);
  CHECK(cuStreamDestroy(stream));
  return finish();
}
