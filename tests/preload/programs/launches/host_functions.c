// SPDX-License-Identifier: Apache-2.0
// Host functions between kernels, and callbacks at the end of a stream.
#include "tests/preload/programs/small.h"

static int calls = 0;

static void CUDA_CB count(void* data) { calls += *(const int*)data; }
static void CUDA_CB ended(CUstream stream, CUresult status, void* data) {
  (void)stream;
  calls += status == CUDA_SUCCESS ? *(const int*)data : 1000;
}

int main(void) {
  begin();
  make_buffers();
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  int one = 1, hundred = 100;
  for (int i = 0; i < BUFFERS; ++i) {
    mix_on(stream, buffers[i], buffers[(i + 3) % BUFFERS]);
    CHECK(cuLaunchHostFunc(stream, count, &one));
  }
  CHECK(cuStreamAddCallback(stream, ended, &hundred, 0));
  CHECK(cuStreamSynchronize(stream));
  printf("calls %d\n", calls);
  CHECK(cuStreamDestroy(stream));
  return finish();
}
