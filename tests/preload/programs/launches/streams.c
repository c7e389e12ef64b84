// SPDX-License-Identifier: Apache-2.0
// Streams that wait for each other by events only as far as necessary; kernels that read the same buffer at the same
// time.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream streams[4];
  CUevent done[4], start;
  CHECK(cuEventCreate(&start, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventRecord(start, NULL));
  for (int i = 0; i < 4; ++i) {
    CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&done[i], CU_EVENT_DISABLE_TIMING));
    CHECK(cuStreamWaitEvent(streams[i], start, 0));
  }
  for (int round = 0; round < 3; ++round) {
    // All read the last buffer; each writes one of its own.
    for (int i = 0; i < 4; ++i) {
      CHECK(cuMemcpyDtoDAsync(buffers[i], buffers[BUFFERS - 1], BYTES / 2, streams[i]));
      mix_on(streams[i], buffers[i], buffers[i] + 8);
    }
    for (int i = 0; i < 4; ++i) CHECK(cuEventRecord(done[i], streams[i]));
    CHECK(cuStreamWaitEvent(streams[round], done[(round + 1) % 4], 0));
    mix_on(streams[round], buffers[4 + round], buffers[(round + 1) % 4]);
    for (int i = 0; i < 4; ++i) {
      CHECK(cuEventRecord(done[round], streams[round]));
      CHECK(cuStreamWaitEvent(streams[i], done[round], 0));
    }
  }
  for (int i = 0; i < 4; ++i) CHECK(cuStreamSynchronize(streams[i]));
  for (int i = 0; i < 4; ++i) CHECK(cuStreamDestroy(streams[i]));
  return finish();
}
