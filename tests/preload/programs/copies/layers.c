// SPDX-License-Identifier: Apache-2.0
// Copies of layers of rows.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  char* host = (char*)pattern(BYTES, 9);
  for (int i = 0; i < BUFFERS; ++i) {
    CUDA_MEMCPY3D copy = {0};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = buffers[i];
    copy.srcPitch = 1024;
    copy.srcHeight = 64;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = buffers[(i + 2) % BUFFERS];
    copy.dstPitch = 512;
    copy.dstHeight = 128;
    copy.WidthInBytes = 500;
    copy.Height = 60;
    copy.Depth = 50;
    CHECK(cuMemcpy3D(&copy));
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host;
    CHECK(cuMemcpy3DAsync(&copy, NULL));
    CHECK(cuStreamSynchronize(NULL));
  }
  free(host);
  return finish();
}
