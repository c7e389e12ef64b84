// SPDX-License-Identifier: Apache-2.0
// Pins host memory in each way, after buffers that took host memory have been freed.
#include "tests/preload/programs/small.h"

#define PINNED ((size_t)40 << 20)

static void use_and_free_buffers(void) {
  make_buffers();
  for (int i = 0; i < BUFFERS; ++i) mix_on(NULL, buffers[i], buffers[(i + 1) % BUFFERS]);
  CHECK(cuCtxSynchronize());
  for (int i = 0; i < BUFFERS; ++i) show("buffer", buffers[i], BYTES);
  for (int i = 0; i < BUFFERS; ++i) CHECK(cuMemFree(buffers[i]));
}

int main(void) {
  void* at = NULL;
  void* const own = aligned_alloc(4096, PINNED);
  begin();
  use_and_free_buffers();
  TELL(cuMemHostAlloc(&at, PINNED, 0));
  CHECK(cuMemFreeHost(at));
  use_and_free_buffers();
  TELL(cuMemAllocHost(&at, PINNED));
  CHECK(cuMemFreeHost(at));
  use_and_free_buffers();
  TELL(cuMemHostRegister(own, PINNED, 0));
  CHECK(cuMemHostUnregister(own));
  // More than there is stays refused.
  TELL(cuMemHostAlloc(&at, 2 * PINNED, 0));
  free(own);
  end();
  return 0;
}
