// SPDX-License-Identifier: Apache-2.0
// An executable graph is given the nodes of a newer recording, with other buffers.
#include "tests/preload/programs/small.h"

static CUgraph record(CUstream stream, CUdeviceptr out, CUdeviceptr in) {
  CUgraph graph = NULL;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  mix_on(stream, out, in);
  CHECK(cuStreamEndCapture(stream, &graph));
  return graph;
}

int main(void) {
  begin();
  make_buffers();
  CUstream stream;
  CUgraphExec step = NULL;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUgraph graph = record(stream, buffers[0], buffers[1]);
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphDestroy(graph));
  for (int i = 0; i < BUFFERS; ++i) {
    graph = record(stream, buffers[i % 2], buffers[2 - i % 2]);
    CUgraphExecUpdateResultInfo why;
    CHECK(cuGraphExecUpdate(step, graph, &why));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuGraphLaunch(step, stream));
    mix_on(stream, buffers[i], buffers[2]);
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuStreamDestroy(stream));
  return finish();
}
