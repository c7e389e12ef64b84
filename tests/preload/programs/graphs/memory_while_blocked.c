// SPDX-License-Identifier: Apache-2.0
// A graph that allocates is launched while another stream, which uses all that the program has, is blocked by a value.
#include "tests/preload/programs/small.h"

static CUgraphExec allocating(CUstream stream, CUdeviceptr* at) {
  CUgraph graph = NULL;
  CUgraphExec ready = NULL;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cuMemAllocAsync(at, BYTES, stream));
  CHECK(cuMemsetD32Async(*at, 7, BYTES / 4, stream));
  CHECK(cuMemFreeAsync(*at, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&ready, graph, 0));
  CHECK(cuGraphDestroy(graph));
  return ready;
}

int main(void) {
  CUstream blocked = NULL, working = NULL;
  volatile unsigned* pinned = NULL;
  CUdeviceptr at = 0;
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&working, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemHostAlloc((void**)&pinned, 64, 0));
  *pinned = 0;
  CUgraphExec ready = allocating(working, &at);
  CHECK(cuStreamWaitValue32(blocked, (CUdeviceptr)pinned, 1, CU_STREAM_WAIT_VALUE_EQ));
  mix_all(blocked);
  CHECK(cuGraphLaunch(ready, working));
  CHECK(cuStreamSynchronize(working));
  *pinned = 1;
  CHECK(cuCtxSynchronize());
  show_buffers();
  CHECK(cuGraphExecDestroy(ready));
  end();
  return 0;
}
