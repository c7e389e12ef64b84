// SPDX-License-Identifier: Apache-2.0
// A context ends with its module, and a function of the next context has the same handle and other parameters.
#include "tests/preload/programs/small.h"

static const char kOther[] = KERNELS_WITH_ANOTHER_MIX;

static void start(int round, int primary) {
  if (primary) {
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
  } else {
    CHECK(cuCtxCreate(&context, NULL, 0, 0));
  }
  CHECK(cuModuleLoadData(&image, round % 2 == 0 ? kKernels : kOther));
  mix = kernel("mix");
}

static void stop(int round, int primary) {
  if (!primary) {
    CHECK(cuCtxDestroy(context));
  } else if (round == 1) {
    CHECK(cuDevicePrimaryCtxReset(0));
    CHECK(cuDevicePrimaryCtxRelease(0));
  } else {
    CHECK(cuDevicePrimaryCtxRelease(0));
  }
}

int main(void) {
  CUfunction before = NULL;
  CHECK(cuInit(0));
  for (int primary = 0; primary < 2; ++primary) {
    for (int round = 0; round < 4; ++round) {
      start(round, primary);
      if (before != NULL) printf("again %d\n", mix == before);
      before = mix;
      make_buffers();
      for (int i = 0; i < BUFFERS; ++i) {
        uint32_t words = 7;
        uint64_t factor = 9;
        CUdeviceptr from = buffers[(i + 3) % BUFFERS];
        void* four[] = {&words, &factor, &buffers[i], &from};
        void* two[] = {&buffers[i], &from};
        CHECK(cuLaunchKernel(mix, 64, 1, 1, 128, 1, 1, 0, NULL, round % 2 == 0 ? two : four, NULL));
      }
      show_buffers();
      stop(round, primary);
    }
  }
  return 0;
}
