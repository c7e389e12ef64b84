// SPDX-License-Identifier: Apache-2.0
// A module is unloaded and another one takes its place: what was known about its functions is forgotten.
#include "tests/preload/programs/small.h"

static const char kOther[] = KERNELS_WITH_ANOTHER_MIX;

int main(void) {
  begin();
  make_buffers();
  for (int i = 0; i < BUFFERS; ++i) {
    CUmodule other = NULL;
    CUfunction function = NULL;
    CHECK(cuModuleLoadData(&other, i % 2 == 0 ? kOther : kKernels));
    CHECK(cuModuleGetFunction(&function, other, "mix"));
    uint32_t words = 7;
    uint64_t factor = 9;
    CUdeviceptr from = buffers[(i + 3) % BUFFERS];
    void* four[] = {&words, &factor, &buffers[i], &from};
    void* two[] = {&buffers[i], &from};
    CHECK(cuLaunchKernel(function, 64, 1, 1, 128, 1, 1, 0, NULL, i % 2 == 0 ? four : two, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuModuleUnload(other));
  }
  return finish();
}
