// SPDX-License-Identifier: Apache-2.0
// A texture over a small buffer whose neighbor got the memory of one that a blocked stream still uses: this thread is the one
// that lets the stream go on, so nothing here may wait for it.
#include "tests/preload/programs/waiting.h"

#define SMALL 65536

static int go_on;

static void CUDA_CB until(void* user) {
  (void)user;
  while (__atomic_load_n(&go_on, __ATOMIC_ACQUIRE) == 0) usleep(1000);
}

int main(void) {
  CUdeviceptr read = 0, freed = 0, beside = 0;
  CUstream stream;
  alarm(MOST_SECONDS);
  begin();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&read, SMALL));
  CHECK(cuMemAlloc(&freed, SMALL));
  CHECK(cuMemsetD32(read, 1, SMALL / 4));
  CHECK(cuMemsetD32(freed, 2, SMALL / 4));
  CHECK(cuCtxSynchronize());
  CHECK(cuLaunchHostFunc(stream, until, NULL));
  CHECK(cuMemsetD32Async(freed, 3, SMALL / 4, stream));
  CHECK(cuMemFreeAsync(freed, stream));
  CHECK(cuMemAlloc(&beside, SMALL));
  const CUtexObject texture = texture_of(read, SMALL);
  __atomic_store_n(&go_on, 1, __ATOMIC_RELEASE);
  CHECK(cuCtxSynchronize());
  show("read", read, SMALL);
  CHECK(cuTexObjectDestroy(texture));
  CHECK(cuMemFree(read));
  CHECK(cuMemFree(beside));
  CHECK(cuStreamDestroy(stream));
  end();
  return 0;
}
