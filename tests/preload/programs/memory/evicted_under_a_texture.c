// SPDX-License-Identifier: Apache-2.0
// Textures are created over buffers that are not on the device at the moment, and read at once, by kernels that name
// nothing else of these buffers.
#include "tests/preload/programs/waiting.h"

#define ROUNDS 6

static void read_at_once(CUstream reading, unsigned round) {
  CUdeviceptr under = 0;
  CHECK(cuMemAlloc(&under, BYTES));
  fill(under, BYTES, round);
  for (int i = 0; i + 1 < BUFFERS; ++i) mix_on(NULL, buffers[i], buffers[i + 1]);
  const CUdeviceptr texture = texture_of(under, BYTES);
  launch_mix(kernel("mix_line"), reading, buffers[round % BUFFERS], texture, BYTES);
  CHECK(cuCtxSynchronize());
  CHECK(cuTexObjectDestroy(texture));
  CHECK(cuMemFree(under));
}

int main(void) {
  CUstream reading;
  begin();
  make_buffers();
  CHECK(cuStreamCreate(&reading, CU_STREAM_DEFAULT));
  for (unsigned round = 0; round < ROUNDS; ++round) read_at_once(reading, round);
  CHECK(cuStreamDestroy(reading));
  return finish();
}
