// SPDX-License-Identifier: Apache-2.0
// Copies and sets of two buffers, each of which nearly fills the budget: only one of them can be on the device at a
// time, so operations on both are done in parts.
#include "tests/preload/programs/small.h"

#define LARGE (((size_t)80 << 20) - 4096)

static uint64_t digest_of(CUdeviceptr from) {
  uint32_t* words = (uint32_t*)malloc(LARGE);
  uint64_t digest = 1469598103934665603u;
  CHECK(cuMemcpyDtoH(words, from, LARGE));
  for (size_t i = 0; i < LARGE / sizeof *words; ++i) digest = (digest ^ words[i]) * 1099511628211u;
  free(words);
  return digest;
}

static void say(const char* what, CUdeviceptr a, CUdeviceptr b) {
  printf("%s %016llx %016llx\n", what, (unsigned long long)digest_of(a), (unsigned long long)digest_of(b));
}

int main(void) {
  CUdeviceptr a = 0, b = 0;
  CUstream stream = NULL;
  uint32_t word = 0;
  begin();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&a, LARGE));
  CHECK(cuMemAlloc(&b, LARGE));
  fill(a, LARGE, 1);
  CHECK(cuMemsetD16(b, 0x1234, LARGE / 2));
  CHECK(cuCtxSynchronize());
  say("filled", a, b);
  CHECK(cuMemcpyDtoDAsync(b, a, LARGE, stream));
  CHECK(cuMemsetD32Async(a, 7, LARGE / 4, stream));
  CHECK(cuStreamSynchronize(stream));
  say("copied", a, b);
  CHECK(cuMemcpy(a + 4096, b, LARGE - 8192));
  CHECK(cuMemsetD8(b + 3, 9, LARGE - 5));
  CHECK(cuMemcpyDtoH(&word, a + ((size_t)50 << 20), sizeof word));
  printf("word %08x\n", word);
  CHECK(cuCtxSynchronize());
  say("moved", a, b);
  CHECK(cuMemcpyAsync(a, b, LARGE, stream));
  CHECK(cuStreamSynchronize(stream));
  say("again", a, b);
  CHECK(cuMemFree(a));
  CHECK(cuMemFree(b));
  CHECK(cuStreamDestroy(stream));
  end();
  return 0;
}
