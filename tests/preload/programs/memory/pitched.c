// SPDX-License-Identifier: Apache-2.0
// Rows with padding between them.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUdeviceptr rows = 0;
  size_t pitch = 0;
  CHECK(cuMemAllocPitch(&rows, &pitch, 3000, 512, 4));
  CHECK(cuMemsetD2D8(rows, pitch, 7, 3000, 512));
  CUDA_MEMCPY2D copy = {0};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = buffers[1];
  copy.srcPitch = 3000;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = rows;
  copy.dstPitch = pitch;
  copy.WidthInBytes = 2000;
  copy.Height = 256;
  CHECK(cuMemcpy2D(&copy));
  mix_all(NULL);
  char* host = (char*)malloc((size_t)3000 * 512);
  copy.srcDevice = rows;
  copy.srcPitch = pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = host;
  copy.dstPitch = 3000;
  copy.WidthInBytes = 3000;
  copy.Height = 512;
  CHECK(cuMemcpy2D(&copy));
  show_bytes("rows", host, (size_t)3000 * 512);
  free(host);
  CHECK(cuMemFree(rows));
  return finish();
}
