// SPDX-License-Identifier: Apache-2.0
// Parameters as one block.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  for (int i = 0; i < BUFFERS; ++i) {
    CUdeviceptr block[2] = {buffers[i], buffers[(i + 3) % BUFFERS]};
    size_t bytes = sizeof block;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CHECK(cuLaunchKernel(mix, 64, 1, 1, 128, 1, 1, 0, NULL, NULL, extra));
  }
  return finish();
}
