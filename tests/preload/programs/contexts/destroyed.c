// SPDX-License-Identifier: Apache-2.0
// A context of the program's own ends with everything in it, and another begins; freeing memory of the former is an
// error.
#include "tests/preload/programs/small.h"

int main(void) {
  CHECK(cuInit(0));
  for (int round = 0; round < 2; ++round) {
    CHECK(cuCtxCreate(&context, NULL, 0, 0));
    CHECK(cuModuleLoadData(&image, kKernels));
    mix = kernel("mix");
    make_buffers();
    mix_all(NULL);
    show_buffers();
    // Nothing is freed.
    CHECK(cuCtxDestroy(context));
    printf("freed %d\n", cuMemFree(buffers[0]) != CUDA_SUCCESS);
  }
  return 0;
}
