// SPDX-License-Identifier: Apache-2.0
// Two contexts on one device: the second one's memory is left to the driver, and the results are the same.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUcontext other = NULL;
  CHECK(cuCtxCreate(&other, NULL, 0, 0));
  CUmodule module_of_other = NULL;
  CUfunction mix_of_other = NULL;
  CUdeviceptr theirs[2];
  CHECK(cuModuleLoadData(&module_of_other, kKernels));
  CHECK(cuModuleGetFunction(&mix_of_other, module_of_other, "mix"));
  for (uint32_t i = 0; i < 2; ++i) {
    CHECK(cuMemAlloc(&theirs[i], BYTES));
    fill(theirs[i], BYTES, 50 + i);
  }
  void* parameters[] = {&theirs[0], &theirs[1]};
  CHECK(cuLaunchKernel(mix_of_other, 64, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
  CHECK(cuCtxSynchronize());
  // Memory of the first context is used here while another one is current.
  CHECK(cuMemcpyDtoD(theirs[1], buffers[0], BYTES / 2));
  CHECK(cuCtxSynchronize());
  show("theirs", theirs[0], BYTES);
  show("theirs", theirs[1], BYTES);
  CHECK(cuCtxDestroy(other));
  CHECK(cuCtxSetCurrent(context));
  mix_all(NULL);
  return finish();
}
