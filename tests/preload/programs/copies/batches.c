// SPDX-License-Identifier: Apache-2.0
// Many copies in one call.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int round = 0; round < BUFFERS - 3; ++round) {
    CUdeviceptr to[2] = {buffers[round], buffers[round + 1]};
    CUdeviceptr from[2] = {buffers[round + 2], buffers[round + 3]};
    size_t bytes[2] = {BYTES / 2, BYTES};
    CUmemcpyAttributes attributes = {0};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    size_t first = 0;
    CHECK(cuMemcpyBatchAsync(to, from, bytes, 2, &attributes, &first, 1, stream));
    mix_on(stream, to[1], from[0]);
  }
  // Sources that may be read before their turn in the stream: all that writes them is over.
  for (int round = 0; round < BUFFERS; ++round) {
    CUdeviceptr to = buffers[round], from = buffers[(round + 3) % BUFFERS];
    size_t bytes = BYTES, first = 0;
    CUmemcpyAttributes attributes = {0};
    attributes.srcAccessOrder =
        round % 2 == 0 ? CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL : CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, stream));
    mix_on(stream, to, from);
  }
  CHECK(cuStreamSynchronize(stream));
  CUDA_MEMCPY3D_BATCH_OP nothing = {0};
  TELL(cuMemcpy3DBatchAsync(1, &nothing, 0, stream) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(stream));
  return finish();
}
