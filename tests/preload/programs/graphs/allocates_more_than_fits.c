// SPDX-License-Identifier: Apache-2.0
// A graph names two buffers and allocates three times as much as one of them, or as often as the first argument says;
// launched several times.
#include "tests/preload/programs/small.h"

int main(int count, char** arguments) {
  const size_t times = count > 1 ? strtoul(arguments[1], NULL, 10) : 3;
  CUstream stream;
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CUdeviceptr scratch = 0;
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuMemAllocAsync(&scratch, times * BYTES, stream));
  launch_mix(kernel("mix_new"), stream, scratch, buffers[0], BYTES);
  mix_on(stream, buffers[1], scratch);
  CHECK(cuMemFreeAsync(scratch, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  for (int round = 0; round < 3; ++round) {
    TELL(cuGraphLaunch(step, stream));
    CHECK(cuStreamSynchronize(stream));
  }
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuStreamDestroy(stream));
  printf("behind\n");
  for (int i = 2; i < BUFFERS; ++i) mix_on(NULL, buffers[i], buffers[i - 1 > 1 ? i - 1 : BUFFERS - 1]);
  for (int i = 2; i < BUFFERS; ++i) show("buffer", buffers[i], BYTES);
  free_buffers();
  end();
  return 0;
}
