// SPDX-License-Identifier: Apache-2.0
// A kernel traps, and the context is lost: from then on every call returns that error, whether its buffers are on the
// device or not, and whatever was freed before.
#include "tests/preload/programs/small.h"

static const char kTrap[] = PTX_HEADER ".visible .entry stop() {\n  trap;\n  ret;\n}\n";

int main(void) {
  CUmodule second = NULL;
  CUfunction stop = NULL;
  begin();
  make_buffers();
  CHECK(cuModuleLoadData(&second, kTrap));
  CHECK(cuModuleGetFunction(&stop, second, "stop"));
  for (int round = 0; round < 2; ++round) mix_all(NULL);
  // Memory that is freed in stream order can be reused only behind work that now never completes.
  CHECK(cuMemFreeAsync(buffers[5], NULL));
  CHECK(cuMemFreeAsync(buffers[7], NULL));
  CHECK(cuLaunchKernel(stop, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
  TELL(cuCtxSynchronize());
  for (int i = 0; i < 5; ++i) {
    TELL(cuMemcpyDtoD(buffers[i], buffers[(i + 1) % 5], 4));
    TELL(cuMemsetD32(buffers[i], 7, BYTES / 4));
    uint32_t word = 0;
    TELL(cuMemcpyDtoH(&word, buffers[i], sizeof word));
    TELL(cuMemcpyHtoDAsync(buffers[i], &word, sizeof word, NULL));
  }
  CUdeviceptr more = 0;
  TELL(cuMemAlloc(&more, 4 * BYTES));
  TELL(cuMemAllocAsync(&more, BYTES, NULL));
  TELL(cuMemFreeAsync(buffers[4], NULL));
  TELL(cuMemFree(buffers[3]));
  TELL(cuCtxSynchronize());
  return 0;
}
