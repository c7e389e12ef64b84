// SPDX-License-Identifier: Apache-2.0
// CUDA managed memory is left to the driver, and is used together with the library's.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUdeviceptr managed = 0;
  CHECK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
  unsigned int is_managed = 0;
  CHECK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
  printf("managed %u\n", is_managed);
  CHECK(cuMemsetD32(managed, 11, BYTES / 4));
  for (int i = 0; i < BUFFERS; ++i) mix_on(NULL, i % 2 == 0 ? buffers[i] : managed, i % 2 == 0 ? managed : buffers[i]);
  CHECK(cuCtxSynchronize());
  show_bytes("managed", (const void*)managed, BYTES);
  CHECK(cuMemFree(managed));
  return finish();
}
