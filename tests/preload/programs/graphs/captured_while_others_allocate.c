// SPDX-License-Identifier: Apache-2.0
// While one stream captures in relaxed mode, memory is allocated, freed and evicted by other work.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream recording, other;
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CHECK(cuStreamCreate(&recording, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(recording, CU_STREAM_CAPTURE_MODE_RELAXED));
  mix_on(recording, buffers[0], buffers[1]);
  CUdeviceptr more = 0;
  CHECK(cuMemAlloc(&more, BYTES));
  for (int i = 2; i < BUFFERS; ++i) mix_on(other, buffers[i], buffers[(i + 1) % BUFFERS < 2 ? 2 : (i + 1) % BUFFERS]);
  mix_on(recording, buffers[1], more);
  CHECK(cuStreamEndCapture(recording, &graph));
  CHECK(cuStreamSynchronize(other));
  CHECK(cuMemsetD32(more, 1, BYTES / 4));
  CHECK(cuStreamSynchronize(NULL));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphLaunch(step, recording));
  CHECK(cuGraphLaunch(step, recording));
  CHECK(cuStreamSynchronize(recording));
  show("more", more, BYTES);
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuMemFree(more));
  CHECK(cuStreamDestroy(recording));
  CHECK(cuStreamDestroy(other));
  return finish();
}
