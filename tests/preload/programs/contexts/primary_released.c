// SPDX-License-Identifier: Apache-2.0
// The primary context is retained twice and ends with the last release; then it begins again.
#include "tests/preload/programs/small.h"

int main(void) {
  for (int round = 0; round < 2; ++round) {
    begin();
    CUcontext again = NULL;
    CHECK(cuDevicePrimaryCtxRetain(&again, 0));
    make_buffers();
    CHECK(cuDevicePrimaryCtxRelease(0));
    mix_all(NULL);
    show_buffers();
    // It still exists: one reference is left.
    CHECK(cuModuleUnload(image));
    CHECK(cuDevicePrimaryCtxRelease(0));
    unsigned int flags = 0;
    int active = 1;
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    printf("active %d\n", active);
  }
  return 0;
}
