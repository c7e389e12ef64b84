// SPDX-License-Identifier: Apache-2.0
// A thread frees a buffer with a texture, for which the driver waits for a stream that is blocked by a value. Before
// another thread writes the value, it allocates, computes and captures.
#include "tests/preload/programs/waiting.h"

static CUdeviceptr doomed;

static void* free_it(void* nothing) {
  CHECK(cuCtxSetCurrent(context));
  about_to_wait();
  CHECK(cuMemFree(doomed));
  return nothing;
}

int main(void) {
  CUstream blocked, working;
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CUdeviceptr more = 0;
  begin();
  begin_to_wait();
  make_buffers();
  CHECK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&working, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&doomed, BYTES));
  fill(doomed, BYTES, 99);
  const CUdeviceptr texture = texture_of(doomed, BYTES);
  CHECK(cuCtxSynchronize());
  block(blocked, 1);
  launch_mix(kernel("mix_line"), blocked, buffers[0], texture, BYTES);
  const pthread_t thread = start(free_it);
  CHECK(cuMemAllocAsync(&more, BYTES, working));
  CHECK(cuMemsetD32Async(more, 3, BYTES / 4, working));
  CHECK(cuStreamBeginCapture(working, CU_STREAM_CAPTURE_MODE_RELAXED));
  mix_on(working, buffers[1], buffers[2]);
  CHECK(cuStreamEndCapture(working, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphLaunch(step, working));
  for (int i = 2; i < BUFFERS; ++i) CHECK(cuMemsetD32Async(buffers[i], 7, BYTES / 8, working));
  release(working, 1);
  join(thread);
  CHECK(cuCtxSynchronize());
  CHECK(cuTexObjectDestroy(texture));
  show("more", more, BYTES);
  CHECK(cuMemFree(more));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuMemFreeHost(word));
  CHECK(cuStreamDestroy(blocked));
  CHECK(cuStreamDestroy(working));
  return finish();
}
