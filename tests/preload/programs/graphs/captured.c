// SPDX-License-Identifier: Apache-2.0
// A step captured once and launched often, with other work in between.
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
  CHECK(cuMemcpyDtoDAsync(buffers[1], buffers[0], BYTES / 2, stream));
  CHECK(cuMemsetD32Async(buffers[0], 3, 1000, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphDestroy(graph));
  for (int round = 0; round < 4; ++round) {
    CHECK(cuGraphLaunch(step, stream));
    for (int i = 2; i < BUFFERS; ++i) mix_on(stream, buffers[i], buffers[round % 2]);
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuStreamDestroy(stream));
  return finish();
}
