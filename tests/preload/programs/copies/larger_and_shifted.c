// SPDX-License-Identifier: Apache-2.0
// Copies between two buffers, each of which nearly fills the budget, whose eviction units do not end at the same places
// of the copy: a part that fills one unit of the target needs two of the source.
#include "tests/preload/programs/small.h"

#define LARGE (((size_t)64 << 20) - 4096)

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
  begin();
  CHECK(cuMemAlloc(&a, LARGE));
  CHECK(cuMemAlloc(&b, LARGE));
  fill(a, LARGE, 1);
  fill(b, LARGE, 2);
  CHECK(cuCtxSynchronize());
  say("filled", a, b);
  CHECK(cuMemcpyDtoD(b, a + 4096, LARGE - 4096));
  CHECK(cuCtxSynchronize());
  say("shifted", a, b);
  CHECK(cuMemFree(a));
  CHECK(cuMemFree(b));
  end();
  return 0;
}
