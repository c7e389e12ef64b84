// SPDX-License-Identifier: Apache-2.0
// Memory that streams allocate and free in their own order, passed from one to the other with an event.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream streams[2];
  CUevent ready;
  for (int i = 0; i < 2; ++i) CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
  for (int i = 0; i < BUFFERS; ++i) {
    CUdeviceptr scratch = 0;
    CHECK(cuMemAllocAsync(&scratch, BYTES, streams[0]));
    CHECK(cuMemsetD32Async(scratch, (unsigned)i, BYTES / 4, streams[0]));
    mix_on(streams[0], scratch, buffers[i]);
    CHECK(cuEventRecord(ready, streams[0]));
    CHECK(cuStreamWaitEvent(streams[1], ready, 0));
    mix_on(streams[1], buffers[i], scratch);
    CHECK(cuMemFreeAsync(scratch, streams[1]));
  }
  for (int i = 0; i < 2; ++i) CHECK(cuStreamSynchronize(streams[i]));
  for (int i = 0; i < 2; ++i) CHECK(cuStreamDestroy(streams[i]));
  CHECK(cuEventDestroy(ready));
  return finish();
}
