// SPDX-License-Identifier: Apache-2.0
// A stream is blocked by a value that is written much later, with work after it, while other work needs more room than
// is left, and memory is freed and allocated: by another stream, by the host, and after an event.
#include "tests/preload/programs/small.h"

#define ROUNDS 4

static CUstream blocked, working, behind;

// All but the first three buffers, one or (`pairs`) two at a time.
static void work(int round, int pairs) {
  for (int k = 0; k < 12; ++k) {
    const int to = 3 + (round + k) % (BUFFERS - 3);
    if (pairs && k % 3 == 0) {
      mix_on(working, buffers[to], buffers[3 + (to + 1) % (BUFFERS - 3)]);
    } else {
      CHECK(cuMemsetD32Async(buffers[to], (unsigned)(round * 100 + k), BYTES / 8, working));
    }
  }
}

// Freed in the order of the blocked stream; nobody else gets the memory before.
static void allocate_and_free(void) {
  CUdeviceptr one = 0, other = 0;
  CHECK(cuMemAllocAsync(&one, BYTES / 2, blocked));
  CHECK(cuMemsetD32Async(one, 7, BYTES / 8, blocked));
  launch_mix(mix, blocked, buffers[1], one, BYTES / 2);
  CHECK(cuMemFreeAsync(one, blocked));
  for (int i = 0; i < 3; ++i) {
    CHECK(cuMemAllocAsync(&other, BYTES / 2, working));
    CHECK(cuMemsetD32Async(other, 9, BYTES / 8, working));
    launch_mix(mix, working, buffers[3], other, BYTES / 2);
    CHECK(cuMemFreeAsync(other, working));
  }
}

static void round_of(int round, volatile unsigned* pinned) {
  const unsigned value = (unsigned)round + 1;
  const int by_host = round % 2;
  const CUdeviceptr word = by_host ? (CUdeviceptr)pinned : buffers[0];
  CUevent event = NULL;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuStreamWaitValue32(blocked, word, value, CU_STREAM_WAIT_VALUE_EQ));
  mix_on(blocked, buffers[1], buffers[2]);
  CHECK(cuEventRecord(event, blocked));
  CHECK(cuStreamWaitEvent(behind, event, 0));
  mix_on(behind, buffers[2], buffers[1]);
  CHECK(cuEventRecord(event, behind));
  CHECK(cuStreamWaitEvent(blocked, event, 0));
  work(round, 1);
  allocate_and_free();
  work(round + 1, 0);
  printf("%d: %d\n", round, (int)(cuStreamQuery(blocked) == CUDA_ERROR_NOT_READY));
  CHECK(cuStreamSynchronize(working));
  if (by_host) {
    *pinned = value;
  } else {
    CHECK(cuStreamWriteValue32(working, word, value, CU_STREAM_WRITE_VALUE_DEFAULT));
  }
  work(round + 2, 0);
  CHECK(cuStreamSynchronize(blocked));
  CHECK(cuStreamSynchronize(working));
  CHECK(cuEventDestroy(event));
}

int main(void) {
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&working, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&behind, CU_STREAM_NON_BLOCKING));
  unsigned* pinned = NULL;
  CHECK(cuMemHostAlloc((void**)&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
  *pinned = 0;
  CHECK(cuMemsetD32(buffers[0], 0, 64));
  CHECK(cuCtxSynchronize());
  for (int round = 0; round < ROUNDS; ++round) {
    round_of(round, pinned);
    mix_all(NULL);
    CHECK(cuMemsetD32(buffers[0], 0, 64));
    CHECK(cuCtxSynchronize());
  }
  CHECK(cuStreamDestroy(blocked));
  CHECK(cuStreamDestroy(working));
  CHECK(cuStreamDestroy(behind));
  CHECK(cuMemFreeHost(pinned));
  return finish();
}
