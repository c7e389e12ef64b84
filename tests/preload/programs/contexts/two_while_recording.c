// SPDX-License-Identifier: Apache-2.0
// Memory of the first context is used in a second one while a stream of the first captures a graph.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream stream, theirs;
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CUcontext other = NULL;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuCtxCreate(&other, NULL, 0, 0));
  CHECK(cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
  CHECK(cuCtxPopCurrent(&other));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  mix_on(stream, buffers[0], buffers[1]);
  CHECK(cuCtxPushCurrent(other));
  CHECK(cuMemcpyDtoDAsync(buffers[2], buffers[3], BYTES / 2, theirs));
  CHECK(cuStreamSynchronize(theirs));
  CHECK(cuCtxPopCurrent(&other));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphLaunch(step, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuCtxDestroy(other));
  show_buffers();
  free_buffers();
  end();
  return 0;
}
