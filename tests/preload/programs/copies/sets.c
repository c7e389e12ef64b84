// SPDX-License-Identifier: Apache-2.0
// Sets of one, two and four bytes, of ranges and rows, synchronous and in stream order.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CHECK(cuMemsetD8(buffers[0] + 1, 1, 1001));
  CHECK(cuMemsetD16(buffers[1] + 2, 2, 1001));
  CHECK(cuMemsetD32(buffers[2] + 4, 3, 1001));
  CHECK(cuMemsetD2D8(buffers[3], 4096, 4, 999, 777));
  CHECK(cuMemsetD2D16(buffers[4], 4096, 5, 999, 777));
  CHECK(cuMemsetD2D32(buffers[5], 4096, 6, 999, 777));
  CHECK(cuMemsetD8Async(buffers[6] + 1, 7, 1001, NULL));
  CHECK(cuMemsetD16Async(buffers[7] + 2, 8, 1001, NULL));
  CHECK(cuMemsetD32Async(buffers[0] + 8192, 9, 1001, NULL));
  CHECK(cuMemsetD2D8Async(buffers[1] + 8192, 2048, 10, 55, 77, NULL));
  CHECK(cuMemsetD2D16Async(buffers[2] + 8192, 2048, 11, 55, 77, NULL));
  CHECK(cuMemsetD2D32Async(buffers[3] + 8192, 2048, 12, 55, 77, NULL));
  return finish();
}
