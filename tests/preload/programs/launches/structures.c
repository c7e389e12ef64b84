// SPDX-License-Identifier: Apache-2.0
// Structures by value: packed, so that addresses are at odd offsets, and with many addresses.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  struct __attribute__((packed)) {
    char tag;
    CUdeviceptr to;
    uint32_t words;
    CUdeviceptr from;
  } packed = {1, 0, 1024, 0};
  CUfunction packed_kernel = kernel("mix_packed");
  CUfunction many_kernel = kernel("mix_many");
  CUdeviceptr many[8] = {0};
  for (int i = 0; i < BUFFERS; ++i) {
    packed.to = buffers[i];
    packed.from = buffers[(i + 3) % BUFFERS];
    void* one[] = {&packed};
    CHECK(cuLaunchKernel(packed_kernel, 64, 1, 1, 128, 1, 1, 0, NULL, one, NULL));
    for (int k = 0; k < 3; ++k) many[2 * k] = buffers[(i + k) % BUFFERS];
    void* several[] = {many};
    CHECK(cuLaunchKernel(many_kernel, 64, 1, 1, 128, 1, 1, 0, NULL, several, NULL));
  }
  return finish();
}
