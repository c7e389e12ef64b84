// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies from and to host memory that the program registered.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  void* host = aligned_alloc(4096, BYTES);
  CHECK(cuMemHostRegister(host, BYTES, 0));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < BUFFERS; ++i) {
    CHECK(cuMemcpyDtoHAsync(host, buffers[i], BYTES, stream));
    CHECK(cuMemcpyHtoDAsync(buffers[(i + 1) % BUFFERS], host, BYTES, stream));
    mix_on(stream, buffers[i], buffers[(i + 1) % BUFFERS]);
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuMemHostUnregister(host));
  free(host);
  return finish();
}
