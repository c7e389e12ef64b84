// SPDX-License-Identifier: Apache-2.0
// A program that checks no result of a capture except that of its end: if an operation can not be captured, there must
// be no graph without it. For a copy, for one in another stream that has joined, and for a set. What is captured
// afterwards is complete.
#include "tests/preload/programs/small.h"

#define LARGE ((size_t)12 << 20)

static CUdeviceptr first, second;
static CUstream streams[2];
static CUevent fork_event, join_event;

static CUresult copy_whole(CUstream stream) { return cuMemcpyDtoDAsync(first, second, LARGE, stream); }

// Captures `refused`, which names more than fits, in the stream with that number.
static void record(const char* what, CUresult (*refused)(CUstream), int in) {
  CUgraph graph = NULL;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
  mix_on(streams[0], buffers[0], buffers[1]);
  if (in == 1) {
    CHECK(cuEventRecord(fork_event, streams[0]));
    CHECK(cuStreamWaitEvent(streams[1], fork_event, 0));
  }
  printf("%s: %d\n", what, (int)refused(streams[in]));
  CHECK(cuStreamIsCapturing(streams[0], &status));
  printf("state %d\n", (int)status);
  if (in == 1) {
    printf("joined: %d", (int)cuEventRecord(join_event, streams[1]));
    printf(" %d\n", (int)cuStreamWaitEvent(streams[0], join_event, 0));
  }
  printf("end: %d\n", (int)cuStreamEndCapture(streams[0], &graph));
  printf("graph: %d\n", graph != NULL);
  if (graph != NULL) CHECK(cuGraphDestroy(graph));
}

static CUresult small(CUstream stream) { return cuMemsetD32Async(buffers[1], 7, 512, stream); }

int main(void) {
  begin();
  CHECK(cuMemAlloc(&first, LARGE));
  CHECK(cuMemAlloc(&second, LARGE));
  fill(first, LARGE, 50);
  fill(second, LARGE, 51);
  make_buffers();
  for (int i = 0; i < 2; ++i) CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
  record("copy", copy_whole, 0);
  record("forked", copy_whole, 1);
  record("whole", small, 0);
  CHECK(cuEventDestroy(fork_event));
  CHECK(cuEventDestroy(join_event));
  for (int i = 0; i < 2; ++i) CHECK(cuStreamDestroy(streams[i]));
  CHECK(cuMemFree(first));
  CHECK(cuMemFree(second));
  return finish();
}
