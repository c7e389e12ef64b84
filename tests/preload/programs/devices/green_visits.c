// SPDX-License-Identifier: Apache-2.0
// Copies of the first device's memory in streams of green contexts of the second, which end with these.
#include "tests/preload/programs/several.h"

static CUgreenCtx green(void) {
  CUdevResource resource;
  CUdevResourceDesc description = NULL;
  CUgreenCtx made = NULL;
  CHECK(cuDeviceGetDevResource(1, &resource, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(cuDevResourceGenerateDesc(&description, &resource, 1));
  CHECK(cuGreenCtxCreate(&made, description, 1, CU_GREEN_CTX_DEFAULT_STREAM));
  return made;
}

int main(void) {
  void* pinned = NULL;
  open_device(0);
  open_device(1);
  CHECK(cuMemHostAlloc(&pinned, BYTES, CU_MEMHOSTALLOC_PORTABLE));
  make_buffers_on(0);
  for (int round = 0; round < 8; ++round) {
    step_on(0);
    on(0);
    CHECK(cuCtxSynchronize());
    CUgreenCtx visitor = green();
    CUcontext there = NULL;
    CUstream stream = NULL;
    CHECK(cuCtxFromGreenCtx(&there, visitor));
    CHECK(cuGreenCtxStreamCreate(&stream, visitor, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuCtxSetCurrent(there));
    CHECK(cuMemcpyDtoHAsync(pinned, places[0].buffers[round], BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
    show_bytes("visited", (const unsigned char*)pinned, BYTES);
    CHECK(cuMemcpyHtoDAsync(places[0].buffers[(round + 1) % BUFFERS], pinned, BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
    on(1);
    CHECK(cuGreenCtxDestroy(visitor));
  }
  show_device(0);
  CHECK(cuMemFreeHost(pinned));
  close_device(1);
  close_device(0);
  return 0;
}
