// SPDX-License-Identifier: Apache-2.0
// Memory that is freed, and then asked for in another size, in each way in which a program gets memory of the driver. To
// be run on a device, or under a budget, that has no room for both. Only the last kernel mixes, and nothing is shown of
// it: that depends on how often the driver was asked.
#include "tests/preload/programs/small.h"

#define ROUND_BYTES ((size_t)16 << 20)

static void use_and_free_buffers(unsigned char value, int count) {
  CUdeviceptr all[4];
  for (int i = 0; i < count; ++i) {
    CHECK(cuMemAlloc(&all[i], BYTES));
    CHECK(cuMemsetD8Async(all[i], (unsigned char)(value + i), BYTES, NULL));
  }
  for (int i = 1; i < count; ++i) CHECK(cuMemcpyDtoDAsync(all[i] + BYTES / 2, all[i - 1], BYTES / 2, NULL));
  for (int i = 0; i < count; ++i) show("small", all[i], BYTES);
  for (int i = 0; i < count; ++i) CHECK(cuMemFree(all[i]));
}

static void use(const char* name, CUdeviceptr memory) {
  CHECK(cuMemsetD8(memory, 7, ROUND_BYTES));
  show(name, memory, ROUND_BYTES);
}

int main(void) {
  CUdeviceptr memory = 0;
  CUarray array = NULL;
  size_t pitch = 0;
  begin();
  use_and_free_buffers(1, 4);
  CHECK(cuMemAlloc(&memory, ROUND_BYTES));
  use("buffer", memory);
  CHECK(cuMemFree(memory));
  use_and_free_buffers(2, 4);
  CHECK(cuMemAllocAsync(&memory, ROUND_BYTES, NULL));
  use("in order", memory);
  CHECK(cuMemFreeAsync(memory, NULL));
  CHECK(cuStreamSynchronize(NULL));
  use_and_free_buffers(3, 4);
  CHECK(cuMemAllocManaged(&memory, ROUND_BYTES, CU_MEM_ATTACH_GLOBAL));
  use("managed", memory);
  CHECK(cuMemFree(memory));
  use_and_free_buffers(4, 4);
  CHECK(cuMemAllocPitch(&memory, &pitch, 4096, ROUND_BYTES / 4096, 16));
  use("pitched", memory);
  CHECK(cuMemFree(memory));
  use_and_free_buffers(5, 4);
  const CUDA_ARRAY_DESCRIPTOR descriptor = {
      .Width = 2048, .Height = ROUND_BYTES / 8192, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
  CHECK(cuArrayCreate(&array, &descriptor));
  CHECK(cuArrayDestroy(array));
  use_and_free_buffers(6, 4);
  // Its code takes memory at the first launch.
  CHECK(cuMemAlloc(&memory, BYTES));
  mix_on(NULL, memory, memory);
  CHECK(cuMemFree(memory));
  end();
  return 0;
}
