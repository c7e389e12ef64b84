// SPDX-License-Identifier: Apache-2.0
// Sizes itself by what it is told, as programs do: takes what is free, up to 32 MiB in buffers of 4 MiB, uses it, and
// prints what it was told before and then, in MiB.
#include "tests/preload/programs/small.h"

static size_t tell(const char* when) {
  size_t free_bytes = 0, total = 0;
  CHECK(cuMemGetInfo(&free_bytes, &total));
  printf("%s: total %zu, free %zu\n", when, total >> 20, free_bytes >> 20);
  return free_bytes;
}

int main(void) {
  begin();
  size_t taken = tell("before") / BYTES;
  if (taken > BUFFERS) taken = BUFFERS;
  for (size_t i = 0; i < taken; ++i) {
    CHECK(cuMemAlloc(&buffers[i], BYTES));
    CHECK(cuMemsetD8(buffers[i], (unsigned char)i, BYTES));
  }
  printf("took %zu\n", taken * BYTES >> 20);
  tell("then");
  for (size_t i = 0; i < taken; ++i) CHECK(cuMemFree(buffers[i]));
  buffers[0] = 0;
  end();
  return 0;
}
