// SPDX-License-Identifier: Apache-2.0
// Copies of rows, to and from the host and between buffers.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  char* host = (char*)pattern(BYTES, 5);
  for (int i = 0; i < BUFFERS; ++i) {
    CUDA_MEMCPY2D copy = {0};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = buffers[i];
    copy.srcPitch = 4096;
    copy.srcXInBytes = 128;
    copy.srcY = 3;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = buffers[(i + 1) % BUFFERS];
    copy.dstPitch = 2048;
    copy.WidthInBytes = 1500;
    copy.Height = 900;
    CHECK(i % 2 == 0 ? cuMemcpy2D(&copy) : cuMemcpy2DUnaligned(&copy));
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = host;
    CHECK(cuMemcpy2DAsync(&copy, NULL));
    copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    CHECK(cuStreamSynchronize(NULL));
    CHECK(cuMemcpy2D(&copy));
  }
  show_bytes("host", host, BYTES);
  free(host);
  return finish();
}
