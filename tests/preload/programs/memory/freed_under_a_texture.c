// SPDX-License-Identifier: Apache-2.0
// Buffers with textures are freed while kernels that read the textures may still be running and another stream
// captures, and their addresses are reused; the textures are destroyed behind the frees, while the stream still captures
// or when it does not any more. With an argument the kernels are behind host functions that take their time.
#include <unistd.h>

#include "tests/preload/programs/waiting.h"

#define ROUNDS 6

static int is_slow;

static void CUDA_CB rest(void* unused) {
  (void)unused;
  usleep(20000);
}

static void again_while_recording(CUstream reading, CUstream writing, CUstream recording, unsigned round) {
  CUgraph graph = NULL;
  CUdeviceptr under = 0, next = 0;
  CHECK(cuMemAlloc(&under, BYTES));
  fill(under, BYTES, round);
  const CUdeviceptr texture = texture_of(under, BYTES);
  CHECK(cuCtxSynchronize());
  CHECK(cuStreamBeginCapture(recording, CU_STREAM_CAPTURE_MODE_RELAXED));
  if (is_slow) CHECK(cuLaunchHostFunc(reading, rest, NULL));
  for (int i = 0; i < 2; ++i)
    launch_mix(kernel("mix_line"), reading, buffers[((int)round + i) % BUFFERS], texture, BYTES);
  CHECK(cuMemFree(under));
  // It may not be freed twice.
  printf("again: %d\n", cuMemFree(under) == CUDA_SUCCESS);
  CHECK(cuMemAlloc(&next, BYTES));
  CHECK(cuMemsetD32Async(next, round, BYTES / 4, writing));
  CHECK(cuStreamSynchronize(writing));
  if (round % 2 == 1) CHECK(cuTexObjectDestroy(texture));
  CHECK(cuStreamEndCapture(recording, &graph));
  CHECK(cuGraphDestroy(graph));
  if (round % 2 == 0) CHECK(cuTexObjectDestroy(texture));
  show("next", next, BYTES);
  CHECK(cuMemFree(next));
}

int main(int count, char** arguments) {
  (void)arguments;
  is_slow = count > 1;
  CUstream reading, writing, recording;
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&reading, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&writing, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&recording, CU_STREAM_NON_BLOCKING));
  for (unsigned round = 0; round < ROUNDS; ++round) again_while_recording(reading, writing, recording, round);
  CHECK(cuStreamSynchronize(reading));
  CHECK(cuStreamDestroy(reading));
  CHECK(cuStreamDestroy(writing));
  CHECK(cuStreamDestroy(recording));
  return finish();
}
