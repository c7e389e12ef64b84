// SPDX-License-Identifier: Apache-2.0
// Memory is freed, and a context destroyed, while kernels use them; to be run with a driver that refuses waits for a
// whole context.
#include "tests/preload/programs/waiting.h"

int main(void) {
  CUcontext doomed = NULL;
  CUstream reading, writing;
  CUdeviceptr under = 0, next = 0, last = 0;
  begin();
  CHECK(cuCtxCreate(&doomed, NULL, 0, 0));
  CHECK(cuModuleLoadData(&image, kKernels));
  mix = kernel("mix");
  CHECK(cuStreamCreate(&reading, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&writing, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&under, BYTES));
  CHECK(cuMemAlloc(&last, BYTES));
  CHECK(cuMemsetD32Async(under, 1, BYTES / 4, reading));
  CHECK(cuMemsetD32Async(last, 1, BYTES / 4, reading));
  CHECK(cuStreamSynchronize(reading));
  const CUdeviceptr texture = texture_of(under, BYTES);
  for (int i = 0; i < 4; ++i) launch_mix(kernel("mix_line"), reading, last, texture, BYTES);
  TELL(cuMemFree(under));
  CHECK(cuMemAlloc(&next, BYTES));
  CHECK(cuMemsetD32Async(next, 2, BYTES / 4, writing));
  CHECK(cuStreamSynchronize(writing));
  CHECK(cuStreamSynchronize(reading));
  show("next", next, BYTES);
  for (int i = 0; i < 4; ++i) mix_on(reading, last, next);
  TELL(cuCtxDestroy(doomed));
  return 0;
}
