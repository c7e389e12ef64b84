// SPDX-License-Identifier: Apache-2.0
// The buffer that contains an address: for resident buffers, for evicted ones, and for small ones that share pages.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUdeviceptr small[3];
  for (int i = 0; i < 3; ++i) CHECK(cuMemAlloc(&small[i], 1000));
  mix_all(NULL);
  for (int i = 0; i < BUFFERS; ++i) {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CHECK(cuMemGetAddressRange(&base, &bytes, buffers[i] + BYTES - 1));
    printf("range %d %zu\n", base == buffers[i], bytes);
    CHECK(cuMemGetAddressRange(&base, NULL, buffers[i]));
    CHECK(cuMemGetAddressRange(NULL, &bytes, buffers[i]));
  }
  for (int i = 0; i < 3; ++i) {
    CUdeviceptr base = 0;
    CHECK(cuMemGetAddressRange(&base, NULL, small[i] + 999));
    printf("small %d\n", base == small[i]);
    CHECK(cuMemFree(small[i]));
  }
  TELL(cuMemGetAddressRange(NULL, NULL, 4096) != CUDA_SUCCESS);
  return finish();
}
