// SPDX-License-Identifier: Apache-2.0
// Memory in a context that the program created. The primary context of the same device is retained, released and reset
// meanwhile; the memory stays.
#include "tests/preload/programs/small.h"

static void keep_created(CUcontext created) { CHECK(cuCtxSetCurrent(created)); }

int main(void) {
  CUcontext created = NULL;
  CUcontext primary = NULL;
  begin();
  CHECK(cuModuleUnload(image));
  CHECK(cuDevicePrimaryCtxRelease(0));
  CHECK(cuCtxCreate(&created, NULL, 0, 0));
  CHECK(cuModuleLoadData(&image, kKernels));
  CHECK(cuModuleGetFunction(&mix, image, "mix"));
  make_buffers();
  for (int round = 0; round < 2; ++round) {
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    mix_all(NULL);
    CHECK(cuDevicePrimaryCtxReset(0));
    keep_created(created);
    mix_all(NULL);
    CHECK(cuDevicePrimaryCtxRelease(0));
    keep_created(created);
    mix_all(NULL);
    show_buffers();
  }
  for (int i = 0; i < BUFFERS; ++i) CHECK(cuMemFree(buffers[i]));
  CHECK(cuModuleUnload(image));
  CHECK(cuCtxDestroy(created));
  return 0;
}
