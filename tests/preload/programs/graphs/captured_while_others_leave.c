// SPDX-License-Identifier: Apache-2.0
// Memory that a stream has used is evicted while that stream captures: then no event can be recorded in it.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream recording, other;
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CHECK(cuStreamCreate(&recording, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  mix_on(recording, buffers[0], buffers[1]);
  mix_on(recording, buffers[2], buffers[3]);
  CHECK(cuStreamBeginCapture(recording, CU_STREAM_CAPTURE_MODE_RELAXED));
  mix_on(recording, buffers[0], buffers[0]);
  for (int i = 4; i < BUFFERS; ++i) mix_on(other, buffers[i], buffers[i]);
  CHECK(cuStreamEndCapture(recording, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphLaunch(step, recording));
  CHECK(cuStreamSynchronize(recording));
  CHECK(cuStreamSynchronize(other));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuStreamDestroy(recording));
  CHECK(cuStreamDestroy(other));
  return finish();
}
