// SPDX-License-Identifier: Apache-2.0
// Cooperative launches.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  for (int i = 0; i < BUFFERS; ++i) {
    CUdeviceptr from = buffers[(i + 3) % BUFFERS];
    void* parameters[] = {&buffers[i], &from};
    CHECK(cuLaunchCooperativeKernel(mix, 1, 1, 1, 128, 1, 1, 0, NULL, parameters));
  }
  return finish();
}
