// SPDX-License-Identifier: Apache-2.0
// Captures that are ended incorrectly: in a stream that has only joined, in one that is not capturing, twice. A call
// that fails ends no capture, and none is ended twice: other captures continue undisturbed.
#include "tests/preload/programs/small.h"

static void mode(CUstream stream, const char* what) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(cuStreamIsCapturing(stream, &status));
  printf("%s %d\n", what, (int)status);
}

int main(void) {
  begin();
  make_buffers();
  CUstream kept, other;
  CUevent fork_event;
  CUgraph graph = NULL;
  CUgraphExec step = NULL;
  CHECK(cuStreamCreate(&kept, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuStreamBeginCapture(kept, CU_STREAM_CAPTURE_MODE_RELAXED));
  mix_on(kept, buffers[2], buffers[3]);
  CHECK(cuEventRecord(fork_event, kept));
  CHECK(cuStreamWaitEvent(other, fork_event, 0));
  TELL(cuStreamEndCapture(other, &graph));
  mode(kept, "kept");
  TELL(cuStreamEndCapture(kept, &graph));
  TELL(cuStreamEndCapture(kept, &graph));
  mode(kept, "ended");
  mode(other, "other");
  CHECK(cuStreamBeginCapture(kept, CU_STREAM_CAPTURE_MODE_RELAXED));
  TELL(cuStreamEndCapture(other, &graph));
  mix_on(kept, buffers[4], buffers[5]);
  for (int i = 0; i < 3; ++i) mix_on(other, buffers[6], buffers[6]);
  CHECK(cuStreamEndCapture(kept, &graph));
  CHECK(cuGraphInstantiate(&step, graph, 0));
  CHECK(cuGraphLaunch(step, kept));
  CHECK(cuStreamSynchronize(kept));
  CHECK(cuStreamSynchronize(other));
  CHECK(cuGraphExecDestroy(step));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuEventDestroy(fork_event));
  CHECK(cuStreamDestroy(kept));
  CHECK(cuStreamDestroy(other));
  return finish();
}
