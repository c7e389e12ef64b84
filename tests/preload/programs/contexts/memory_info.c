// SPDX-License-Identifier: Apache-2.0
// Free memory decreases by what is allocated and increases by what is freed; either result may be left out.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  size_t before = 0, total = 0, then = 0, after = 0;
  CHECK(cuMemGetInfo(&before, &total));
  make_buffers();
  CHECK(cuMemGetInfo(&then, NULL));
  CHECK(cuMemGetInfo(NULL, &total));
  printf("consistent %d %d\n", before <= total, then <= before);
  mix_all(NULL);
  show_buffers();
  free_buffers();
  CHECK(cuCtxSynchronize());
  CHECK(cuMemGetInfo(&after, &total));
  printf("all back %d\n", after >= before);
  TELL(cuMemGetInfo(NULL, NULL));
  // A program that sizes its buffers by what is free gets them.
  const size_t bytes = after / 2 < 16 * BYTES ? after / 2 : 16 * BYTES;
  CUdeviceptr large = 0;
  CHECK(cuMemAlloc(&large, bytes));
  CHECK(cuMemsetD8(large, 5, bytes));
  CHECK(cuMemFree(large));
  end();
  return 0;
}
