// SPDX-License-Identifier: Apache-2.0
// Green contexts use the primary context's memory in streams of their own, which end with them, and retain it: with the
// last of them it ends. Then it begins again.
#include "tests/preload/programs/small.h"

static CUgreenCtx green(void) {
  CUdevResource resource;
  CUdevResourceDesc description = NULL;
  CUgreenCtx made = NULL;
  CHECK(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(cuDevResourceGenerateDesc(&description, &resource, 1));
  CHECK(cuGreenCtxCreate(&made, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  return made;
}

static void tell_whether_active(void) {
  unsigned int flags = 0;
  int active = 1;
  CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  printf("active %d\n", active);
}

// Works in a stream that nobody destroys, records in another, and frees behind the first.
static void use_and_leave(CUgreenCtx in, int i) {
  CUstream working = NULL, recording = NULL;
  CUdeviceptr freed = 0;
  CHECK(cuGreenCtxStreamCreate(&working, in, CU_STREAM_NON_BLOCKING, 0));
  CHECK(cuGreenCtxStreamCreate(&recording, in, CU_STREAM_NON_BLOCKING, 0));
  mix_on(working, buffers[2 * i], buffers[1]);
  CHECK(cuMemAlloc(&freed, BYTES));
  CHECK(cuMemFreeAsync(freed, working));
  CHECK(cuStreamBeginCapture(recording, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cuGreenCtxDestroy(in));
  TELL(cuStreamQuery(working));
}

int main(void) {
  for (int round = 0; round < 2; ++round) {
    begin();
    make_buffers();
    CUgreenCtx last = green();
    for (int i = 0; i < 2; ++i) use_and_leave(green(), i);
    // The end of a green context need not wait for its streams.
    CHECK(cuCtxSynchronize());
    mix_all(NULL);
    CHECK(cuDevicePrimaryCtxRelease(0));
    tell_whether_active();
    CHECK(cuGreenCtxDestroy(green()));
    tell_whether_active();
    show_buffers();
    CHECK(cuModuleUnload(image));
    CHECK(cuGreenCtxDestroy(last));
    tell_whether_active();
  }
  return 0;
}
