// SPDX-License-Identifier: Apache-2.0
// A batch of which one copy is refused: those before it have been submitted.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int round = 0; round < BUFFERS; ++round) {
    // The first target is brought back and only read, so that its copy on the host stays what it was.
    CUdeviceptr to[2] = {buffers[round], 0};
    CUdeviceptr from[2] = {buffers[(round + 1) % BUFFERS], buffers[(round + 3) % BUFFERS]};
    size_t bytes[2] = {BYTES, BYTES};
    CUmemcpyAttributes attributes = {0};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    size_t first = 0;
    CHECK(cuMemcpyDtoDAsync(buffers[(round + 4) % BUFFERS], to[0], BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
    TELL(cuMemcpyBatchAsync(to, from, bytes, 2, &attributes, &first, 1, stream));
    CHECK(cuStreamSynchronize(stream));
    for (int i = 5; i < BUFFERS; ++i) {
      CHECK(cuMemcpyDtoDAsync(buffers[(round + i) % BUFFERS], buffers[(round + i + 1) % BUFFERS], BYTES, stream));
    }
    CHECK(cuStreamSynchronize(stream));
  }
  CHECK(cuStreamDestroy(stream));
  return finish();
}
