// SPDX-License-Identifier: Apache-2.0
// Values that streams write and wait for: two streams hand over to each other in turns, through words in buffers that
// are evicted and fetched, and in host memory that the driver allocated or the program registered. (Managed memory is
// not for values.)
#include "tests/preload/programs/small.h"

#define ROUNDS 6

static CUdeviceptr words[3];
static CUstream streams[2];

static void hand_over(int from, CUdeviceptr word, unsigned round) {
  const int to = 1 - from;
  // The stream that waits may be submitted first.
  if (round % 2 == 1) CHECK(cuStreamWaitValue32(streams[to], word, round, CU_STREAM_WAIT_VALUE_GEQ));
  CHECK(cuStreamWriteValue32(streams[from], word, round, CU_STREAM_WRITE_VALUE_DEFAULT));
  if (round % 2 == 0) CHECK(cuStreamWaitValue32(streams[to], word, round, CU_STREAM_WAIT_VALUE_GEQ));
}

static void hand_over_in_batches(int from, CUdeviceptr word, unsigned round) {
  CUstreamBatchMemOpParams write[2] = {{0}}, wait[1] = {{0}};
  write[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write[0].writeValue.address = word + 64;
  write[0].writeValue.value = round;
  write[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  write[1].writeValue.address = word + 72;
  write[1].writeValue.value64 = 0x100000000u + round;
  wait[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
  wait[0].waitValue.address = word + 72;
  wait[0].waitValue.value64 = 0x100000000u + round;
  wait[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  CHECK(cuStreamBatchMemOp(streams[from], 2, write, 0));
  CHECK(cuStreamBatchMemOp(streams[1 - from], 1, wait, 0));
}

int main(int argc, char** argv) {
  (void)argv;
  begin();
  make_buffers();
  for (int i = 0; i < 2; ++i) CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  unsigned *pinned = NULL, *registered = (unsigned*)aligned_alloc(4096, 4096);
  CHECK(cuMemHostAlloc((void**)&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
  CHECK(cuMemHostGetDevicePointer(&words[1], pinned, 0));
  CHECK(cuMemHostRegister(registered, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
  CHECK(cuMemHostGetDevicePointer(&words[2], registered, 0));
  for (int i = 0; i < 4096 / 4; ++i) pinned[i] = registered[i] = 0;
  CHECK(cuMemAlloc(&words[0], 2 * BYTES));
  CHECK(cuMemsetD32(words[0], 0, 2 * BYTES / 4));
  CHECK(cuCtxSynchronize());
  unsigned round = 0;
  for (int i = 0; i < ROUNDS; ++i) {
    for (int place = 0; place < 3; ++place) {
      for (int from = 0; from < 2; ++from) {
        ++round;
        for (unsigned k = 0; k < 3; ++k) {
          mix_on(streams[from], buffers[(round + k) % BUFFERS], buffers[(round + k + 3) % BUFFERS]);
        }
        if (place == 0 && i % 2 == 1) {
          hand_over_in_batches(from, words[0], round);
        } else {
          hand_over(from, words[place], round);
        }
      }
    }
    // The words' own buffer is evicted, and fetched for the next round.
    CHECK(cuStreamSynchronize(streams[0]));
    mix_all(NULL);
    CHECK(cuCtxSynchronize());
  }
  show("words", words[0], 2 * BYTES);
  printf("pinned %u, registered %u\n", pinned[0], registered[0]);
  // With any argument it ends here, so that buffers pinned because of the words can be counted.
  if (argc > 1) return 0;
  for (int i = 0; i < 2; ++i) CHECK(cuStreamDestroy(streams[i]));
  CHECK(cuMemFree(words[0]));
  CHECK(cuMemHostUnregister(registered));
  CHECK(cuMemFreeHost(pinned));
  free(registered);
  return finish();
}
