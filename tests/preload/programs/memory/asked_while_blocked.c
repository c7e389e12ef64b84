// SPDX-License-Identifier: Apache-2.0
// Memory is freed before a stream is blocked by a value, and more is asked for before the same thread writes the value.
// To be run on a device, or under a budget, that has no room for both.
#include "tests/preload/programs/waiting.h"

int main(void) {
  CUstream blocked, working;
  CUdeviceptr small[4], large = 0;
  begin();
  begin_to_wait();
  CHECK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&working, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 4; ++i) {
    CHECK(cuMemAlloc(&small[i], BYTES));
    CHECK(cuMemsetD8Async(small[i], (unsigned char)i, BYTES, working));
  }
  for (int i = 0; i < 4; ++i) CHECK(cuMemFree(small[i]));
  block(blocked, 1);
  CHECK(cuMemAlloc(&large, 4 * BYTES));
  CHECK(cuMemsetD8Async(large, 9, 4 * BYTES, working));
  release(working, 1);
  CHECK(cuStreamSynchronize(blocked));
  CHECK(cuStreamSynchronize(working));
  show("large", large, 4 * BYTES);
  CHECK(cuMemFree(large));
  CHECK(cuMemFreeHost(word));
  CHECK(cuStreamDestroy(blocked));
  CHECK(cuStreamDestroy(working));
  end();
  return 0;
}
