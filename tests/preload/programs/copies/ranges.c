// SPDX-License-Identifier: Apache-2.0
// Copies of one range, synchronous and in stream order.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  void* host = pattern(BYTES, 77);
  for (int i = 0; i < BUFFERS; ++i) {
    const CUdeviceptr from = buffers[i], to = buffers[(i + 5) % BUFFERS];
    CHECK(cuMemcpyHtoD(from + 4096, host, BYTES / 4));
    CHECK(cuMemcpyDtoD(to, from, BYTES / 2));
    CHECK(cuMemcpyDtoH(host, to, BYTES / 2));
    CHECK(cuMemcpy(to + BYTES / 2, from, 1000));
    CHECK(cuStreamSynchronize(NULL));
    CHECK(cuMemcpyHtoDAsync(to + 100, host, 999, stream));
    CHECK(cuMemcpyDtoDAsync(from, to, BYTES / 8, stream));
    CHECK(cuMemcpyAsync(from + BYTES / 2, to, BYTES / 8, stream));
    CHECK(cuMemcpyDtoHAsync(host, from, BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
  }
  show_bytes("host", host, BYTES);
  free(host);
  CHECK(cuStreamDestroy(stream));
  return finish();
}
