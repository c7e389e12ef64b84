// SPDX-License-Identifier: Apache-2.0
// The driver keeps the memory of a graph that no longer exists, for later graphs, until it is told to release it. What the
// program allocates next needs that room.
#include "tests/preload/programs/small.h"

int main(void) {
  CUstream stream = NULL;
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CUdeviceptr scratch = 0, large = 0;
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuMemAllocAsync(&scratch, 2 * BYTES, stream));
  launch_mix(kernel("mix_new"), stream, scratch, buffers[0], BYTES);
  mix_on(stream, buffers[1], scratch);
  CHECK(cuMemFreeAsync(scratch, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphLaunch(step, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuMemAlloc(&large, 5 * BYTES));
  CHECK(cuMemsetD32(large, 7, 5 * BYTES / 4));
  show("large", large, 5 * BYTES);
  CHECK(cuMemFree(large));
  CHECK(cuStreamDestroy(stream));
  return finish();
}
