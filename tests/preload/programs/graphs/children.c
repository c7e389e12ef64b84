// SPDX-License-Identifier: Apache-2.0
// A graph as a node of another one, a clone of it, and an upload before the launch.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream stream;
  CUgraph inner = NULL, outer = NULL, clone = NULL;
  CUgraphExec step = NULL, cloned = NULL;
  CUgraphNode first, second;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  mix_on(stream, buffers[0], buffers[1]);
  mix_on(stream, buffers[2], buffers[0]);
  CHECK(cuStreamEndCapture(stream, &inner));
  CHECK(cuGraphCreate(&outer, 0));
  CHECK(cuGraphAddChildGraphNode(&first, outer, NULL, 0, inner));
  CHECK(cuGraphAddChildGraphNode(&second, outer, &first, 1, inner));
  CHECK(cuGraphClone(&clone, outer));
  CHECK(cuGraphInstantiate(&step, outer, 0));
  CHECK(cuGraphInstantiate(&cloned, clone, 0));
  CHECK(cuGraphDestroy(inner));
  for (int round = 0; round < 3; ++round) {
    for (int i = 3; i < BUFFERS; ++i) mix_on(stream, buffers[i], buffers[i == 3 ? BUFFERS - 1 : i - 1]);
    CHECK(cuGraphUpload(step, stream));
    CHECK(cuGraphLaunch(step, stream));
    CHECK(cuGraphLaunch(cloned, stream));
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphExecDestroy(cloned));
  CHECK(cuGraphDestroy(outer));
  CHECK(cuGraphDestroy(clone));
  CHECK(cuStreamDestroy(stream));
  return finish();
}
