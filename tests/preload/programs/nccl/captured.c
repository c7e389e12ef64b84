// SPDX-License-Identifier: Apache-2.0
// A collective operation that is captured into a graph and runs with each launch.
#include "tests/preload/programs/nccl/ranks.h"

int main(void) {
  begin_ranks(1);
  CUgraph graph = NULL;
  CUgraphExec ready = NULL;
  CHECK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  DONE(ncclAllReduce(at(0), at(1), WORDS, ncclUint32, ncclSum, comms[0], streams[0]));
  CHECK(cuStreamEndCapture(streams[0], &graph));
  CHECK(cuGraphInstantiate(&ready, graph, 0));
  for (int round = 0; round < 3; ++round) {
    crowd(2);
    CHECK(cuGraphLaunch(ready, streams[0]));
    mix_on(NULL, buffers[0], buffers[1]);
  }
  CHECK(cuCtxSynchronize());
  CHECK(cuGraphExecDestroy(ready));
  CHECK(cuGraphDestroy(graph));
  return end_ranks(1);
}
