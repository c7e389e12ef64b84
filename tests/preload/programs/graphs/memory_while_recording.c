// SPDX-License-Identifier: Apache-2.0
// Memory that no graph owns is refused to a thread that captures, as by the driver, unless the thread has declared that
// it knows; existing buffers are not affected. If such memory were granted, the graph might later write to memory of
// other buffers.
#include "tests/preload/programs/small.h"

static CUresult allocate_in(CUstreamCaptureMode mode, CUresult* ended) {
  CUstream stream;
  CUgraph graph = NULL;
  CUdeviceptr scratch = 0;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, mode));
  mix_on(stream, buffers[0], buffers[1]);
  const CUresult allocated = cuMemAlloc(&scratch, BYTES);
  if (allocated == CUDA_SUCCESS) mix_on(stream, scratch, buffers[0]);
  *ended = cuStreamEndCapture(stream, &graph);
  if (graph != NULL) CHECK(cuGraphDestroy(graph));
  if (allocated == CUDA_SUCCESS) CHECK(cuMemFree(scratch));
  CHECK(cuStreamDestroy(stream));
  return allocated;
}

int main(void) {
  begin();
  make_buffers();
  const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                       CU_STREAM_CAPTURE_MODE_RELAXED};
  for (int i = 0; i < 3; ++i) {
    CUresult ended;
    const CUresult allocated = allocate_in(modes[i], &ended);
    printf("allocated %d, ended %d\n", (int)allocated, (int)ended);
  }
  mix_all(NULL);
  return finish();
}
