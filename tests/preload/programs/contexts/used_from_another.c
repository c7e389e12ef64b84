// SPDX-License-Identifier: Apache-2.0
// Memory is copied in a stream of another context, behind kernels, freed in its own, and its place used
// again; to be run with a driver that refuses one wait.
#include "tests/preload/programs/small.h"

static CUdeviceptr make(CUstream stream, unsigned value) {
  CUdeviceptr made = 0;
  CHECK(cuMemAlloc(&made, BYTES));
  CHECK(cuMemsetD32Async(made, value, BYTES / 4, stream));
  return made;
}

// The wait that is refused may be one of these.
static void wait(void) {
  if (cuCtxSynchronize() != CUDA_SUCCESS) CHECK(cuCtxSynchronize());
}

// With an argument the other context is one of the other device.
int main(int count, char** arguments) {
  (void)arguments;
  CUstream own, others;
  CUcontext other = NULL;
  begin();
  CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr ours = make(own, 1);
  CHECK(cuCtxSynchronize());

  CHECK(cuCtxCreate(&other, NULL, 0, count > 1));
  if (count > 1) CHECK(cuCtxEnablePeerAccess(context, 0));
  CHECK(cuStreamCreate(&others, CU_STREAM_NON_BLOCKING));
  CHECK(cuModuleLoadData(&image, kKernels));
  mix = kernel("mix");
  const CUdeviceptr first = make(others, 2), theirs = make(others, 3);
  for (int i = 0; i < 8; ++i) mix_on(others, theirs, first);
  printf("copied: %d\n", (int)cuMemcpyDtoDAsync(theirs, ours, BYTES, others));

  CHECK(cuCtxSetCurrent(context));
  CUresult freed = cuMemFree(ours);
  printf("freed: %d\n", (int)freed);
  const CUdeviceptr next = make(own, 4);
  if (freed != CUDA_SUCCESS) printf("freed: %d\n", (int)cuMemFree(ours));
  wait();
  CHECK(cuCtxSetCurrent(other));
  wait();
  show("theirs", theirs, BYTES);
  CHECK(cuCtxSetCurrent(context));
  show("next", next, BYTES);
  CHECK(cuMemFree(next));
  CHECK(cuCtxDestroy(other));
  return 0;
}
