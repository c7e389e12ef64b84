// SPDX-License-Identifier: Apache-2.0
// Memory that is freed while kernels that use it may still be running, and allocated again.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  for (int round = 0; round < 4; ++round) {
    CUdeviceptr scratch = 0;
    CHECK(cuMemAlloc(&scratch, 2 * BYTES));
    CHECK(cuMemsetD8(scratch, (unsigned char)round, 2 * BYTES));
    for (int i = 0; i < BUFFERS; ++i) mix_on(NULL, buffers[i], scratch);
    CHECK(cuMemFree(scratch));
  }
  return finish();
}
