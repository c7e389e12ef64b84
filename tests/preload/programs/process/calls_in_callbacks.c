// SPDX-License-Identifier: Apache-2.0
// Host functions that a stream runs call the driver, which is not allowed: the results are the same as without the
// library.
#include "tests/preload/programs/small.h"

static int answers[9];

static void CUDA_CB call_all(void* data) {
  (void)data;
  CUdeviceptr at = 0;
  size_t bytes = 0, free_bytes = 0;
  void* parameters[] = {&buffers[0], &buffers[1]};
  answers[0] = (int)cuMemAlloc(&at, BYTES);
  answers[1] = (int)cuMemFree(buffers[7]);
  answers[2] = (int)cuMemcpyDtoDAsync(buffers[0], buffers[1], BYTES, NULL);
  answers[3] = (int)cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
  answers[4] = (int)cuMemsetD8(buffers[2], 1, BYTES);
  answers[5] = (int)cuCtxSynchronize();
  answers[6] = (int)cuMemGetInfo(&free_bytes, &bytes);
  answers[7] = (int)cuMemFreeAsync(buffers[6], NULL);
  // Kernels of the module are launched again afterwards.
  answers[8] = (int)cuModuleUnload(image);
}

int main(void) {
  begin();
  make_buffers();
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < BUFFERS; ++i) {
    mix_on(stream, buffers[i], buffers[(i + 3) % BUFFERS]);
    CHECK(cuLaunchHostFunc(stream, call_all, NULL));
    // Work that needs room here waits for the function above.
    mix_on(stream, buffers[(i + 5) % BUFFERS], buffers[i]);
  }
  CHECK(cuStreamSynchronize(stream));
  for (int i = 0; i < 9; ++i) printf("answer %d\n", answers[i]);
  CHECK(cuStreamDestroy(stream));
  return finish();
}
