// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated during a capture belongs to its graph: it exists from one node to another, at every launch,
// and not before. Two allocations, one of which begins after the other's end, and one that outlives its launches.
#include "tests/preload/programs/small.h"

static CUstream stream;

static CUgraph record(void) {
  CUgraph graph = NULL;
  CUdeviceptr first = 0, second = 0;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuMemAllocAsync(&first, BYTES, stream));
  launch_mix(kernel("mix_new"), stream, first, buffers[0], BYTES);
  mix_on(stream, buffers[1], first);
  CHECK(cuMemFreeAsync(first, stream));
  CHECK(cuMemAllocAsync(&second, BYTES, stream));
  CHECK(cuMemcpyDtoDAsync(second, buffers[1], BYTES / 2, stream));
  launch_mix(mix, stream, buffers[0], second, BYTES / 2);
  CHECK(cuMemFreeAsync(second, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  return graph;
}

// Used and freed by work after the launch.
static void outlive(void) {
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CUdeviceptr scratch = 0;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuMemAllocAsync(&scratch, BYTES, stream));
  launch_mix(kernel("mix_new"), stream, scratch, buffers[0], BYTES);
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  for (int round = 0; round < 3; ++round) {
    CHECK(cuGraphLaunch(step, stream));
    mix_on(stream, buffers[2 + round], scratch);
    TELL(cuGraphLaunch(step, stream));
    CHECK(cuMemFreeAsync(scratch, stream));
    mix_all(stream);
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
}

int main(void) {
  begin();
  make_buffers();
  CUgraphExec step = NULL;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUgraph graph = record();
  CHECK(cuGraphInstantiate(&step, graph, 0));
  for (int round = 0; round < 4; ++round) {
    CHECK(cuGraphLaunch(step, stream));
    mix_all(stream);
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuDeviceGraphMemTrim(0));
  outlive();
  CHECK(cuStreamDestroy(stream));
  return finish();
}
