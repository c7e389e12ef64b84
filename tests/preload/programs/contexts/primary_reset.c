// SPDX-License-Identifier: Apache-2.0
// The primary context is reset while kernels run and buffers are evicted; the program continues with new ones.
#include "tests/preload/programs/small.h"

int main(void) {
  for (int round = 0; round < 3; ++round) {
    begin();
    make_buffers();
    mix_all(NULL);
    if (round == 2) return finish();
    show_buffers();
    mix_all(NULL);
    CHECK(cuDevicePrimaryCtxReset(0));
    printf("freed %d\n", cuMemFree(buffers[0]) != CUDA_SUCCESS);
  }
  return 1;
}
