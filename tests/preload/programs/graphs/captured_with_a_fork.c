// SPDX-License-Identifier: Apache-2.0
// A capture that forks to a second stream and joins it again.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream streams[2];
  CUevent forked, joined;
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  for (int i = 0; i < 2; ++i) CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
  CHECK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuEventRecord(forked, streams[0]));
  CHECK(cuStreamWaitEvent(streams[1], forked, 0));
  CHECK(cuMemcpyDtoDAsync(buffers[0], buffers[2], BYTES / 2, streams[0]));
  CHECK(cuMemcpyDtoDAsync(buffers[1], buffers[2], BYTES / 4, streams[1]));
  CHECK(cuEventRecord(joined, streams[1]));
  CHECK(cuStreamWaitEvent(streams[0], joined, 0));
  mix_on(streams[0], buffers[0], buffers[1]);
  CHECK(cuStreamEndCapture(streams[0], &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  for (int round = 0; round < 3; ++round) {
    for (int i = 3; i < BUFFERS; ++i) mix_on(streams[0], buffers[i], buffers[(i + round) % BUFFERS]);
    CHECK(cuGraphLaunch(step, streams[0]));
  }
  CHECK(cuStreamSynchronize(streams[0]));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  for (int i = 0; i < 2; ++i) CHECK(cuStreamDestroy(streams[i]));
  return finish();
}
