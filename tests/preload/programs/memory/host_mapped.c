// SPDX-License-Identifier: Apache-2.0
// Host memory with a device address, together with the library's memory.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  void* host = NULL;
  CUdeviceptr on_device = 0;
  CHECK(cuMemHostAlloc(&host, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
  CHECK(cuMemHostGetDevicePointer(&on_device, host, 0));
  for (int i = 0; i < BUFFERS; ++i) {
    CHECK(cuMemcpyDtoD(on_device, buffers[i], BYTES));
    CHECK(cuCtxSynchronize());
    show_bytes("mapped", host, BYTES);
    CHECK(cuMemcpyDtoD(buffers[(i + 1) % BUFFERS], on_device, BYTES / 2));
  }
  mix_all(NULL);
  CHECK(cuMemFreeHost(host));
  return finish();
}
